"""What becomes of a delivery that is refused: each GMP has its own way to fail, and each message still arrives."""

from __future__ import annotations

import pytest
from eth_utils.address import to_checksum_address

from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, account
from bridge.evm.chain import EvmChain
from bridge.gmps.layerzero.adapter import LayerZeroContracts, Packet
from bridge.protocol.contracts import ROUTER, contract, topic
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, CallRevertedError
from tests.anvil.traffic import DAPP, World, transact
from tests.builders import ALPHA, BETA

pytestmark = pytest.mark.long

every_gmp = pytest.mark.parametrize("gmp", tuple(Gmp), ids=lambda gmp: gmp.label)

OWNER = account(DEPLOYER_KEY)
EXECUTOR = contract("execute302((address,(uint32,bytes32,uint64),bytes32,bytes,bytes,uint256))")
ALERT = topic("LzReceiveAlert(address,address,(uint32,bytes32,uint64),bytes32,uint256,uint256,bytes,bytes,bytes)")


@pytest.fixture
def world(devnet: Devnet, chains: dict[int, EvmChain]) -> World:
    return World(devnet.deployment, chains)


async def pause(world: World, gmp: Gmp) -> None:
    """Makes the router on beta refuse what that GMP delivers."""
    beta = world.deployment.chain(BETA)
    until = (await world.chains[BETA].head()).timestamp + 3_600
    call = Call(to=beta.router, data=ROUTER.encode("pauseGmp", int(gmp), until))
    assert (await transact(world.chains[BETA], OWNER, call)).succeeded


async def end_pause(world: World, gmp: Gmp) -> None:
    call = Call(to=world.deployment.chain(BETA).router, data=ROUTER.encode("endGmpPause", int(gmp)))
    assert (await transact(world.chains[BETA], OWNER, call)).succeeded


@every_gmp
async def test_delivery_refused_by_the_router_succeeds_later(world: World, gmp: Gmp) -> None:
    await world.send(gmp)
    (dispatch,) = await world.dispatches(gmp)
    await pause(world, gmp)
    with pytest.raises(CallRevertedError):
        await world.deliver(gmp, dispatch)
    assert not await world.executed(dispatch)
    await end_pause(world, gmp)
    assert await world.deliver(gmp, dispatch)
    assert await world.executed(dispatch)


async def test_anyone_delivers_after_layerzeros_executor_alert(world: World) -> None:
    await world.send(Gmp.LAYERZERO)
    (dispatch,) = await world.dispatches(Gmp.LAYERZERO)
    adapter = world.adapter(Gmp.LAYERZERO)
    attestation = await adapter.attest(dispatch)
    await pause(world, Gmp.LAYERZERO)
    packet = Packet.of_dispatch(dispatch)
    endpoint = LayerZeroContracts.of(world.deployment.chain(BETA)).endpoint
    call = Call(to=await executor_on_beta(world), data=EXECUTOR.encode("execute302", execution_of(packet)))

    receipt = await transact(world.chains[BETA], OWNER, call)

    assert receipt.succeeded, "the executor's transaction does not fail"
    assert [log.address.lower() for log in receipt.logs if log.topics[0] == ALERT] == [endpoint.lower()]
    with pytest.raises(CallRevertedError):
        await adapter.next_call(dispatch, attestation)
    await end_pause(world, Gmp.LAYERZERO)
    retried = await adapter.next_call(dispatch, attestation)
    assert retried is not None
    assert retried.to == endpoint
    assert (await transact(world.chains[BETA], DAPP, retried)).succeeded
    assert await world.executed(dispatch)


def execution_of(packet: Packet) -> tuple[object, ...]:
    origin = (packet.source_eid, packet.sender, packet.nonce)
    return packet.receiver, origin, packet.guid, packet.message, b"", 500_000


async def executor_on_beta(world: World) -> str:
    """LayerZero's executor, as the libraries on beta know it."""
    chain, alpha, beta = world.chains[BETA], world.deployment.chain(ALPHA), world.deployment.chain(BETA)
    eid, adapter = LayerZeroContracts.of(alpha).eid, beta.adapters["layerzero"]
    library = contract("getSendLibrary(address,uint32) returns (address)")
    endpoint = LayerZeroContracts.of(beta).endpoint
    found = await chain.call(Call(to=endpoint, data=library.encode("getSendLibrary", adapter, eid)))
    config = contract("getExecutorConfig(address,uint32) returns ((uint32,address))")
    send_library = to_checksum_address(library.decode("getSendLibrary", found))
    answer = await chain.call(Call(to=send_library, data=config.encode("getExecutorConfig", adapter, eid)))
    return to_checksum_address(config.decode("getExecutorConfig", answer)[1])
