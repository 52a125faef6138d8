"""The landing page, and the operators' view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fastapi import Response

from bridge.protocol.indexed import ChainRecord
from bridge.protocol.numbers import count, duration, percent
from bridge.protocol.status import Status
from bridge.queries.lanes import behind, lane_name
from bridge.records.outbox import QueueCount
from bridge.store import Store
from bridge.web.cells import Cell, Section, Table, coded, cut, gmp, joined, quiet, state, tiles
from bridge.web.explorer import NO_INDEX, Explorer
from bridge.web.listing import read_listing
from bridge.web.pages.messages import message_table

_LATEST: Final = 15
"""Messages on the landing page."""


def landing(explorer: Explorer) -> Response:
    """Shows the search, four figures, problems, and the latest messages."""
    patience = explorer.settings.patience
    problems, day = explorer.problems.recent(patience), explorer.day.recent(patience)
    figures = [
        ("Messages in 24 h", count(day.messages) if day else "–", "/messages"),
        ("Success rate", percent(day.executed, day.messages) if day else "–", "/messages?status=EXECUTED"),
        ("Median time", duration(day.median) or "–" if day else "–", "/lanes"),
        ("Open problems", count(len(problems)) if problems is not None else "–", "/status"),
    ]
    page, network = explorer.list.page(read_listing(explorer.sources, {}), _LATEST), explorer.sources.deployment.network
    return explorer.page(
        "landing.html",
        "Messages",
        here="/",
        about=problems[0].text
        if problems
        else network
        if problems is None
        else f"Nothing needs attention on {network}.",
        live=("figures", "problems", "as-of", "rows"),
        figures=figures,
        problems=problems,
        is_brief=True,
        table=message_table(explorer, page.messages if page else (), "No message yet."),
        note=coded(NO_INDEX) if explorer.sources.index() is None else "",
    )


def status(explorer: Explorer) -> Response:
    """Shows problems with their commands, messages by state, chains, and open deliveries."""
    store, index = explorer.sources.store(), explorer.sources.index()
    found = explorer.problems.recent(explorer.settings.patience)
    problems = [
        one if one.command is None else replace(one, command=explorer.sources.with_network(one.command))
        for one in found or ()
    ]
    counts = explorer.list.by_status() or {}
    order = sorted(Status, key=lambda status: status is not Status.DIVERGED)  # contradictions come first
    sections = [
        Section(title="Chains", table=_chain_table(explorer, index.chains() if index else [], store)),
        Section(
            title="Deliveries",
            note="" if store else coded("No relayer has run here yet. Start it: `waybill relayer run`"),
            table=_queue_table(explorer, store.outbox.counts() if store else ()),
        ),
    ]
    return explorer.page(
        "status.html",
        "Status",
        here="/status",
        problems=None if found is None else problems,
        has_problems=True,
        is_brief=False,
        tiles=tiles({one: counts[one] for one in order if one in counts}, "/messages?status="),
        sections=sections,
        is_waiting=found is None,
    )


def _queue_table(explorer: Explorer, counts: Sequence[QueueCount]) -> Table:
    rows: list[list[Cell]] = [
        [
            lane_name(explorer.sources.deployment, one.source_chain, one.destination_chain),
            gmp(one.gmp),
            state(one.state, "bad" if one.state == "DEAD" else "plain"),
            count(one.count),
            count(one.failing),
        ]
        for one in counts
        if one.state != "DELIVERED"
    ]
    columns = ("Lane", "GMP", "State", "Deliveries", "Failed at least once")
    return Table(label="Deliveries", columns=columns, rows=rows, empty="No open deliveries.")


def _chain_table(explorer: Explorer, chains: Sequence[ChainRecord], store: Store | None) -> Table:
    rows: list[list[Cell]] = []
    for chain in chains:
        cursor = store.observations.cursor(chain.chain_id) if store else None
        rows.append(
            [
                joined([explorer.sources.chain_name(chain.chain_id), quiet(str(chain.chain_id))]),
                count(chain.block),
                f"{count(behind(chain))} blocks, {duration(chain.lag_seconds)}",
                count(chain.final_block) if chain.final_block >= 0 else "none yet",
                count(cursor.position.number) if cursor else "not run",
                joined([state("halted", "bad"), cut(chain.halted)]) if chain.halted else state("read", "good"),
            ]
        )
    columns = ("Chain", "Indexed to", "Behind", "Final", "Relayer read to", "State")
    return Table(label="Chains", columns=columns, rows=rows, empty="No index has run yet.")
