"""CCIP by its own contracts: who may execute a message, with which signatures, and what follows a failure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from eth_account.signers.local import LocalAccount

from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, account, signer
from bridge.devnet.deployer import Deployer
from bridge.evm.chain import EvmChain
from bridge.gmps.ccip import devnet as ccip
from bridge.gmps.ccip.adapter import CcipContracts
from bridge.gmps.ccip.message import FAILURE, OFF_RAMP, CcipMessage, decode_results, encode_results
from bridge.gmps.registry import create_attesters
from bridge.protocol.contracts import contract, topic
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import (
    AttestationPendingError,
    Attester,
    Call,
    CallRevertedError,
    Dispatch,
    TransientError,
    read_view,
)
from bridge.records.figures import Counted
from bridge.store import Store
from tests.anvil.public_network import PublicNetwork
from tests.anvil.relayers import until
from tests.anvil.rpc import rpc
from tests.anvil.test_relayer import blocks, relaying
from tests.anvil.traffic import DAPP, RELAYER, World, transact
from tests.builders import ALPHA, BETA

pytestmark = pytest.mark.long

ON_RAMP = contract("getStaticConfig() returns ((uint64,address,uint32,address))")
CHOICE = contract("setVerifiers(uint64,address[],address[],uint8)")
OWNER = account(DEPLOYER_KEY)
EXECUTORS_TIME = 3600  # seconds that are left to CCIP's own executor


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


async def sent(world: World, payload: bytes = b"hello") -> Dispatch:
    await world.send(Gmp.CCIP, payload=payload)
    return (await world.dispatches(Gmp.CCIP))[-1]


async def state(world: World, dispatch: Dispatch) -> int:
    message = CcipMessage.of_dispatch(dispatch)
    number: int = await read_view(world.chains[BETA], OFF_RAMP, message.off_ramp, "getExecutionState", message.id)
    return number


async def fail(world: World, dispatch: Dispatch) -> None:
    """Executes a message with a damaged signature: the off-ramp records a failure, and does not revert."""
    message = CcipMessage.of_dispatch(dispatch)
    resolvers, results = decode_results(await world.adapter(Gmp.CCIP).attest(dispatch))
    damaged = [result[:-1] + bytes([result[-1] ^ 1]) for result in results]
    data = OFF_RAMP.encode("execute", message.packed, resolvers, damaged, 0)
    assert (await transact(world.chains[BETA], DAPP, Call(to=message.off_ramp, data=data, gas=3_000_000))).succeeded
    assert await state(world, dispatch) == FAILURE


@pytest.mark.parametrize(
    ("oracles", "error"),
    [
        (ccip.ORACLES[:1], "WrongNumberOfSignatures()"),
        (tuple(signer("stranger", index) for index in range(2)), "UnauthorizedSigner()"),
    ],
    ids=["too few", "strangers"],
)
async def test_wrong_signatures_cost_no_gas(world: World, oracles: Sequence[LocalAccount], error: str) -> None:
    dispatch = await sent(world)
    adapter = world.adapter(Gmp.CCIP, ccip.CcipOracles(world.deployment, world.chains, oracles))
    with pytest.raises(CallRevertedError) as refused:
        await adapter.next_call(dispatch, await adapter.attest(dispatch))
    assert refused.value.data[:4] == topic(error)[:4]


async def test_results_without_a_verifier_of_the_lane_are_refused(world: World) -> None:
    dispatch = await sent(world)
    with pytest.raises(CallRevertedError) as refused:
        await world.adapter(Gmp.CCIP).next_call(dispatch, encode_results([], []))
    assert refused.value.data[:4] == topic("RequiredCCVMissing(address)")[:4]


async def test_a_failed_execution_is_repeated_with_more_gas(world: World) -> None:
    dispatch = await sent(world)
    adapter = world.adapter(Gmp.CCIP)
    attestation = await adapter.attest(dispatch)
    await fail(world, dispatch)
    call = await adapter.next_call(dispatch, attestation)
    assert call is not None
    assert int.from_bytes(call.data[4 + 3 * 32 : 4 + 4 * 32], "big") == 2 * CcipMessage.of_dispatch(dispatch).gas_limit
    assert (await transact(world.chains[BETA], RELAYER, call)).succeeded
    assert await world.executed(dispatch)
    assert await adapter.next_call(dispatch, attestation) is None


async def another_resolver(world: World, chain_id: int, remote: int) -> str:
    """Creates a second committee of the same oracles on a chain, for its lane with a remote one."""
    here, there = (CcipContracts.of(world.deployment.chain(one)) for one in (chain_id, remote))
    _, rmn, *_ = await read_view(world.chains[chain_id], ON_RAMP, str(here.on_ramp), "getStaticConfig")
    deployer = await Deployer.on(world.chains[chain_id], OWNER)
    resolver = ccip.create_committee(deployer, rmn, here.router, [there.selector])
    await deployer.send()
    return resolver


def choose(world: World, chain_id: int, remote: int, lists: tuple[list[str], list[str], int]) -> Call:
    """Returns the owner's call by which the adapter names resolvers for its lane: required, optional, threshold."""
    arguments = (CcipContracts.of(world.deployment.chain(remote)).selector, *lists)
    return Call(to=world.deployment.chain(chain_id).adapter(Gmp.CCIP), data=CHOICE.encode("setVerifiers", *arguments))


