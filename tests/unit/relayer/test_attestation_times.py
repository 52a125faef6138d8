"""The store of a relayer says when GMPs had attested."""

from __future__ import annotations

from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import AttestationPendingError, Dispatch
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.time import VirtualClock
from tests.support.stores import memory_store
from tests.unit.relayer.entries import with_adapter
from tests.virtual_time import in_virtual_time, running, until

ALPHA, BETA = 31337, 31338
PENDING = {Gmp.HYPERLANE: 40.0, Gmp.AXELAR: 90.0}  # seconds; deliveries over the second take two transactions


@in_virtual_time
async def test_attestation_time_is_when_the_proof_was_there() -> None:
    world, store, clock = World(), memory_store(), VirtualClock()
    world.start()
    proven: dict[tuple[bytes, Gmp], float] = {}
    began = clock.now()

    class Slow(SimulatedAdapter):
        async def attest(self, dispatch: Dispatch) -> bytes:
            if clock.now() < began + PENDING[dispatch.gmp]:
                raise AttestationPendingError("not yet")
            proof = await super().attest(dispatch)
            proven.setdefault((dispatch.message_id, dispatch.gmp), clock.now())
            return proof

    async with running(with_adapter(SimulatedRelayer(world, store), world, Slow)):
        sent = world.send(ALPHA, BETA, gmps=tuple(PENDING), quorum=2)
        await until(lambda: bool(sent.created) and world.executions(sent.message) == 1, seconds=900)
    await world.stop()
    attested = store.figures.attested()
    assert attested.keys() == proven.keys() == {(sent.message.id, gmp) for gmp in PENDING}
    assert all(0 <= attested[key] - proven[key] < 1 for key in proven)
    assert attested[sent.message.id, Gmp.AXELAR] - began >= PENDING[Gmp.AXELAR]
