"""Contradictions between chains, or between a chain and the index."""

from __future__ import annotations

from typing import Final

from fastapi import Response

from bridge.queries.lanes import lane_name
from bridge.web.cells import Cell, Section, Table, coded, cut, message_link, quiet, state, words
from bridge.web.explorer import Explorer

_MOST_FAULTS: Final = 200


class FaultPages:
    """The page of faults."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.sources = explorer.sources

    def faults(self) -> Response:
        """The contradictions, the worst first."""
        index = self.sources.index()
        found = self.explorer.list.divergences.look(self.explorer.settings.patience) if index else None
        rows: list[list[Cell]] = [
            [
                state(one.severity),
                words(one.kind),
                message_link(one.message_id) if one.message_id else quiet("the whole lane"),
                lane_name(self.sources.deployment, one.source_chain, one.destination_chain),
                cut(one.evidence),
                coded(cut(self.sources.commands_in(one.next_action))),
            ]
            for one in (found.value[:_MOST_FAULTS] if found else ())
        ]
        columns = ("Severity", "What", "Message", "Lane", "Evidence", "Next")
        empty = "None: the chains and the index agree." if found else "Being computed."
        shown = empty if index else "No index has run yet."
        table = Table(label="Contradictions", columns=columns, rows=rows, empty=shown)
        section = Section(title="Contradictions", table=table)
        return self.explorer.sections("Faults", [section], here="/faults", live=("sections",))
