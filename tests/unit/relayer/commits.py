"""A bridge whose deliveries stop where a test wants them to, and a store that counts its commits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from bridge.protocol.delivery_policy import DEFAULT_POLICIES, DeliveryPolicy
from bridge.protocol.errors import StoreBusyError
from bridge.protocol.message import Kind, decode_envelope
from bridge.protocol.ports import Call, Dispatch, TransientError
from bridge.records.outbox import Claim, OutboxEntry, OutboxState, Outcome
from bridge.relayer.delivery_commits import CommitStrategy
from bridge.relayer.settings import Ordering, RelaySettings
from bridge.store import Store
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.contracts import GMPS
from tests.support.simulation.world import Sent
from tests.support.stores import IN_MEMORY
from tests.virtual_time import until

ALPHA, BETA = 31337, 31338


def second() -> float:
    return asyncio.get_running_loop().time()


class CountingStore(Store):
    """Notes when how many ends were committed; refuses as many commits and renewals as it is told to."""

    def __init__(self) -> None:
        super().__init__(IN_MEMORY)
        self.commits: list[tuple[float, int]] = []
        self.refusals: list[float] = []
        self.refuse_commits = 0
        self.refuse_renewals = False
        self._finish, self._renew = self.outbox.finish, self.outbox.renew
        self.outbox.finish = self._counted_finish  # type: ignore[method-assign]  # counts the calls
        self.outbox.renew = self._counted_renew  # type: ignore[method-assign]  # counts the calls

    def _counted_finish(self, outcomes: Sequence[Outcome], now: float) -> set[Claim]:
        if self.refuse_commits > 0:
            self.refuse_commits -= 1
            self.refusals.append(second())
            raise StoreBusyError("the database is restarting")
        lost = self._finish(outcomes, now)
        self.commits.append((second(), len(outcomes)))
        return lost

    def _counted_renew(self, claims: Collection[Claim], now: float, lease: float) -> set[Claim]:
        if self.refuse_renewals:
            raise StoreBusyError("the database is restarting")
        return self._renew(claims, now, lease)


@dataclass
class Gate:
    """Where deliveries wait: before their proof, for as long as the test says."""

    held: Callable[[Dispatch], bool] = lambda _: False
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    seconds: float = 0.0  # that every proof takes
    refuse_calls: int = 0  # next calls to fail, transiently
    refused: Callable[[Dispatch], bool] = lambda _: True  # whose calls those are
    error: TransientError = field(default_factory=lambda: TransientError("the endpoint does not answer"))


def gated(bridge: SimulatedRelayer, gate: Gate) -> SimulatedRelayer:
    class Gated(SimulatedAdapter):
        async def attest(self, dispatch: Dispatch) -> bytes:
            if gate.seconds:
                await asyncio.sleep(gate.seconds)
            if gate.held(dispatch):
                await gate.opened.wait()
            return await super().attest(dispatch)

        async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
            if gate.refuse_calls > 0 and gate.refused(dispatch):
                gate.refuse_calls -= 1
                raise gate.error
            return await super().next_call(dispatch, attestation)

    for deliveries in bridge.relayer.deliveries.values():
        simulated = deliveries._adapters
        gates = {gmp: Gated(gmp, simulated[gmp]._chains) for gmp in GMPS}  # type: ignore[attr-defined]  # of a simulated one
        deliveries._adapters = gates
    return bridge


def bridge_with(
    world: World,
    store: Store,
    strategy: CommitStrategy = CommitStrategy.BATCH,
    *,
    name: str = "bridge",
    ordering: Ordering = Ordering.SKIP,
    retention: float = 30 * 86_400.0,
    policies: Mapping[Kind, DeliveryPolicy] = DEFAULT_POLICIES,
    **commits: Any,
) -> SimulatedRelayer:
    settings = RelaySettings(commit=strategy, ordering=ordering, retention=retention, in_flight=200, **commits)
    return SimulatedRelayer(world, store, name=name, relaying=settings, policies=policies)


@asynccontextmanager
async def world_with_blocks() -> AsyncIterator[World]:
    world = World()
    world.start()
    yield world
    await world.stop()


async def crash(bridge: SimulatedRelayer, task: asyncio.Task[None]) -> None:
    """Ends a bridge as SIGKILL would, at this very moment."""
    bridge.power.cut()
    await asyncio.wait_for(task, timeout=60)


def entry_of(store: Store, sent: Sent) -> OutboxEntry:
    (entry,) = store.outbox.entries(sent.message.id)
    return entry


def is_(state: OutboxState, store: Store, *sent: Sent) -> bool:
    """Whether the messages have been seen, and all their deliveries are in that state."""
    entries = [store.outbox.entries(one.message.id) if one.created else [] for one in sent]
    return all(found and {entry.state for entry in found} == {state} for found in entries)


def is_confirmed(store: Store, sent: Sent) -> bool:
    """Whether the message's delivery is final."""
    return is_(OutboxState.DELIVERED, store, sent) and entry_of(store, sent).confirmed_at is not None


def is_first(dispatch: Dispatch) -> bool:
    """Of all messages: the one that a gate holds, so that something is always under way."""
    return decode_envelope(dispatch.envelope).message.nonce == 1


def repeated(store: Store) -> int:
    """Deliveries that were claimed again after they had been made."""
    return sum(entry.fence - 1 for entry in store.outbox.listed(limit=9_999))


async def all_executed(world: World, *but: Sent) -> None:
    await until(
        lambda: all(one.created and world.executions(one.message) == 1 for one in world.sent if one not in but),
        what="every message executed",
        every=0.1,
    )
