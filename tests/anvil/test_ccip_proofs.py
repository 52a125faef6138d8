"""On a public network: who may execute a CCIP message that CCIP's own nodes failed to, or did not, and with which proof."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiohttp import web

from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, account
from bridge.evm.chain import EvmChain
from bridge.gmps.ccip import devnet as ccip
from bridge.gmps.ccip.adapter import FAILURE, OFF_RAMP, CcipContracts, CcipMessage, encode_proof
from bridge.gmps.ccip.proofs import leaf, root_and_path
from bridge.gmps.ccip.v2 import OFF_RAMP_V2, CcipMessageV2, decode_results, encode_results
from bridge.gmps.registry import create_attesters
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import ROUTER
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import AttestationPendingError, Attester, Call, Dispatch, TransientError
from tests.anvil.public_network import PublicNetwork
from tests.anvil.rpc import rpc
from tests.anvil.test_ccip_v2 import CCIP_ROUTER, NO_TOKEN
from tests.anvil.traffic import DAPP, RELAYER, World, transact
from tests.builders import ALPHA, BETA

pytestmark = pytest.mark.long

OWNER = account(DEPLOYER_KEY)
EXECUTORS_TIME = 3600  # seconds, of 1.6 as the devnet's off-ramp is set


class OneRoot(ccip.CcipOracles):
    """Commit one root over all messages that wait, as CCIP's own do."""

    def _roots(self, on_ramp: str, messages: Sequence[CcipMessage]) -> list[tuple[Any, ...]]:
        root, _ = root_and_path([leaf(message, on_ramp) for message in messages], 0)
        return [(messages[0].source_selector, to_bytes32(on_ramp), messages[0].sequence, messages[-1].sequence, root)]


@pytest.fixture
async def public(devnet: Devnet, chains: dict[int, EvmChain]) -> AsyncIterator[PublicNetwork]:
    network = PublicNetwork(World(devnet.deployment, chains))
    async with network.serving():
        yield network


@pytest.fixture
def world(public: PublicNetwork) -> World:
    return public.world


@pytest.fixture
def attester(public: PublicNetwork) -> Attester:
    return create_attesters(public.world.deployment, public.world.chains, public.settings, {Gmp.CCIP}, public.asking)[
        Gmp.CCIP
    ]


def later(devnet: Devnet, seconds: int) -> None:
    for chain in devnet.chains:
        rpc(chain.url, "evm_increaseTime", hex(seconds))
        rpc(chain.url, "evm_mine")


async def several(world: World, count: int) -> list[Dispatch]:
    """Messages from alpha to beta beneath one root, with one of a stranger among them."""
    for number in range(count):
        await world.send(Gmp.CCIP, payload=bytes([number]))
        if number == 0:
            await strangers_message(world)
    dispatches = await world.dispatches(Gmp.CCIP)
    await OneRoot(world.deployment, world.chains).attest(dispatches[-1])
    return dispatches


async def strangers_message(world: World) -> None:
    alpha, beta = world.deployment.chain(ALPHA), world.deployment.chain(BETA)
    router, selector = CcipContracts.of(alpha).router, CcipContracts.of(beta).selector
    content: tuple[object, ...] = (to_bytes32(DAPP.address), b"a stranger's", [], NO_TOKEN, b"")
    asked = Call(to=router, data=CCIP_ROUTER.encode("getFee", selector, content))
    fee = CCIP_ROUTER.decode("getFee", await world.chains[ALPHA].call(asked))
    call = Call(to=router, data=CCIP_ROUTER.encode("ccipSend", selector, content), value=fee, gas=1_000_000)
    assert (await transact(world.chains[ALPHA], DAPP, call)).succeeded


async def fail(world: World, dispatch: Dispatch) -> None:
    """CCIP's own nodes execute while beta's router refuses; then it accepts again."""
    beta, oracles = world.deployment.chain(BETA), world.adapter(Gmp.CCIP, OneRoot(world.deployment, world.chains))
    path = await path_of(world, dispatch)
    until = (await world.chains[BETA].head()).timestamp + 3_600
    pause = Call(to=beta.router, data=ROUTER.encode("pauseGmp", int(Gmp.CCIP), until))
    assert (await transact(world.chains[BETA], OWNER, pause)).succeeded
    call = await oracles.next_call(dispatch, encode_proof(path, manually=False))
    assert call is not None
    assert (await transact(world.chains[BETA], RELAYER, call)).succeeded
    end = Call(to=beta.router, data=ROUTER.encode("endGmpPause", int(Gmp.CCIP)))
    assert (await transact(world.chains[BETA], OWNER, end)).succeeded
    message, off_ramp = CcipMessage.of_dispatch(dispatch), CcipContracts.of(beta).off_ramp_v1
    asked = OFF_RAMP.encode("getExecutionState", message.source_selector, message.sequence)
    assert OFF_RAMP.decode("getExecutionState", await world.chains[BETA].call(Call(to=off_ramp, data=asked))) == FAILURE