@pytest.mark.parametrize("is_optional", [False, True], ids=["required", "optional"])
async def test_chosen_verifiers_apply_on_source_and_destination(world: World, is_optional: bool) -> None:
    lanes_own, resolvers = "0x" + "00" * 20, {}
    for here, there in ((ALPHA, BETA), (BETA, ALPHA)):
        resolver = resolvers[here] = await another_resolver(world, here, there)
        lists = ([lanes_own], [resolver], 1) if is_optional else ([lanes_own, resolver], [], 0)
        assert (await transact(world.chains[here], OWNER, choose(world, here, there, lists))).succeeded
    dispatch = await sent(world)
    (log,) = await world.logs(Gmp.CCIP)
    assert resolvers[ALPHA][2:].lower() in log.data.hex(), "the source's verifier is paid"

    adapter = world.adapter(Gmp.CCIP)
    attestation = await adapter.attest(dispatch)
    named, results = decode_results(attestation)
    assert {resolvers[BETA].lower()} < set(named)
    theirs = named.index(resolvers[BETA].lower())
    kept = [place for place in range(len(named)) if place != theirs]
    without = encode_results([named[place] for place in kept], [results[place] for place in kept])
    with pytest.raises(CallRevertedError) as refused:
        await adapter.next_call(dispatch, without)
    expected = "OptionalCCVQuorumNotReached(uint256,uint256)" if is_optional else "RequiredCCVMissing(address)"
    assert refused.value.data[:4] == topic(expected)[:4]
    call = await adapter.next_call(dispatch, attestation)
    assert call is not None
    assert (await transact(world.chains[BETA], DAPP, call)).succeeded
    assert await world.executed(dispatch)


async def test_dispatch_of_an_unknown_on_ramp_is_counted(devnet: Devnet, world: World, tmp_path: Path) -> None:
    alpha = devnet.deployment.chain(ALPHA)
    section = {name: value for name, value in alpha.gmps["ccip"].items() if name != "onRamp"}
    old = alpha.model_copy(update={"gmps": {**alpha.gmps, "ccip": section}})
    known = devnet.deployment.model_copy(update={"chains": (old, devnet.deployment.chain(BETA))})
    store = Store(f"sqlite:///{tmp_path}/bridge.db")

    try:
        async with relaying(replace(devnet, deployment=known), tmp_path), blocks(devnet):
            await world.send(Gmp.CCIP)
            await until(
                lambda: store.counters.counted(Counted.UNRECOGNISED).get((ALPHA,), 0) > 0, "nothing was counted"
            )
    finally:
        store.close()


def later(devnet: Devnet, seconds: int) -> None:
    for chain in devnet.chains:
        rpc(chain.url, "evm_increaseTime", hex(seconds))
        rpc(chain.url, "evm_mine")


async def test_a_stalled_execution_is_made_with_the_results_of_the_api(
    devnet: Devnet, public: PublicNetwork, attester: Attester
) -> None:
    dispatch = await sent(public.world)
    await public.publish_results(dispatch)
    with pytest.raises(AttestationPendingError, match="executor has not executed"):
        await attester.attest(dispatch)
    later(devnet, EXECUTORS_TIME + 60)
    await public.world.deliver(Gmp.CCIP, dispatch, attester, sender=DAPP)
    assert await public.world.executed(dispatch)
    assert await attester.attest(dispatch) == encode_results([], [])


async def test_the_api_is_neither_believed_nor_taken_as_complete(
    devnet: Devnet, public: PublicNetwork, attester: Attester
) -> None:
    dispatch, other = await sent(public.world), await sent(public.world, b"another")
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
