"""The landing page, and the operators' view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from fastapi import Response

from bridge.protocol.indexed import ChainRecord
from bridge.protocol.numbers import count, duration, percent
from bridge.protocol.status import Status
from bridge.queries.lanes import behind, lane_name
from bridge.records.outbox import QueueCount
from bridge.web.cells import Cell, Section, Table, Tile, coded, cut, gmp, joined, quiet, state
from bridge.web.explorer import NO_INDEX, Explorer, look
from bridge.web.live import fingerprint
from bridge.web.pages.messages import message_table
from bridge.web.rendering import render
from bridge.web.search import read_listing

_LATEST: Final = 15
"""Messages on the landing page."""


class LandingPages:
    """See the module."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.sources = explorer.sources

    def landing(self) -> Response:
        """The search, four figures, problems, and the latest messages."""
        parts = self.landing_parts()
        seen = {name: fingerprint(html) for name, html in parts.items()}
        problems = look(self.explorer.problems, 0) or []
        about = problems[0].text if problems else f"Nothing needs attention on {self.sources.deployment.network}."
        return self.explorer.page("landing.html", "Messages", here="/", parts=parts, seen=seen, about=about)

    def landing_parts(self) -> dict[str, str]:
        """The live parts of the landing page."""
        as_of = self.explorer.as_of()  # read first and sent last: never newer than what it stands over
        patience = self.explorer.settings.patience
        problems, day = look(self.explorer.problems, patience), look(self.explorer.day, patience)
        figures = [
            ("Messages", count(day.messages) if day else "–", "/messages"),
            ("Success rate", percent(day.executed, day.messages) if day else "–", "/messages?status=EXECUTED"),
            ("Median time", duration(day.median) or "–" if day else "–", "/lanes"),
            ("Open problems", count(len(problems)) if problems is not None else "–", "/status"),
        ]
        return {
            "figures": render("_figures.html", figures=figures),
            "problems": render("_problems.html", problems=problems, is_brief=True),
            "rows": self._latest(),
            "as_of": as_of,
        }

    def _latest(self) -> str:
        index = self.sources.index()
        if index is None:
            return render("_note.html", text=coded(NO_INDEX))
        page = self.explorer.list.page(read_listing(self.sources, {}), _LATEST)
        return render(
            "_table.html", table=message_table(self.explorer, page.messages if page else (), "No message yet.")
        )

    def status(self) -> Response:
        """Problems with their commands, messages by state, chains, and deliveries that are not finished."""
        explorer, store, index = self.explorer, self.sources.store(), self.sources.index()
        found = look(explorer.problems, explorer.settings.patience)
        problems = [
            one if one.command is None else replace(one, command=self.sources.command(one.command))
            for one in found or ()
        ]
        sections = [
            Section(title="Chains", table=self._chain_table(index.chains() if index else [])),
            Section(
                title="Deliveries",
                note="" if store else coded("No relayer has run here yet. Start it: `waybill relayer run`"),
                table=self._queue_table(store.outbox.counts() if store else ()),
            ),
        ]
        return explorer.page(
            "status.html",
            "Status",
            here="/status",
            problems=render("_problems.html", problems=None if found is None else problems, is_brief=False),
            tiles=_tiles(explorer.list.by_status() or {}),
            sections=sections,
            is_waiting=found is None,
        )

    def _queue_table(self, counts: Sequence[QueueCount]) -> Table:
        rows: list[list[Cell]] = [
            [
                lane_name(self.sources.deployment, one.source_chain, one.destination_chain),
                gmp(one.gmp),
                state(one.state, "bad" if one.state == "DEAD" else "plain"),
                count(one.count),
                count(one.failing),
            ]
            for one in counts
            if one.state != "DELIVERED"
        ]
        columns = ("Lane", "GMP", "State", "Deliveries", "Failed at least once")
        return Table(label="Deliveries", columns=columns, rows=rows, empty="None waits.")

    def _chain_table(self, chains: Sequence[ChainRecord]) -> Table:
        read = {
            one.chain_id: one
            for one in self.explorer.relayer.look(
                self.sources.deployment, self.sources.store(), self.sources.index(), self.sources.clock()
            )
        }
        rows: list[list[Cell]] = []
        for chain in chains:
            relayer = read.get(chain.chain_id)
            rows.append(
                [
                    joined([self.sources.chain_name(chain.chain_id), quiet(str(chain.chain_id))]),
                    count(chain.block),
                    f"{count(behind(chain))} blocks, {duration(chain.lag_seconds)}",
                    count(chain.final_block) if chain.final_block >= 0 else "none yet",
                    f"{count(relayer.block)}{f', {count(relayer.waiting)} to go' if relayer.waiting else ''}"
                    if relayer
                    else "not run",
                    joined([state("halted", "bad"), cut(chain.halted)]) if chain.halted else state("read", "good"),
                ]
            )
        columns = ("Chain", "Indexed to", "Behind", "Final", "Relayer read to", "State")
        return Table(label="Chains", columns=columns, rows=rows, empty="No index has run yet.")


def _tiles(counts: Mapping[Status, int]) -> list[Tile]:
    """Messages by state; contradictions come first."""
    order = sorted(Status, key=lambda status: status is not Status.DIVERGED)
    return [Tile(count(counts[one]), state(one), f"/messages?status={one.value}") for one in order if counts.get(one)]
