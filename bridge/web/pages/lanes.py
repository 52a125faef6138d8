"""The pages of lanes and of GMPs, each with one table."""

from __future__ import annotations

from collections.abc import Collection
from itertools import permutations
from typing import Final

from fastapi import Response

from bridge.protocol.gmps import gmp_label
from bridge.protocol.indexed import Index, LaneCheckRecord, Tally
from bridge.protocol.lanes import Lane, LaneChange
from bridge.protocol.numbers import count, duration, percent, percentile
from bridge.queries.lanes import lane_name
from bridge.records.outbox import OutboxState, QueueCount
from bridge.web.cells import Cell, Section, Table, cut, gmp, joined, link, state
from bridge.web.explorer import Explorer

NOTE: Final = "Messages of the last 24 hours."

_OPEN: Final = (OutboxState.PENDING, OutboxState.CLAIMED)


def lanes(explorer: Explorer) -> Response:
    """Shows all lanes."""
    command = explorer.sources.with_network("waybill index verify")
    section = Section(title="Lanes", note=NOTE, table=lane_table(explorer), command=command)
    return explorer.sections("Lanes", [section], here="/lanes")


def gmps(explorer: Explorer) -> Response:
    """Shows all GMPs."""
    section = Section(title="GMPs", note=NOTE, table=gmp_table(explorer))
    return explorer.sections("GMPs", [section], here="/gmps")


def lane_table(explorer: Explorer, only: tuple[int, int] | None = None) -> Table:
    """Returns a table of the last 24 hours' figures, for all lanes or the one between two chains."""
    sources, index, store = explorer.sources, explorer.sources.index(), explorer.sources.store()
    day = explorer.day.recent(explorer.settings.patience)
    rows: list[list[Cell]] = []
    columns = ("Lane", "Messages", "Executed", "p50", "p95", "Open deliveries", "Index = routers", "Held")
    table = Table(label="Lanes", columns=columns, rows=rows, empty=_empty(index))
    if index is None or day is None:
        return table
    queue, checks = store.outbox.counts() if store else [], index.lane_checks()
    held = {change.lane: change for change in store.lanes.held()} if store else {}
    for ends in permutations((chain.chain_id for chain in sources.deployment.chains), 2):
        if only not in (None, ends):
            continue
        source, destination = ends
        tally = day.lanes.get(ends) or Tally(lane=ends, gmp=None, messages=0, arrived=())
        totals = {(source, "sent", destination), (destination, "executed", source)}
        waiting = (one for one in queue if (one.source_chain, one.destination_chain) == ends and one.state in _OPEN)
        rows.append(
            [
                link(f"/messages?source={source}&destination={destination}", lane_name(sources.deployment, *ends)),
                count(tally.messages),
                percent(len(tally.arrived), tally.messages),
                *_percentiles(tally),
                count(sum(one.count for one in waiting)),
                _checks([one for one in checks if (one.chain_id, one.direction, one.other_chain) in totals]),
                _held(held.get(Lane(source, destination))),
            ]
        )
    return table


def gmp_table(explorer: Explorer, only: int | None = None) -> Table:
    """Returns a table of the last 24 hours' figures, for all GMPs that are deployed or carried a message, or one."""
    sources, index, store = explorer.sources, explorer.sources.index(), explorer.sources.store()
    day = explorer.day.recent(explorer.settings.patience)
    rows: list[list[Cell]] = []
    columns = ("GMP", "Accepted", "Delivered", "Share", "p50", "p95", "Queue")
    table = Table(label="GMPs", columns=columns, rows=rows, empty=_empty(index))
    if index is None or day is None:
        return table
    queue = store.outbox.counts() if store else []
    deployed = frozenset[int]().union(*(chain.gmp_numbers for chain in sources.deployment.chains))
    for number in sorted(day.gmps.keys() | deployed):
        if only not in (None, number):
            continue
        tally = day.gmps.get(number) or Tally(lane=None, gmp=number, messages=0, arrived=())
        rows.append(
            [
                link(f"/messages?gmp={gmp_label(number)}", gmp(number)),
                count(tally.messages),
                count(len(tally.arrived)),
                percent(len(tally.arrived), tally.messages),
                *_percentiles(tally),
                _queue([one for one in queue if one.gmp == number and one.state is not OutboxState.DELIVERED]),
            ]
        )
    return table


def _empty(index: Index | None) -> str:
    return "Being counted; reload in a moment." if index else "No index has run yet."


def _percentiles(tally: Tally) -> list[Cell]:
    """Returns the median and the 95th percentile of the seconds until arrival, for two columns."""
    return [duration(percentile(tally.arrived, share)) if tally.arrived else "–" for share in (0.5, 0.95)]


def _checks(checks: Collection[LaneCheckRecord]) -> Cell:
    """Shows whether index and routers agree about a lane's totals."""
    verdicts = {one.verdict for one in checks}
    if not verdicts:
        return "not compared"
    if "different" in verdicts:
        return state("different", "bad")
    return state("equal", "good") if verdicts == {"equal"} else state("unverified", "quiet")


def _held(change: LaneChange | None) -> Cell:
    """Shows who paused a lane, and why."""
    if change is None:
        return ""
    return joined([state(change.state, "warn"), f"by {change.by}: {cut(change.reason)}"])


def _queue(counts: Collection[QueueCount]) -> str:
    """Formats the number of open and dead deliveries by state."""
    texts = [
        f"{count(one.count)} {'given up' if one.state is OutboxState.DEAD else one.state.lower()}" for one in counts
    ]
    return ", ".join(texts) or "–"
