"""Each failure that the documents name is produced where it really happens, and what the relayer makes of it is observed."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from bridge.protocol.delivery_policy import DEFAULT_POLICIES
from bridge.protocol.gmps import Gmp
from bridge.protocol.lanes import Lane, LaneChange, LaneState
from bridge.protocol.message import Kind, decode_envelope
from bridge.protocol.ports import Call, Chain, Dispatch, Log, TerminalError, TransientError
from bridge.records.outbox import OutboxState
from bridge.store import open_store
from tests.builders import ALPHA, BETA
from tests.cases import for_each_case
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.contracts import refuse
from tests.support.stores import memory_store
from tests.unit.relayer.entries import only_entry, with_adapter
from tests.virtual_time import in_virtual_time, running, until


def of_another_codec() -> None:
    decode_envelope(b"\x63" + bytes(300))


def cut_off() -> None:
    decode_envelope(b"\x01" + bytes(20))


def of_no_kind() -> None:
    decode_envelope(b"\x01" + bytes(204) + b"\xff" + bytes(100))


def not_ours() -> None:
    raise TerminalError("the dispatch is another application's")


def unprovable() -> None:
    raise TerminalError("no merkle tree hook has inserted the message")


class Failing(SimulatedAdapter):
    """Fails so often as it is told while it makes the proof, or while it looks for the next transaction."""

    cause: ClassVar[Callable[[], None]] = staticmethod(lambda: None)
    at_proof: ClassVar[bool] = True
    times: ClassVar[itertools.count[int]] = itertools.count()
    most: ClassVar[int] = 0

    def _fail(self) -> None:
        if next(type(self).times) < self.most:
            type(self).cause()

    async def attest(self, dispatch: Dispatch) -> bytes:
        if self.at_proof:
            self._fail()
        return await super().attest(dispatch)

    async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        if not self.at_proof:
            self._fail()
        return await super().next_call(dispatch, attestation)


def failing(cause: Callable[[], None], *, at_proof: bool, most: int) -> type[Failing]:
    changes = {"cause": staticmethod(cause), "at_proof": at_proof, "times": itertools.count(), "most": most}
    return type("Failing", (Failing,), changes)


@for_each_case(
    "cause, at_proof, code",
    [
        (cut_off, True, "EnvelopeError"),
        (of_no_kind, True, "EnvelopeError"),
        (of_another_codec, False, "EnvelopeError"),
        (not_ours, True, "TerminalError"),
        (unprovable, True, "TerminalError"),
        (unprovable, False, "TerminalError"),
    ],
)
@in_virtual_time
async def test_permanent_failure_is_a_dead_letter_at_once(cause: Callable[[], None], at_proof: bool, code: str) -> None:
    world, store = World(), memory_store()
    world.start()
    bridge = with_adapter(SimulatedRelayer(world, store), world, failing(cause, at_proof=at_proof, most=1))
    async with running(bridge):
        bad = world.send(ALPHA, BETA)
        await until(lambda: store.outbox.counts() != [] and only_entry(store, bad).state is OutboxState.DEAD)
        good = world.send(ALPHA, BETA)
        await until(lambda: bool(good.created) and world.executions(good.message) == 1)
    entry = only_entry(store, bad)
    (record,) = bridge.dead_letters.history(entry.event_id)
    assert record.document is not None
    (failure,) = record.document["failureHistory"]
    assert (failure["errorCode"], failure["kind"], failure["disposition"]) == (code, "TERMINAL", "ESCALATE")
    assert record.document["originalMessage"] == f"0x{entry.dispatch.envelope.hex()}"
    await world.stop()


@pytest.mark.parametrize(("kind", "leaves_letter"), [(Kind.STATE_SYNC, True), (Kind.QUERY, False)])
@in_virtual_time
async def test_lost_envelope_ends_its_delivery_at_once(tmp_path: Path, kind: Kind, leaves_letter: bool) -> None:
    world, store = World(), open_store(f"sqlite:///{tmp_path}/bridge.db")
    world.start()
    bridge, lane = SimulatedRelayer(world, store), Lane(ALPHA, BETA)
    async with running(bridge):
        held = LaneChange(lane=lane, state=LaneState.PAUSED, reason="", by="a test", at=0)
        store.lanes.change(held)
        bad = world.send(ALPHA, BETA, kind=kind)
        await until(lambda: bad.created != [] and store.outbox.entries(bad.message.id) != [])
        with closing(sqlite3.connect(tmp_path / "bridge.db")) as file, file:
            file.execute("UPDATE messages SET envelope = substr(envelope, 1, 20)")
        store.lanes.change(replace(held, state=LaneState.RUNNING))
        await until(lambda: only_entry(store, bad).state is OutboxState.DEAD)
        good = world.send(ALPHA, BETA)
        await until(lambda: good.created != [] and world.executions(good.message) == 1)
    entry, written = only_entry(store, bad), bridge.dead_letters.dead_letters()
    (failed,) = store.outbox.failures(entry.event_id)
    assert (failed.failure.code, entry.fence) == ("EnvelopeError", 1)
    assert "envelope has 20 bytes; the header alone takes 239" in failed.failure.message
    assert [(one.event_id, one.error_code) for one in written] == (
        [(entry.event_id, "EnvelopeError")] if leaves_letter else []
    )
    await world.stop()
    store.close()


@pytest.mark.long
@in_virtual_time
async def test_layers_absorb_faults_before_an_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request, a delivery, an execution, another GMP, a dead letter: each begins where the one before has ended in vain."""
    world, store = World(), memory_store()
    world.start()
    bridge = SimulatedRelayer(world, store)
    chain, reads = bridge.relayer.observers[ALPHA]._chain, itertools.count()

    async def logs(*arguments: object, **named: object) -> list[Log]:
        if next(reads) < 2:
            raise TransientError("the source does not answer")
        return await chain.logs(*arguments, **named)  # type: ignore[arg-type]  # passes on whatever came

    monkeypatch.setattr(bridge.relayer.observers[ALPHA], "_chain", _with_logs(chain, logs))

    def written() -> int:
        return len(bridge.dead_letters.dead_letters())

    async with running(bridge):
        requested = world.send(ALPHA, BETA)  # 1: a request that failed
        await until(lambda: bool(requested.created) and world.executions(requested.message) == 1, seconds=120)
        assert (only_entry(store, requested).failed_tries, written()) == (0, 0)
        world.down.add(Gmp.HYPERLANE)
        delivered = world.send(ALPHA, BETA)  # 2: a delivery that failed
        await until(lambda: store.outbox.listed(limit=1)[0].failed_tries >= 3, seconds=300)
        assert written() == 0
        world.down.clear()
        await until(lambda: world.executions(delivered.message) == 1, seconds=300)
        world.chains[BETA].submit(partial(refuse, refusing=True))
        executed = world.send(ALPHA, BETA)  # 3: an execution that failed
        await until(lambda: bool(executed.created) and len(world.receipts(executed.message)) == 1)
        world.chains[BETA].submit(partial(refuse, refusing=False))
        await until(lambda: world.executions(executed.message) == 1, seconds=1_500)
        assert written() == 0
        world.down.add(Gmp.HYPERLANE)
        silent = world.send(ALPHA, BETA)  # 4: a GMP that is silent for good; the last one is a person
        await until(lambda: bool(silent.created) and written() == 1, seconds=7_200)
        assert only_entry(store, silent).failed_tries == DEFAULT_POLICIES[Kind.PLAIN].max_tries
        await bridge.recovery.retry(silent.message.id)
        await until(lambda: world.executions(silent.message) == 1, seconds=300)
    await world.stop()


def _with_logs(chain: Chain, logs: object) -> Chain:
    class Unsteady:
        def __getattr__(self, name: str) -> object:
            return logs if name == "logs" else getattr(chain, name)

    return Unsteady()  # type: ignore[return-value]  # a chain but for its logs
