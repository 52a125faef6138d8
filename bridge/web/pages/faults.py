"""The page of contradictions and of duplicates that adapters absorbed.

A contradiction is between chains, or between a chain and the index.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fastapi import Response

from bridge.protocol.indexed import DuplicateRecord
from bridge.protocol.numbers import count, counted
from bridge.queries.lanes import lane_name
from bridge.web.cells import (
    Cell,
    Section,
    Table,
    coded,
    cut,
    gmp,
    joined,
    message_link,
    moment,
    quiet,
    state,
    words,
)
from bridge.web.explorer import Explorer

_MOST_FAULTS: Final = 200
_MOST_DUPLICATES: Final = 1_000
_BURST: Final = 600  # maximum seconds between two duplicates of one burst


def faults(explorer: Explorer) -> Response:
    """Shows contradictions, worst first, and bursts of duplicates, newest first."""
    sections = [_contradictions(explorer), _duplicates(explorer)]
    return explorer.sections("Faults", sections, here="/faults", live=("sections",))


def _contradictions(explorer: Explorer) -> Section:
    index = explorer.sources.index()
    found = explorer.list.divergences.recent(explorer.settings.patience) if index else None
    rows: list[list[Cell]] = [
        [
            state(one.severity),
            words(one.kind),
            message_link(one.message_id) if one.message_id else quiet("the whole lane"),
            lane_name(explorer.sources.deployment, one.source_chain, one.destination_chain),
            cut(one.evidence),
            coded(cut(explorer.sources.with_network(one.next_action))),
        ]
        for one in (found.records[:_MOST_FAULTS] if found else ())
    ]
    columns = ("Severity", "What", "Message", "Lane", "Evidence", "Next")
    empty = "None: the chains and the index agree." if found else "Being computed."
    shown = empty if index else "No index has run yet."
    table = Table(label="Contradictions", columns=columns, rows=rows, empty=shown)
    return Section(title="Contradictions", table=table)


def _duplicates(explorer: Explorer) -> Section:
    index = explorer.sources.index()
    rows: list[list[Cell]] = [
        [
            gmp(burst[0].gmp),
            explorer.sources.chain_name(burst[0].chain_id),
            count(len(burst)),
            counted(len({one.message_id for one in burst}), "message"),
            message_link(burst[0].message_id),
            joined([moment(burst[-1].block_time), moment(burst[0].block_time)], " – "),
        ]
        for burst in bursts(index.duplicates(limit=_MOST_DUPLICATES) if index else ())
    ]
    columns = ("GMP", "On", "Deliveries", "Of", "Newest", "When")
    table = Table(label="Duplicates", columns=columns, rows=rows, empty="No GMP has delivered a message twice.")
    note = "Grouped where one followed another within ten minutes."
    return Section(title="Duplicates that were absorbed", note=note, table=table)


def bursts(duplicates: Iterable[DuplicateRecord]) -> list[list[DuplicateRecord]]:
    """Groups consecutive duplicates of the same GMP on the same chain, newest first."""
    open_bursts: dict[tuple[int, int], list[DuplicateRecord]] = {}
    found: list[list[DuplicateRecord]] = []
    for one in sorted(duplicates, key=lambda one: -one.block_time):
        burst = open_bursts.get((one.gmp, one.chain_id))
        if burst is None or burst[-1].block_time - one.block_time > _BURST:
            burst = open_bursts[one.gmp, one.chain_id] = []
            found.append(burst)
        burst.append(one)
    return found
