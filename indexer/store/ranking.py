"""Each GMP's recent reliability by lane, and the ranking of GMPs for retries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, select, text

from bridge.protocol.numbers import percentile
from indexer.store import tables
from indexer.store.effective_status import counts
from indexer.store.tables import SEEN

Lane = tuple[int, int]
"""Source and destination chain."""

_NEWEST: Final = 200  # number of a lane's newest messages that count

UNKNOWN: Final = (-0.5, float("inf"))
"""The `GmpHealth.rank` of a GMP without dispatches: half of its messages are expected to be delivered."""

_REGISTRATIONS: Final = ("AdapterAdded", "AdapterReplaced", "AdapterRevoked")
_DISPATCHES: Final = text(
    f"""
    select r.gmp, r.received_time - coalesce(r.dispatched_time, m.source_time) as seconds
    from (
      select * from messages
      where source_time is not null and source_chain = :source_chain and destination_chain = :destination_chain
      order by {SEEN} desc limit :newest
    ) m
    join receipts r on r.message_id = m.message_id
    left join chains d on d.chain_id = m.destination_chain
    where r.dispatches > 0 and (r.received_time is not null or d.block_time > m.attempted_time + :stall_after)
    """
)

_VOIDED: Final = text(f"select voided from ({counts('(select * from messages where message_id = :id)')}) c")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """A message that a GMP accepted long enough ago to have been delivered."""

    gmp: int
    seconds: (
        int | None
    )  # seconds from the attempt in which it first accepted the message to its receipt; None if silent


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpHealth:
    """A GMP's performance on the newest messages of a lane.

    Attributes:
        dispatched: number of messages that the GMP accepted.
        delivered: number of those that it delivered.
        latency_p50: median seconds from the attempt in which the GMP first accepted a message to its receipt,
            so that other GMPs' silence does not count; None if it delivered none.
    """

    dispatched: int
    delivered: int
    latency_p50: int | None

    @property
    def rank(self) -> tuple[float, float]:
        """Returns the sort key, best first: by the expected delivery rate, then by latency.

        The expected rate is (delivered + 1) / (dispatched + 2), Laplace's rule of succession: one delivery out
        of one message says less than 199 out of 200.
        """
        return -(self.delivered + 1) / (self.dispatched + 2), self.latency_p50 or 0


def gmp_health(dispatches: Iterable[Dispatch]) -> dict[int, GmpHealth]:
    """Returns the health of each GMP that has dispatches on a lane."""
    seconds: dict[int, list[int | None]] = defaultdict(list)
    for dispatch in dispatches:
        seconds[dispatch.gmp].append(dispatch.seconds)
    return {gmp: _health(latencies) for gmp, latencies in seconds.items()}


def _health(latencies: list[int | None]) -> GmpHealth:
    delivered = sorted(latency for latency in latencies if latency is not None)
    return GmpHealth(
        dispatched=len(latencies),
        delivered=len(delivered),
        latency_p50=percentile(delivered, 0.5) if delivered else None,
    )


def recent_dispatches(connection: Connection, stall_after: int, lane: Lane) -> list[Dispatch]:
    """Returns those dispatches of a lane's newest messages that were delivered or are overdue.

    Args:
        connection: connection to the store.
        stall_after: seconds after which a GMP without a receipt counts as silent.
        lane: the lane.
    """
    arguments = {"source_chain": lane[0], "destination_chain": lane[1], "stall_after": stall_after, "newest": _NEWEST}
    return [Dispatch(gmp=row.gmp, seconds=row.seconds) for row in connection.execute(_DISPATCHES, arguments)]


class Ranking:
    """Ranks GMPs for messages within one transaction. Reads each lane only once."""

    def __init__(self, connection: Connection, stall_after: int) -> None:
        """Creates the ranking for one transaction; see `recent_dispatches` for `stall_after`."""
        self._connection = connection
        self._stall_after = stall_after
        self._health: dict[Lane, dict[int, GmpHealth]] = {}
        self._open: dict[int, frozenset[int] | None] = {}

    def of(self, message: RowMapping) -> list[int]:
        """Returns the GMPs that may carry a message again, best first.

        Excludes GMPs that have a valid receipt, GMPs that are paused or lack an adapter on one of the chains,
        and GMPs whose receipts the recipient does not accept.

        Args:
            message: a row of `schemas.MESSAGES`.
        """
        lane = message["source_chain"], message["destination_chain"]
        health = self._health_of(lane)
        tried = _numbers(message["dispatched"])
        candidates = self._candidates(lane, health.keys() | tried) - _numbers(self.standing(message))
        if allowed := self._policy(message):
            candidates &= _numbers(allowed)
        return sorted(
            candidates, key=lambda gmp: (gmp in tried, *(health[gmp].rank if gmp in health else UNKNOWN), gmp)
        )

    def standing(self, message: RowMapping) -> int:
        """Returns the set of GMPs that delivered a message and whose receipts were not voided."""
        voided = self._connection.scalar(_VOIDED, {"id": message["message_id"]}) or 0
        return int(message["received"] & ~voided)

    def _health_of(self, lane: Lane) -> dict[int, GmpHealth]:
        if lane not in self._health:
            self._health[lane] = gmp_health(recent_dispatches(self._connection, self._stall_after, lane))
        return self._health[lane]

    def _candidates(self, lane: Lane, seen: frozenset[int] | set[int]) -> frozenset[int]:
        """Returns the GMPs that are open on both chains.

        If registrations were not read, returns the GMPs seen on the lane.
        """
        ends = [self._open_on(chain) for chain in lane]
        known = [end for end in ends if end is not None]
        return frozenset.intersection(*known) if known else frozenset(seen)

    def _open_on(self, chain: int) -> frozenset[int] | None:
        """Returns the GMPs whose adapter is registered and, by the chain's clock, not paused.

        Returns None if no registration was read.
        """
        if chain not in self._open:
            self._open[chain] = _open_gmps(self._about_gmps(chain), self._block_time(chain))
        return self._open[chain]

    def _about_gmps(self, chain: int) -> Sequence[Mapping[str, Any]]:
        place = tables.events.c
        chosen = (
            select(place.event, place.gmp, place.until)
            .where(place.message_id.is_(None), place.event.in_((*_REGISTRATIONS, "GmpPauseSet")))
            .where(place.chain_id == chain, place.error.is_(None))
            .order_by(place.block_number, place.log_index)
        )
        return [dict(row) for row in self._connection.execute(chosen).mappings()]

    def _block_time(self, chain: int) -> int:
        chosen = select(tables.chains.c.block_time).where(tables.chains.c.chain_id == chain)
        return self._connection.scalar(chosen) or 0

    def _policy(self, message: RowMapping) -> int | None:
        """Returns the set of GMPs that the recipient accepts from the source chain. None or 0 means any GMP."""
        place = tables.events.c
        chosen = (
            select(place.gmps)
            .where(place.message_id.is_(None), place.event == "PolicySet", place.error.is_(None))
            .where(place.chain_id == message["destination_chain"], place.chain == message["source_chain"])
            .where(place.recipient == message["recipient"])
            .order_by(place.block_number.desc(), place.log_index.desc())
            .limit(1)
        )
        found: int | None = self._connection.scalar(chosen)
        return found


def _open_gmps(events: Sequence[Mapping[str, Any]], now: int) -> frozenset[int] | None:
    """Returns the GMPs that are registered and not paused at `now` (Unix seconds), according to ordered events."""
    registered: dict[int, bool] = {}
    paused_until: dict[int, int] = {}
    for event in events:
        if event["event"] == "GmpPauseSet":
            paused_until[event["gmp"]] = event["until"]
        else:
            registered[event["gmp"]] = event["event"] != "AdapterRevoked"
    if not registered:
        return None
    return frozenset(gmp for gmp, is_there in registered.items() if is_there and paused_until.get(gmp, 0) <= now)


def _numbers(bits: int | None) -> frozenset[int]:
    """Returns the GMP numbers in a set of GMPs."""
    return frozenset(number for number in range(1, 17) if (bits or 0) >> (number - 1) & 1)
