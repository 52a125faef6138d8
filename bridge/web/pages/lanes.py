"""The pages of lanes and of GMPs, each with one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastapi import Response

from bridge.protocol.indexed import Index
from bridge.protocol.numbers import count, duration, percent
from bridge.queries.lanes import Ends, GmpFigures, LaneFigures, gmp_figures, lane_figures
from bridge.web.cells import Cell, Section, Table, cut, gmp, joined, link, state
from bridge.web.explorer import Explorer, look

NOTE: Final = "Messages of the last 24 hours."


def lanes(explorer: Explorer) -> Response:
    """Shows all lanes."""
    command = explorer.sources.command("waybill index verify")
    section = Section(title="Lanes", note=NOTE, table=lane_table(explorer), command=command)
    return explorer.sections("Lanes", [section], here="/lanes")


def gmps(explorer: Explorer) -> Response:
    """Shows all GMPs."""
    section = Section(title="GMPs", note=NOTE, table=gmp_table(explorer))
    return explorer.sections("GMPs", [section], here="/gmps")


def lane_table(explorer: Explorer, only: Ends | None = None) -> Table:
    """Returns a table of the last 24 hours' figures, for all lanes or one."""
    sources, index, day = explorer.sources, explorer.sources.index(), look(explorer.day, explorer.settings.patience)
    figures = lane_figures(sources.deployment, index, sources.store(), day.lanes) if index and day else []
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
        if only in (None, one.ends)
    ]
    columns = ("Lane", "Messages", "Executed", "p50", "p95", "Open deliveries", "Index = routers", "Held")
    return Table(label="Lanes", columns=columns, rows=rows, empty=_empty(index))


def gmp_table(explorer: Explorer, only: int | None = None) -> Table:
    """Returns a table of the last 24 hours' figures, for all GMPs or one."""
    sources, index, day = explorer.sources, explorer.sources.index(), look(explorer.day, explorer.settings.patience)
    figures = gmp_figures(sources.deployment, sources.store(), day.gmps) if index and day else []
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
        if only in (None, one.number)
    ]
    columns = ("GMP", "Accepted", "Delivered", "Share", "p50", "p95", "Queue")
    return Table(label="GMPs", columns=columns, rows=rows, empty=_empty(index))


def _empty(index: Index | None) -> str:
    return "Being counted; reload in a moment." if index else "No index has run yet."


def _percentiles(found: Sequence[tuple[str, float]]) -> list[Cell]:
    """Returns the median and the 95th percentile, for two columns."""
    known = dict(found)
    return [duration(known.get("p50")) or "–", duration(known.get("p95")) or "–"]


def _checks(lane: LaneFigures) -> Cell:
    """Shows whether index and routers agree about a lane's totals."""
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
    """Formats the number of open and dead deliveries by state."""
    texts = [f"{count(each.count)} {'given up' if each.state == 'DEAD' else each.state.lower()}" for each in one.queue]
    return ", ".join(texts) or "–"
