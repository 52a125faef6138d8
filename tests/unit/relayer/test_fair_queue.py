"""Old and failing deliveries of a lane keep no new one of the same lane waiting, and are not kept waiting for ever either."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bridge.protocol.message import Kind
from bridge.protocol.ports import AttestationPendingError, Dispatch
from bridge.records.outbox import OutboxEntry, OutboxState
from bridge.relayer.settings import RelaySettings
from tests.builders import dispatch, message
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.stores import memory_store
from tests.unit.relayer.entries import only_entry, with_adapter
from tests.virtual_time import in_virtual_time, running, until

pytestmark = pytest.mark.long

ALPHA, BETA = 31337, 31338


def entry(number: int, *, at: float, now: float, tries: int = 0) -> OutboxEntry:
    """A delivery that a worker has just taken, for the first time or again."""
    new = replace(OutboxEntry.new(dispatch(message(number)), 0, Kind.PLAIN, at), fence=tries)
    return new.claimed("w", now, 30)


@in_virtual_time
async def test_new_message_passes_a_full_lane() -> None:
    world, store = World(), memory_store()
    world.start()
    stuck: set[bytes] = set()

    class Hanging(SimulatedAdapter):
        async def attest(self, dispatch: Dispatch) -> bytes:
            if dispatch.message_id in stuck:
                await asyncio.sleep(1_000)
                raise AttestationPendingError("not yet")
            return await super().attest(dispatch)

    backlog = [world.send(ALPHA, BETA) for _ in range(100)]
    await until(lambda: all(one.created for one in backlog))
    stuck.update(one.message.id for one in backlog)
    bridge = SimulatedRelayer(world, store, relaying=RelaySettings(in_flight=32))
    async with running(with_adapter(bridge, world, Hanging)):
        await asyncio.sleep(120)  # for what never was tried is old by then, too
        assert {only_entry(store, one).failed_tries for one in backlog} == {0}
        for _ in range(5):
            live = world.send(ALPHA, BETA)
            await until(lambda live=live: live.created and world.executions(live.message) == 1, seconds=20)  # type: ignore[misc]  # no type for `live`
        held = sum(only_entry(store, one).state is OutboxState.CLAIMED for one in backlog)
        assert held == 32, "the places on top are not for old ones"
        stuck.clear()
        await until(lambda: all(world.executions(one.message) == 1 for one in backlog), seconds=3_000)
    await world.stop()
