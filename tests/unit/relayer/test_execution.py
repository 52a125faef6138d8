"""What was delivered and not executed is executed once that is possible: once, for one transaction, and only if that is allowed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
from eth_utils import function_signature_to_4byte_selector

from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.records.jobs import ExecutionJob, ExecutionState
from bridge.records.outbox import OutboxState
from bridge.records.transactions import Slot
from bridge.relayer.execution import Execution
from bridge.relayer.settings import RelaySettings
from bridge.relayer.spending import SpendGate
from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog
from tests.builders import ALPHA, BETA
from tests.cases import for_each_case
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.contracts import pause, refuse
from tests.support.simulation.power import Power
from tests.support.stores import memory_store
from tests.virtual_time import in_virtual_time, running, until

GMPS = (Gmp.HYPERLANE, Gmp.WORMHOLE)


@dataclass
class Case:
    """A message that lacks one receipt, which is there and does not count: its GMP is paused."""

    world: World = field(default_factory=World)
    store: Store = field(default_factory=memory_store)
    sent: list[Message] = field(default_factory=list)

    @property
    def message(self) -> Message:
        return self.sent[0]

    @property
    def executions(self) -> int:
        return self.world.executions(self.message)

    @property
    def awaited(self) -> ExecutionJob:
        found = self.store.jobs.newest(ExecutionJob, self.message.id)
        assert found is not None
        return found

    @property
    def transactions(self) -> list[Slot]:
        return [slot for round_ in range(99) for slot in self.store.transactions.slots_for(self._purpose(round_))]

    def _purpose(self, number: int) -> str:
        return f"execute/0x{self.message.id.hex()}/{number}"

    def pause(self, *, paused: bool) -> None:
        self.world.chains[BETA].submit(partial(pause, gmp=Gmp.HYPERLANE, paused=paused))

    def refuse(self, *, refusing: bool, reason: bytes = b"") -> None:
        self.world.chains[BETA].submit(partial(refuse, refusing=refusing, reason=reason))

    def is_in(self, state: ExecutionState) -> bool:
        return self.awaited.state is state

    async def delivered_while_paused(self) -> None:
        """One GMP delivers, is paused, and the other one delivers."""
        self.world.down.add(Gmp.WORMHOLE)
        sent = self.world.send(ALPHA, BETA, gmps=GMPS, quorum=2)
        await until(lambda: sent.created != [] and len(self.world.receipts(sent.message)) == 1)
        self.sent.append(sent.message)
        self.pause(paused=True)
        await asyncio.sleep(3)
        self.world.down.clear()
        await until(lambda: len(self.world.receipts(sent.message)) == 2)
        await until(
            lambda: {one.state for one in self.store.outbox.entries(sent.message.id)} == {OutboxState.DELIVERED}
        )


@asynccontextmanager
async def relayed(
    relaying: RelaySettings | None = None, dead_letters: DeadLetterLog | None = None, poll: float = 1
) -> AsyncIterator[Case]:
    case = Case()
    case.world.start()
    bridge = SimulatedRelayer(case.world, case.store, relaying=relaying, dead_letters=dead_letters, poll=poll)
    async with running(bridge):
        await case.delivered_while_paused()
        yield case
    await case.world.stop()


@pytest.mark.long
@in_virtual_time
async def test_delivery_during_a_pause_is_executed_once_afterwards() -> None:
    async with relayed() as case:
        await asyncio.sleep(300)
        assert (case.executions, case.transactions) == (0, [])
        assert "receipts=1, quorum=2" in case.awaited.outcome
        case.pause(paused=False)
        await until(lambda: case.executions == 1, seconds=70)
        await until(lambda: case.is_in(ExecutionState.EXECUTED))
        await asyncio.sleep(1_000)
        assert (case.executions, len(case.transactions)) == (1, 1)


@pytest.mark.long
@in_virtual_time
async def test_crash_loses_no_execution_and_pays_once() -> None:
    total = None
    draws = 0
    while total is None or draws < total:
        case = Case()
        case.world.start()
        async with running(SimulatedRelayer(case.world, case.store)):
            await case.delivered_while_paused()
            await asyncio.sleep(20)
        case.pause(paused=False)
        await asyncio.sleep(2)
        power = Power(None if total is None else draws)
        async with running(SimulatedRelayer(case.world, case.store, name="short-lived", power=power)):
            await asyncio.sleep(90)
        async with running(SimulatedRelayer(case.world, case.store, name="the next")):
            await until(partial(lambda case: case.is_in(ExecutionState.EXECUTED), case), seconds=600)
        paid = [one for one in case.transactions if one.included is not None and not one.ended_as_noop]
        assert (case.executions, len(paid)) == (1, 1), f"after {draws} draws of power"
        await case.world.stop()
        total, draws = total or min(power.used, 2_000), draws + 61


@pytest.mark.long
@in_virtual_time
async def test_refused_execution_costs_nothing_until_accepted() -> None:
    async with relayed() as case:
        case.refuse(refusing=True)
        case.pause(paused=False)
        await until(lambda: case.is_in(ExecutionState.REFUSED))
        await asyncio.sleep(1_500)
        assert (case.executions, case.transactions) == (0, [])
        case.refuse(refusing=False)
        await until(lambda: case.is_in(ExecutionState.EXECUTED), seconds=900)
        assert (case.executions, len(case.transactions)) == (1, 1)


@for_each_case(
    "signature, code",
    [
        ("StateHashMismatch(bytes32,bytes32,bytes32)", "STATE_HASH_MISMATCH"),
        ("AttestationReplayed(bytes32,bytes32,bytes32)", "ATTESTATION_REPLAY_DETECTED"),
        ("RollbackIncomplete(bytes32)", "ROLLBACK_INCOMPLETE_REJECT"),
        ("AlreadyApplied(bytes32,bytes32)", "DEDUPLICATION_DETECTED"),
    ],
)
@in_virtual_time
async def test_guard_rejection_is_not_tried_again(signature: str, code: str) -> None:
    async with relayed(poll=5) as case:
        words = signature.count("bytes32")
        case.refuse(refusing=True, reason=function_signature_to_4byte_selector(signature) + bytes(32) * words)
        case.pause(paused=False)
        await until(lambda: case.is_in(ExecutionState.REJECTED))
        assert case.awaited.outcome.startswith(f"{code}: ExecutionReverted(")
        case.refuse(refusing=False)
        case.world.block_time = 30
        await asyncio.sleep(1_000)
        case.world.block_time = 1
        assert (case.executions, case.transactions, case.awaited.state) == (0, [], ExecutionState.REJECTED)
        case.store.jobs.await_execution(case.message.id, case.awaited.since)  # as a retry does
        await until(lambda: case.is_in(ExecutionState.EXECUTED), seconds=900)
        assert case.executions == 1


def execution(case: Case, gate: SpendGate) -> Execution:
    bridge = SimulatedRelayer(case.world, case.store)
    return Execution(
        deployment=case.world.deployment,
        chains=case.world.chains,
        store=case.store,
        dead_letters=bridge.dead_letters,
        senders=bridge.relay_senders,
        gate=gate,
        clock=case.world.clock,
    )
