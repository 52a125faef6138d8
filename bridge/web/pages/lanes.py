"""Lanes and GMPs: one table each, and a page for each row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Final

from fastapi import Response

from bridge.protocol.gmps import Gmp, UnknownGmpError, gmp_label
from bridge.protocol.indexed import PausedThing
from bridge.protocol.numbers import count, counted, duration, percent
from bridge.protocol.times import utc
from bridge.queries import health
from bridge.queries.lanes import SAMPLE, Ends, GmpFigures, LaneFigures, gmp_figures, lane_figures, lane_name
from bridge.web.cells import Cell, Section, Table, cut, gmp, joined, link, moment, state
from bridge.web.explorer import Explorer
from bridge.web.sources import Sources

_GMP_COLUMNS: Final = ("GMP", "Accepted", "Delivered", "Share", "p50", "p95", "Refused", "Too late", "Again", "Queue")


class LanePages:
    """See the module."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.sources = explorer.sources

    def lanes(self) -> Response:
        """Every lane in one table."""
        rows = [
            [
                link(lane_path(self.sources, one.ends), one.name),
                count(one.messages),
                percent(one.executed, one.messages),
                *_percentiles(one.percentiles),
                count(one.waiting),
                _checks(one),
                state(one.held.state, "warn") if one.held else "",
            ]
            for one in self._lanes()
        ]
        columns = ("Lane", "Messages", "Executed", "p50", "p95", "Waiting", "Index = routers", "Held")
        table = Table(label="Lanes", columns=columns, rows=rows, empty="No index has run yet.")
        section = Section(title="Lanes", note="Messages of the last 24 hours.", table=table)
        return self.explorer.sections("Lanes", [section], here="/lanes")

    def lane(self, source: str, destination: str) -> Response:
        """One lane."""
        names = {chain.name: chain.chain_id for chain in self.sources.deployment.chains}
        ends = names.get(source), names.get(destination)
        found = next((one for one in self._lanes() if one.ends == ends), None)
        if found is None:
            return self.explorer.problem(404, cut(f"there is no lane {source} → {destination}", 100))
        facts: list[tuple[str, Cell]] = [
            ("Messages", link(f"/messages?source={source}&destination={destination}", count(found.messages))),
            ("Executed", f"{count(found.executed)}, {percent(found.executed, found.messages)}"),
            ("Time to execution", _spread(found.percentiles)),
            ("Deliveries waiting", count(found.waiting)),
            ("Redundancy", f"{count(found.late)} of {counted(found.deliveries, 'delivery')} came after the execution"),
            ("Duplicates absorbed", count(found.repeated)),
        ]
        if found.held:
            held = f"by {found.held.by}: {cut(found.held.reason)}"
            facts.append(("Held", joined([state(found.held.state, "warn"), held])))
        sections = [
            Section(title=found.name, note="Messages of the last 24 hours.", facts=facts),
            self._check_section(found),
            Section(title="GMPs", table=self._gmp_table(found.ends)),
        ]
        return self.explorer.sections(found.name, sections, here="/lanes")

    def _check_section(self, lane: LaneFigures) -> Section:
        rows: list[list[Cell]] = [
            [
                f"{one.direction} on {self.sources.chain_name(one.chain_id)}",
                state(one.verdict, {"equal": "good", "different": "bad"}.get(one.verdict, "quiet")),
                count(one.indexed_count or 0),
                "–" if one.router_count is None else count(one.router_count),
                "–" if one.block_number is None else count(one.block_number),
                moment(one.checked_at),
                cut(one.reason),
            ]
            for one in lane.checks
        ]
        columns = ("Total", "Result", "Index", "Router", "Block", "Compared", "Why")
        table = Table(label="Index and routers", columns=columns, rows=rows, empty="Not compared yet.")
        command = self.sources.command("waybill index verify")
        return Section(title="Index and routers compared", table=table, command=command)

    def gmps(self) -> Response:
        """Every GMP in one table."""
        note = f"Messages of the last 24 hours; refusals, lateness and duplicates are of the newest {SAMPLE}."
        section = Section(title="GMPs", note=note, table=self._gmp_table())
        return self.explorer.sections("GMPs", [section], here="/gmps")

    def gmp(self, name: str) -> Response:
        """One GMP on every lane."""
        try:
            chosen = Gmp.parse(name)
        except UnknownGmpError as error:
            return self.explorer.problem(404, cut(str(error), 200))
        rows: list[list[Cell]] = [
            [link(lane_path(self.sources, ends), lane_name(self.sources.deployment, *ends)), *_of_gmp(one)]
            for ends in permutations((chain.chain_id for chain in self.sources.deployment.chains), 2)
            for one in self._gmp_figures(ends)
            if one.number == chosen and (one.taken or one.queue)
        ]
        columns = ("Lane", *_GMP_COLUMNS[1:])
        empty = "It has carried nothing in the last 24 hours."
        table = Table(label=f"Lanes of {chosen.title}", columns=columns, rows=rows, empty=empty)
        facts: list[tuple[str, Cell]] = [
            ("GMP", gmp(chosen)),
            ("Paused", ", ".join(self._pauses(chosen)) or "nowhere"),
            ("Messages", link(f"/messages?gmp={chosen.label}", "all that it carried")),
        ]
        section = Section(title=chosen.title, note="Messages of the last 24 hours.", facts=facts, table=table)
        return self.explorer.sections(chosen.title, [section], here="/gmps")

    def _pauses(self, chosen: Gmp) -> list[str]:
        index, now = self.sources.index(), self.sources.clock()
        return [
            f"on {deployed.name} until {utc(one.ends)} UTC"
            for deployed in self.sources.deployment.chains
            for one in (index.pauses(deployed.chain_id) if index else ())
            if one.thing is PausedThing.GMP and one.number == chosen and one.begins <= now < one.ends
        ]

    def _gmp_table(self, lane: Ends | None = None) -> Table:
        rows: list[list[Cell]] = [
            [link(f"/gmps/{gmp_label(one.number)}", gmp(one.number)), *_of_gmp(one)] for one in self._gmp_figures(lane)
        ]
        return Table(label="GMPs", columns=_GMP_COLUMNS, rows=rows, empty="No index has run yet.")

    def _gmp_figures(self, lane: Ends | None) -> list[GmpFigures]:
        index, store = self.sources.index(), self.sources.store()
        if index is None:
            return []
        day = health.day(index, self.sources.clock(), lane)
        return gmp_figures(self.sources.deployment, index, store, day.gmps, since=day.since, lane=lane)

    def _lanes(self) -> list[LaneFigures]:
        index, store = self.sources.index(), self.sources.store()
        if index is None:
            return []
        return lane_figures(self.sources.deployment, index, store, health.day(index, self.sources.clock()).lanes)


