"""Queries about chains, lanes and GMPs: names, pauses, queues, and the index's progress."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from bridge.evm.routers import RouterReader
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.gmps import Gmp, gmp_title
from bridge.protocol.indexed import ChainRecord, PausedThing
from bridge.protocol.lanes import Lane, LaneChange, LaneState
from bridge.protocol.ports import Chain
from bridge.protocol.times import iso, utc
from bridge.records.outbox import QueueCount
from bridge.store.lanes import Lanes


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


@dataclass(frozen=True, slots=True)
class GmpPause:
    """A pause of a GMP on a router. The router neither sends nor receives over the GMP, and ignores its receipts."""

    gmp: Gmp
    chain_id: int
    until: int  # Unix seconds

    @property
    def text(self) -> str:
        """Describes the pause, without the chain's name."""
        return f"{self.gmp.title} is paused until {utc(self.until)} UTC"


async def gmp_pauses(here: ChainDeployment, chain: Chain) -> list[GmpPause]:
    """Reads the pauses of GMPs on one chain, in order of GMP.

    Raises:
        UnansweredError: no endpoint responds.
    """
    router, gmps = RouterReader(chain, here.router), sorted(here.gmp_numbers)
    asked = asyncio.gather(*(router.paused_until(PausedThing.GMP, int(gmp)) for gmp in gmps))
    head, ends = await asyncio.gather(chain.head(), asked)
    now = max(time.time(), head.timestamp)  # a chain's clock may be ahead, or stand still without blocks
    return [GmpPause(gmp, here.chain_id, until) for gmp, until in zip(gmps, ends, strict=True) if until > now]
