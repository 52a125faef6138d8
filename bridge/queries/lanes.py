"""Queries about lanes and GMPs: names, pauses, queues and latencies."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp, gmp_label, gmp_title
from bridge.protocol.indexed import (
    ChainRecord,
    Index,
    LaneCheckRecord,
    Tally,
)
from bridge.protocol.lanes import Lane, LaneChange, LaneState
from bridge.protocol.numbers import percentile
from bridge.protocol.times import iso
from bridge.records.outbox import QueueCount
from bridge.store import Store
from bridge.store.lanes import Lanes

Ends = tuple[int, int]
"""Source and destination chain."""


def chain_name(deployment: Deployment, chain_id: int | None) -> str:
    """Returns a chain's name, its id if the chain is not part of the network, or ``?`` if the id is None."""
    known = (chain.name for chain in deployment.chains if chain.chain_id == chain_id)
    return "?" if chain_id is None else next(known, str(chain_id))


def lane_name(deployment: Deployment, source: int | None, destination: int | None) -> str:
    """Returns a lane's name, which consists of its chains' names."""
    return f"{chain_name(deployment, source)} → {chain_name(deployment, destination)}"


def gmp_name(number: int | None) -> str:
    """Returns a GMP's name, even if this version does not know the GMP."""
    return "a GMP" if number is None else gmp_title(number)


class LaneHaltedError(Exception):
    """A halted lane can't be paused."""


def change_lane(
    deployment: Deployment, lanes: Lanes, lane: Lane, *, state: LaneState, reason: str, by: str, now: float
) -> tuple[LaneChange, bool]:
    """Sets a lane's state, and returns the change and whether the state changed.

    Args:
        deployment: the network.
        lanes: the stored states.
        lane: the lane.
        state: the new state.
        reason: human-readable reason.
        by: the author of the change.
        now: Unix seconds.

    Raises:
        LaneHaltedError: the lane is halted, and the new state is a pause.
    """
    change = LaneChange(lane=lane, state=state, reason=reason, by=by, at=now)
    changed, found = lanes.change(change), lanes.state(lane)
    if not changed and found is not state:
        name = lane_name(deployment, lane.source_chain, lane.destination_chain)
        raise LaneHaltedError(f"the lane {name} is {found}, which a pause can't replace")
    return change, changed


def lane_change_value(change: LaneChange, deployment: Deployment) -> dict[str, Any]:
    """Returns a held lane, or a change of its state, for JSON."""
    return {
        "lane": lane_name(deployment, change.lane.source_chain, change.lane.destination_chain),
        "state": change.state.value,
        "reason": change.reason,
        "by": change.by,
        "at": iso(change.at),
    }


def queue_value(count: QueueCount, deployment: Deployment) -> dict[str, Any]:
    """Returns the number of deliveries of a lane and GMP in one state, for JSON."""
    return {
        "lane": lane_name(deployment, count.source_chain, count.destination_chain),
        "gmp": count.gmp.label,
        "state": count.state.value,
        "count": count.count,
        "failing": count.failing,
    }


def behind(chain: ChainRecord) -> int:
    """Returns the number of blocks that the index has not read yet."""
    return max(0, chain.head_block - chain.block)


def read_to_value(chain: ChainRecord, deployment: Deployment) -> dict[str, Any]:
    """Returns the index's progress on a chain, for JSON."""
    return {
        "name": chain_name(deployment, chain.chain_id),
        "chainId": chain.chain_id,
        "block": chain.block,
        "blocksBehind": behind(chain),
        "secondsBehind": chain.lag_seconds,
        "halted": chain.halted,
    }


def is_late(chain: ChainRecord, max_lag: float) -> bool:
    """Whether the index lags so far behind a chain that its answers may mislead.

    `max_lag` is in seconds, like the setting of that name.
    """
    return chain.halted is not None or chain.lag_seconds > max_lag


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFigures:
    """Figures of one lane in the last 24 hours."""

    name: str
    ends: Ends
    messages: int
    executed: int
    percentiles: tuple[tuple[str, float], ...]  # of seconds from creation to execution
    checks: tuple[LaneCheckRecord, ...]  # its totals compared with the routers'
    waiting: int  # the relayer's open deliveries
    held: LaneChange | None  # None if the lane is running


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpFigures:
    """Figures of one GMP in the last 24 hours."""

    number: int
    taken: int
    delivered: int
    percentiles: tuple[tuple[str, float], ...]  # of seconds from its dispatch of a message to its receipt
    queue: tuple[QueueCount, ...]  # the relayer's open and dead deliveries

    @property
    def label(self) -> str:
        """Returns the GMP's name in commands and links."""
        return gmp_label(self.number)


def lane_figures(
    deployment: Deployment, index: Index, store: Store | None, tallies: Mapping[Ends, Tally]
) -> list[LaneFigures]:
    """Returns the figures of every lane.

    Args:
        deployment: the network.
        index: the network's index.
        store: the relayer's store; None if there is none.
        tallies: the messages of the last 24 hours, by lane.
    """
    waiting, checks = Counter[Ends](), index.lane_checks()
    for count in _queue(store):
        if count.state in ("PENDING", "CLAIMED"):
            waiting[count.source_chain, count.destination_chain] += count.count
    changes = store.lanes.held() if store else []
    held = {(change.lane.source_chain, change.lane.destination_chain): change for change in changes}
    found = []
    for ends in itertools.permutations((chain.chain_id for chain in deployment.chains), 2):
        source, destination = ends
        totals = {(source, "sent", destination), (destination, "executed", source)}
        tally = tallies.get(ends)
        arrived = tally.arrived if tally else ()
        found.append(
            LaneFigures(
                name=lane_name(deployment, *ends),
                ends=ends,
                messages=tally.messages if tally else 0,
                executed=len(arrived),
                percentiles=percentiles(arrived),
                checks=tuple(one for one in checks if (one.chain_id, one.direction, one.other_chain) in totals),
                waiting=waiting[ends],
                held=held.get(ends),
            )
        )
    return found


def gmp_figures(deployment: Deployment, store: Store | None, tallies: Mapping[int, Tally]) -> list[GmpFigures]:
    """Returns the figures of every GMP that is deployed or has carried a message.

    Args:
        deployment: the network.
        store: the relayer's store; None if there is none.
        tallies: the messages of the last 24 hours, by GMP.
    """
    deployed = frozenset[Gmp]().union(*(chain.gmp_numbers for chain in deployment.chains))
    found = []
    for number in sorted(tallies.keys() | {int(gmp) for gmp in deployed}):
        tally = tallies.get(number)
        arrived = tally.arrived if tally else ()
        found.append(
            GmpFigures(
                number=number,
                taken=tally.messages if tally else 0,
                delivered=len(arrived),
                percentiles=percentiles(arrived),
                queue=tuple(one for one in _queue(store) if one.gmp == number and one.state != "DELIVERED"),
            )
        )
    return found


def _queue(store: Store | None) -> list[QueueCount]:
    return store.outbox.counts() if store else []


def percentiles(ascending: Sequence[int]) -> tuple[tuple[str, float], ...]:
    """Returns the p50, p95 and p99 of ascending values in seconds, or an empty tuple if there are no values."""
    if not ascending:
        return ()
    ranks = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    return tuple((name, float(percentile(ascending, share))) for name, share in ranks)