async def path_of(world: World, dispatch: Dispatch) -> list[bytes]:
    """The proof, from all messages of the on-ramp."""
    on_ramp = CcipContracts.of(world.deployment.chain(ALPHA)).on_ramp_v1
    messages = [one for log in await world.logs(Gmp.CCIP) if (one := CcipMessage.of_log(log, on_ramp))]
    place = [one.sequence for one in messages].index(CcipMessage.of_dispatch(dispatch).sequence)
    _, path = root_and_path([leaf(one, on_ramp) for one in messages], place)
    return path


@pytest.mark.parametrize("place", [0, 2, 4])
async def test_anyone_executes_failed_ccip_1_6_with_a_log_proof(world: World, attester: Attester, place: int) -> None:
    dispatches = await several(world, 5)
    with pytest.raises(AttestationPendingError, match="have not executed"):
        await attester.attest(dispatches[place])
    await fail(world, dispatches[place])
    await world.deliver(Gmp.CCIP, dispatches[place], attester, sender=DAPP)
    assert await world.executed(dispatches[place])
    assert await attester.attest(dispatches[place]) == encode_proof([], manually=True), "nothing is left to prove"


async def test_anyone_executes_stalled_ccip_1_6_after_the_delay(
    devnet: Devnet, world: World, attester: Attester
) -> None:
    dispatches = await several(world, 2)
    later(devnet, EXECUTORS_TIME - 60)
    with pytest.raises(AttestationPendingError, match="have not executed"):
        await attester.attest(dispatches[1])
    later(devnet, 120)
    await world.deliver(Gmp.CCIP, dispatches[1], attester, sender=DAPP)
    assert await world.executed(dispatches[1])


async def sent_over_v2(world: World, payload: bytes = b"hello") -> Dispatch:
    await world.send(Gmp.CCIP, payload=payload, source="beta", destination="alpha")
    return (await world.dispatches(Gmp.CCIP, "beta"))[-1]


async def test_stalled_ccip_2_0_is_executed_with_api_results(
    devnet: Devnet, public: PublicNetwork, attester: Attester
) -> None:
    dispatch = await sent_over_v2(public.world)
    await public.publish_results(dispatch)
    with pytest.raises(AttestationPendingError, match="executor has not executed"):
        await attester.attest(dispatch)
    later(devnet, EXECUTORS_TIME + 60)
    await public.world.deliver(Gmp.CCIP, dispatch, attester, sender=DAPP)
    assert await public.world.executed(dispatch)
    assert await attester.attest(dispatch) == encode_results([], [])


async def test_failed_ccip_2_0_is_executed_with_api_results_at_once(public: PublicNetwork, attester: Attester) -> None:
    world = public.world
    dispatch = await sent_over_v2(world)
    message = CcipMessageV2.of_dispatch(dispatch)
    await public.publish_results(dispatch)
    resolvers, results = decode_results(await world.adapter(Gmp.CCIP).attest(dispatch))
    spoilt = [result[:-1] + bytes([result[-1] ^ 1]) for result in results]
    data = OFF_RAMP_V2.encode("execute", message.packed, resolvers, spoilt, 0)
    assert (await transact(world.chains[ALPHA], DAPP, Call(to=message.off_ramp, data=data, gas=3_000_000))).succeeded
    await world.deliver(Gmp.CCIP, dispatch, attester, sender=DAPP)
    assert await world.executed(dispatch)


async def test_foreign_ccip_document_is_refused_and_few_results_wait(
    devnet: Devnet, public: PublicNetwork, attester: Attester
) -> None:
    dispatch, other = await sent_over_v2(public.world), await sent_over_v2(public.world, b"another")
    later(devnet, EXECUTORS_TIME + 60)
    with pytest.raises(AttestationPendingError, match="does not know"):
        await attester.attest(dispatch)
    honest, of_other = [await public.publish_results(one) for one in (dispatch, other)]
    path = f"/v2/messages/{dispatch.transport_id}/execution-inputs"
    lies: list[object] = [of_other, {}, [], {**honest, "ccvData": ["0x"] * 2}, {**honest, "ccvData": ["?"]}]
    for lie in (*lies, {**honest, "encodedMessage": None}, web.Response(status=500), web.Response(text="<html>")):
        public.documents[path] = lie
        with pytest.raises(TransientError, match="127") as refused:
            await attester.attest(dispatch)
        assert not isinstance(refused.value, AttestationPendingError), lie
    incomplete: dict[str, object] = {name: value for name, value in honest.items() if name != "ccvData"}
    for early in (incomplete | {"verificationComplete": False}, incomplete | {"ccvData": []}):
        public.documents[path] = early
        with pytest.raises(AttestationPendingError, match="verifiers have not signed"):
            await attester.attest(dispatch)
    public.documents[path] = honest
    await public.world.deliver(Gmp.CCIP, dispatch, attester)
    assert await public.world.executed(dispatch)
