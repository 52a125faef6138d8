"""How often the relayer pays for a message's retries."""

from __future__ import annotations

import pytest

from bridge.protocol.message import Kind
from bridge.records.jobs import RetryJob, RetryState
from bridge.relayer.retries import RecoverySettings
from bridge.store import Store
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.contracts import GMPS
from tests.support.stores import memory_store
from tests.virtual_time import in_virtual_time, running, until

ALPHA, BETA = 31337, 31338


def state(store: Store, message_id: bytes) -> RetryState | None:
    job = store.jobs.newest(RetryJob, message_id)
    return None if job is None else job.state


@pytest.mark.parametrize("kind", [Kind.PLAIN, Kind.REGULATORY_ACTION_CRITICAL])
@in_virtual_time
async def test_retry_beyond_the_limit_waits_unless_critical(kind: Kind) -> None:
    world, store = World(), memory_store()
    world.down.add(GMPS[0])
    world.start()
    none = RecoverySettings(max_message_retries=0)
    async with running(SimulatedRelayer(world, store, recovering=none)):
        sent = world.send(ALPHA, BETA, gmps=GMPS[:1], kind=kind)
        await until(lambda: sent.created != [])
        world.request_retry(sent.message)
        if kind is Kind.PLAIN:
            await until(lambda: (job := store.jobs.newest(RetryJob, sent.message.id)) is not None and job.tries > 2)
            assert state(store, sent.message.id) is RetryState.OPEN
        else:
            await until(lambda: state(store, sent.message.id) is RetryState.SENT)
    async with running(SimulatedRelayer(world, store, name="next", recovering=RecoverySettings())):
        await until(lambda: state(store, sent.message.id) is RetryState.SENT, seconds=700)
    await world.stop()