def lane_path(sources: Sources, ends: tuple[int | None, int | None]) -> str:
    """The path of a lane's page."""
    return f"/lanes/{sources.chain_name(ends[0])}/{sources.chain_name(ends[1])}"


def _percentiles(found: Sequence[tuple[str, float]]) -> list[Cell]:
    """The median and the 95th percentile, for two columns."""
    known = dict(found)
    return [duration(known.get("p50")) or "–", duration(known.get("p95")) or "–"]


def _spread(found: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {duration(seconds)}" for name, seconds in found) or "–"


def _checks(lane: LaneFigures) -> Cell:
    """Whether index and routers agree about a lane's totals."""
    verdicts = {one.verdict for one in lane.checks}
    if not verdicts:
        return "not compared"
    if "different" in verdicts:
        return state("different", "bad")
    return state("equal", "good") if verdicts == {"equal"} else state("unverified", "quiet")


def _of_gmp(one: GmpFigures) -> list[Cell]:
    """The cells of a GMP behind its name."""
    queue = [f"{count(each.count)} {'given up' if each.state == 'DEAD' else each.state.lower()}" for each in one.queue]
    return [
        count(one.taken),
        count(one.delivered),
        percent(one.delivered, one.taken),
        *_percentiles(one.percentiles),
        count(one.refused),
        count(one.late),
        count(one.repeated),
        ", ".join(queue) or "–",
    ]
