"""Contradictions between chains, and duplicates that were absorbed."""

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
    link,
    message_link,
    moment,
    quiet,
    state,
    words,
)
from bridge.web.explorer import Explorer
from bridge.web.live import fingerprint
from bridge.web.pages.lanes import lane_path
from bridge.web.rendering import render

_MOST_FAULTS: Final = 200
_MOST_DUPLICATES: Final = 1_000
_BURST: Final = 600  # seconds between two duplicates of the same burst


class FaultPages:
    """See the module."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.sources = explorer.sources

    def faults(self) -> Response:
        """Contradictions, and bursts of duplicates."""
        parts = self.live_faults()
        seen = {name: fingerprint(html) for name, html in parts.items()}
        return self.explorer.page("faults.html", "Faults", here="/faults", parts=parts, seen=seen)

    def live_faults(self) -> dict[str, str]:
        """The live parts of the page of faults."""
        index, as_of = self.sources.index(), self.explorer.as_of()
        found = self.explorer.list.divergences.look(self.explorer.settings.patience) if index else None
        rows: list[list[Cell]] = [
            [
                state(one.severity),
                words(one.kind),
                message_link(one.message_id) if one.message_id else quiet("the whole lane"),
                link(
                    lane_path(self.sources, (one.source_chain, one.destination_chain)),
                    lane_name(self.sources.deployment, one.source_chain, one.destination_chain),
                ),
                cut(one.evidence),
                coded(cut(self.sources.commands_in(one.next_action))),
            ]
            for one in (found.value[:_MOST_FAULTS] if found else ())
        ]
        columns = ("Severity", "What", "Message", "Lane", "Evidence", "Next")
        empty = "None: the chains and the index agree." if found else "Being computed."
        contradictions = Table(
            label="Contradictions", columns=columns, rows=rows, empty=empty if index else "No index has run yet."
        )
        bursts = [
            [
                gmp(burst[0].gmp),
                self.sources.chain_name(burst[0].chain_id),
                count(len(burst)),
                counted(len({one.message_id for one in burst}), "message"),
                message_link(burst[0].message_id),
                joined([moment(burst[-1].block_time), moment(burst[0].block_time)], " – "),
            ]
            for burst in _bursts(index.duplicates(limit=_MOST_DUPLICATES) if index else ())
        ]
        columns = ("GMP", "On", "Deliveries", "Of", "Newest", "When")
        duplicates = Table(
            label="Duplicates", columns=columns, rows=bursts, empty="No GMP has delivered a message twice."
        )
        sections = [
            Section(title="Contradictions", table=contradictions),
            Section(
                title="Duplicates that were absorbed",
                note="Together where one followed another within ten minutes.",
                table=duplicates,
            ),
        ]
        return {"faults": render("_sections.html", sections=sections), "as_of": as_of}


def _bursts(duplicates: Iterable[DuplicateRecord]) -> list[list[DuplicateRecord]]:
    """Duplicates of the same GMP on the same chain that followed one another, the newest first."""
    open_bursts: dict[tuple[int, int], list[DuplicateRecord]] = {}
    found: list[list[DuplicateRecord]] = []
    for one in sorted(duplicates, key=lambda one: -one.block_time):
        burst = open_bursts.get((one.gmp, one.chain_id))
        if burst is None or burst[-1].block_time - one.block_time > _BURST:
            burst = open_bursts[one.gmp, one.chain_id] = []
            found.append(burst)
        burst.append(one)
    return found
