"""Lanes and GMPs: one table each."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Response

from bridge.protocol.numbers import count, duration, percent
from bridge.queries import health
from bridge.queries.lanes import GmpFigures, LaneFigures, gmp_figures, lane_figures
from bridge.web.cells import Cell, Section, Table, cut, gmp, joined, link, state
from bridge.web.explorer import Explorer

_NOTE = "Messages of the last 24 hours."


class LanePages:
    """The pages of lanes and of GMPs."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.sources = explorer.sources

    def lanes(self) -> Response:
        """Every lane in one table."""
        index, store = self.sources.index(), self.sources.store()
        figures = []
        if index is not None:
            tallies = health.day(index, self.sources.clock()).lanes
            figures = lane_figures(self.sources.deployment, index, store, tallies)
        rows = [
            [
                link(f"/messages?source={one.ends[0]}&destination={one.ends[1]}", one.name),
                count(one.messages),
                percent(one.executed, one.messages),
                *_percentiles(one.percentiles),
                count(one.waiting),
                _checks(one),
                _held(one),
            ]
            for one in figures
        ]
        columns = ("Lane", "Messages", "Executed", "p50", "p95", "Waiting", "Index = routers", "Held")
        table = Table(label="Lanes", columns=columns, rows=rows, empty="No index has run yet.")
        command = self.sources.command("waybill index verify")
        section = Section(title="Lanes", note=_NOTE, table=table, command=command)
        return self.explorer.sections("Lanes", [section], here="/lanes")

    def gmps(self) -> Response:
        """Every GMP in one table."""
        index, store = self.sources.index(), self.sources.store()
        figures = []
        if index is not None:
            tallies = health.day(index, self.sources.clock()).gmps
            figures = gmp_figures(self.sources.deployment, store, tallies)
        rows: list[list[Cell]] = [
            [
                link(f"/messages?gmp={one.label}", gmp(one.number)),
                count(one.taken),
                count(one.delivered),
                percent(one.delivered, one.taken),
                *_percentiles(one.percentiles),
                _queue(one),
            ]
            for one in figures
        ]
        columns = ("GMP", "Accepted", "Delivered", "Share", "p50", "p95", "Queue")
        table = Table(label="GMPs", columns=columns, rows=rows, empty="No index has run yet.")
        return self.explorer.sections("GMPs", [Section(title="GMPs", note=_NOTE, table=table)], here="/gmps")


def _percentiles(found: Sequence[tuple[str, float]]) -> list[Cell]:
    """The median and the 95th percentile, for two columns."""
    known = dict(found)
    return [duration(known.get("p50")) or "–", duration(known.get("p95")) or "–"]


def _checks(lane: LaneFigures) -> Cell:
    """Whether index and routers agree about a lane's totals."""
    verdicts = {one.verdict for one in lane.checks}
    if not verdicts:
        return "not compared"
    if "different" in verdicts:
        return state("different", "bad")
    return state("equal", "good") if verdicts == {"equal"} else state("unverified", "quiet")


def _held(lane: LaneFigures) -> Cell:
    """Shows who paused a lane, and why."""
    if lane.held is None:
        return ""
    return joined([state(lane.held.state, "warn"), f"by {lane.held.by}: {cut(lane.held.reason)}"])


def _queue(one: GmpFigures) -> str:
    """The deliveries that are not finished, by state."""
    texts = [f"{count(each.count)} {'given up' if each.state == 'DEAD' else each.state.lower()}" for each in one.queue]
    return ", ".join(texts) or "–"
