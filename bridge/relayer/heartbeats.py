"""Heartbeats that travel: how far a lane is, and what its source has counted, as a message to the chain that it leads to.

On the destination the contract `contracts/examples/Heartbeats.sol` keeps the newest one of each relayer, with what was
missing there when it arrived. So lag and loss show there without this relayer, its store or the source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from eth_abi.abi import encode

from bridge.client import RefusedError, RouteRequest
from bridge.domain.finality_records import SyncProgress
from bridge.domain.lanes import Lane
from bridge.domain.ports import CallRevertedError, Chain, Clock, TransientError, read_view
from bridge.domain.spending import SpendBlockedError
from bridge.protocol.contracts import ROUTER, contract
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.relayer.own_messages import OwnMessages
from bridge.store import Store

_BEAT: Final = "(uint64,uint64,uint64,uint64,uint64,uint32)"
_HEARTBEATS: Final = contract(f"lastOf(uint64,address) returns (({_BEAT},uint64,bool))")
_GAS: Final = 200_000
_PURSE: Final = "heartbeats"
_NO_PROGRESS: Final = SyncProgress(primary_final=0, applied=0, lag_seconds=0.0)

EXAMPLE: Final = "heartbeats"
"""Name of the contract among the deployments file's examples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSettings:
    """Times are in seconds."""

    interval: float = 60.0  # between two heartbeats of a lane
    wei_per_day: int = 10**16  # what all heartbeats from one chain may cost there per day (UTC), gas and fees together
    quorum: int = 1  # GMPs that each travels over; routers with a higher floor demand more
    recipients: Mapping[int, str] = field(default_factory=dict)  # by destination; others get none


class TravellingHeartbeats:
    """Sends them."""

    def __init__(
        self,
        *,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        store: Store,
        messages: OwnMessages,
        gmps: frozenset[Gmp],
        clock: Clock,
        settings: HeartbeatSettings,
    ) -> None:
        """Over those GMPs, on the lanes whose destination has a recipient."""
        self._deployment = deployment
        self._chains = chains
        self._records = store.finality_records
        self._messages = messages
        self._gmps = gmps
        self._clock = clock
        self._settings = settings

    @property
    def lanes(self) -> list[Lane]:
        """Those that get heartbeats."""
        ids = [deployed.chain_id for deployed in self._deployment.chains]
        pairs = [Lane(source, there) for there in self._settings.recipients for source in ids if source != there]
        return sorted(lane for lane in pairs if self._over(lane))

    async def step(self) -> bool:
        """Sends one over each lane. Nothing is queued: one that can't be sent now is replaced by the next.

        Raises:
            TransientError: some were not sent; the text says which.
        """
        now, progress = self._clock.now(), self._records.progress(self._clock.now())
        sent = await asyncio.gather(*(self._send(lane, progress.get(lane, _NO_PROGRESS), now) for lane in self.lanes))
        if problems := [problem for problem in sent if problem]:
            raise TransientError(f"heartbeats not sent: {'; '.join(problems)}")
        return False

    async def _send(self, lane: Lane, progress: SyncProgress, now: float) -> str:
        """Sends one; why not, if it was not."""
        try:
            chain, router = self._chains[lane.source_chain], self._deployment.chain(lane.source_chain).router
            count, total = await read_view(chain, ROUTER, router, "sentTo", lane.destination_chain)
            said = (progress.primary_final, progress.applied, int(progress.lag_seconds), count, total)
            request = RouteRequest(
                destination=lane.destination_chain,
                recipient=self._settings.recipients[lane.destination_chain],
                payload=encode([_BEAT], [(int(now), *said)]),
                gmps=self._over(lane),
                quorum=self._settings.quorum,
                gas_limit=_GAS,
                kind=Kind.HEARTBEAT,
                retriable=False,
            )
            await self._messages.send(
                f"heartbeat/{lane}/{int(now)}",
                lane.source_chain,
                request,
                budget=_PURSE,
                wei_per_day=self._settings.wei_per_day,
            )
        except (TransientError, SpendBlockedError, RefusedError, CallRevertedError) as error:
            return f"{lane}: {error}"
        return ""

    def _over(self, lane: Lane) -> tuple[Gmp, ...]:
        common = self._deployment.gmps_between(lane.source_chain, lane.destination_chain) & self._gmps
        return tuple(sorted(common))[: self._settings.quorum] if len(common) >= self._settings.quorum else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivedHeartbeat:
    """What a lane's newest heartbeat says on its destination, beside what the router there has executed."""

    lane: Lane
    sender: str
    at: int  # Unix seconds, by the relayer's clock
    progress: SyncProgress
    sent: int  # messages that the source's router had counted
    missing: int  # sent before the heartbeat, not executed when it arrived: under way, expired, cancelled or lost
    matches: bool  # False: as many were executed, and they were others

    def value(self, now: float) -> dict[str, Any]:
        """As JSON; `now` in Unix seconds."""
        return {
            "lane": str(self.lane),
            "sender": self.sender,
            "at": self.at,
            "ageSeconds": max(0.0, now - self.at),
            "primaryFinal": self.progress.primary_final,
            "applied": self.progress.applied,
            "lagSeconds": self.progress.lag_seconds,
            "sent": self.sent,
            "missing": self.missing,
            "matches": self.matches,
        }


async def arrived(chain: Chain, address: str, lane: Lane, sender: str) -> ArrivedHeartbeat | None:
    """The newest heartbeat of a lane, as its destination has it; None if none has arrived.

    Args:
        chain: the destination.
        address: its `Heartbeats`.
        lane: which one.
        sender: the relayer's account.

    Raises:
        CallRevertedError: that is another contract.
        TransientError: the chain does not answer.
    """
    answer = await read_view(chain, _HEARTBEATS, address, "lastOf", lane.source_chain, sender)
    (at, final, applied, lag, sent, _), missing, matches = answer
    if at == 0:
        return None
    progress = SyncProgress(primary_final=final, applied=applied, lag_seconds=float(lag))
    return ArrivedHeartbeat(
        lane=lane, sender=sender, at=at, progress=progress, sent=sent, missing=missing, matches=matches
    )
