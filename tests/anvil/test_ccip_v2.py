"""CCIP 2.0 by its own contracts: on a devnet the lane from beta to alpha runs it, and the one from alpha to beta 1.6."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.client import Client
from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, account, signer
from bridge.devnet.deployer import Deployer
from bridge.evm.chain import EvmChain
from bridge.gmps.ccip import devnet as ccip
from bridge.gmps.ccip.adapter import FAILURE, SUCCESS, CcipContracts
from bridge.gmps.ccip.v2 import OFF_RAMP_V2, CcipMessageV2, decode_results, encode_results, is_v2
from bridge.protocol.contracts import contract, topic
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, CallRevertedError, Dispatch
from bridge.records.figures import Counted
from bridge.store import Store
from tests.anvil.relayers import until
from tests.anvil.test_relayer import blocks, relaying
from tests.anvil.traffic import DAPP, RELAYER, World, transact
from tests.builders import ALPHA, BETA
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

VERSIONED = contract("typeAndVersion() returns (string)")
CCIP_ROUTER = contract(
    "ccipSend(uint64,(bytes,bytes,(address,uint256)[],address,bytes))",
    "getFee(uint64,(bytes,bytes,(address,uint256)[],address,bytes)) returns (uint256)",
    "getOnRamp(uint64) returns (address)",
)
OFF_RAMP_STATIC = contract("getStaticConfig() returns ((uint64,uint16,address,address,address))")
CHOICE = contract("setVerifiers(uint64,address[],address[],uint8)")
OWNER = account(DEPLOYER_KEY)
NO_TOKEN = "0x" + "00" * 20


@pytest.fixture
def world(devnet: Devnet, chains: dict[int, EvmChain]) -> World:
    return World(devnet.deployment, chains)


async def sent(world: World) -> Dispatch:
    await world.send(Gmp.CCIP, source="beta", destination="alpha")
    (dispatch,) = await world.dispatches(Gmp.CCIP, "beta")
    return dispatch


async def state(world: World, dispatch: Dispatch) -> int:
    message = CcipMessageV2.of_dispatch(dispatch)
    data = OFF_RAMP_V2.encode("getExecutionState", message.id)
    answer = await world.chains[ALPHA].call(Call(to=message.off_ramp, data=data))
    number: int = OFF_RAMP_V2.decode("getExecutionState", answer)
    return number


async def version(world: World, chain_id: int, address: str) -> str:
    answer = await world.chains[chain_id].call(Call(to=address, data=VERSIONED.encode("typeAndVersion")))
    found: str = VERSIONED.decode("typeAndVersion", answer)
    return found


async def test_direction_runs_the_ccip_version_of_its_contracts(world: World) -> None:
    for source, destination, expected in ((ALPHA, BETA, "OnRamp 1.6"), (BETA, ALPHA, "OnRamp 2.0.0")):
        here, there = (CcipContracts.of(world.deployment.chain(chain)) for chain in (source, destination))
        asked = Call(to=here.router, data=CCIP_ROUTER.encode("getOnRamp", there.selector))
        on_ramp = CCIP_ROUTER.decode("getOnRamp", await world.chains[source].call(asked))
        assert (await version(world, source, on_ramp)).startswith(expected)
    dispatch = await sent(world)
    assert is_v2(dispatch)
    assert await version(world, ALPHA, CcipMessageV2.of_dispatch(dispatch).off_ramp) == "OffRamp 2.0.0"


async def test_anyone_executes_what_the_committee_signed(world: World) -> None:
    dispatch = await sent(world)
    adapter = world.adapter(Gmp.CCIP)
    call = await adapter.next_call(dispatch, await adapter.attest(dispatch))
    assert call is not None
    assert (await transact(world.chains[ALPHA], DAPP, call)).succeeded
    assert await world.executed(dispatch)
    assert await state(world, dispatch) == SUCCESS


@pytest.mark.parametrize("count", [1, 2])
async def test_few_or_foreign_signatures_cost_no_gas(world: World, count: int) -> None:
    dispatch = await sent(world)
    oracles = ccip.ORACLES[:1] if count == 1 else tuple(signer("stranger", index) for index in range(2))
    adapter = world.adapter(Gmp.CCIP, ccip.CcipOracles(world.deployment, world.chains, oracles))
    with pytest.raises(CallRevertedError) as refused:
        await adapter.next_call(dispatch, await adapter.attest(dispatch))
    expected = topic("WrongNumberOfSignatures()" if count == 1 else "UnauthorizedSigner()")
    assert refused.value.data[:4] == expected[:4]


async def test_results_without_a_required_verifier_are_refused(world: World) -> None:
    dispatch = await sent(world)
    with pytest.raises(CallRevertedError) as refused:
        await world.adapter(Gmp.CCIP).next_call(dispatch, encode_results([], []))
    assert refused.value.data[:4] == topic("RequiredCCVMissing(address)")[:4]


async def test_failed_execution_by_another_is_repeated_with_more_gas(world: World) -> None:
    dispatch = await sent(world)
    message = CcipMessageV2.of_dispatch(dispatch)
    adapter = world.adapter(Gmp.CCIP)
    attestation = await adapter.attest(dispatch)
    # With a spoilt signature the off-ramp records a failure, and does not revert.
    resolvers, results = decode_results(attestation)
    spoilt = [result[:-1] + bytes([result[-1] ^ 1]) for result in results]
    data = OFF_RAMP_V2.encode("execute", message.packed, resolvers, spoilt, 0)
    assert (await transact(world.chains[ALPHA], DAPP, Call(to=message.off_ramp, data=data, gas=3_000_000))).succeeded
    assert await state(world, dispatch) == FAILURE
    call = await adapter.next_call(dispatch, attestation)
    assert call is not None
    assert int.from_bytes(call.data[4 + 3 * 32 : 4 + 4 * 32], "big") == 2 * message.gas_limit
    assert (await transact(world.chains[ALPHA], RELAYER, call)).succeeded
    assert await world.executed(dispatch)
    assert await adapter.next_call(dispatch, attestation) is None


async def another_resolver(world: World, chain_id: int, remote: int) -> str:
    """A second committee of the same oracles, on a chain for its lane with a remote one."""
    chain, contracts = world.chains[chain_id], CcipContracts.of(world.deployment.chain(chain_id))
    asked = Call(to=contracts.off_ramp_v1, data=OFF_RAMP_STATIC.encode("getStaticConfig"))
    rmn = OFF_RAMP_STATIC.decode("getStaticConfig", await chain.call(asked))[2]
    deployer = await Deployer.on(chain, OWNER)
    resolver = ccip.create_committee(
        deployer, rmn, contracts.router, [CcipContracts.of(world.deployment.chain(remote)).selector]
    )
    await deployer.send()
    return resolver


def choose(world: World, chain_id: int, remote: int, lists: tuple[list[str], list[str], int]) -> Call:
    """What the owner sends so that the adapter names resolvers for its lane: required, optional, and how many of those."""
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
    (log,) = await world.logs(Gmp.CCIP, "beta")
    assert resolvers[BETA][2:].lower() in log.data.hex(), "the source's verifier is paid"

    adapter = world.adapter(Gmp.CCIP)
    attestation = await adapter.attest(dispatch)
    named, results = decode_results(attestation)
    assert {resolvers[ALPHA].lower()} < set(named)
    theirs = named.index(resolvers[ALPHA].lower())
    kept = [place for place in range(len(named)) if place != theirs]
    without = encode_results([named[place] for place in kept], [results[place] for place in kept])
    with pytest.raises(CallRevertedError) as refused:
        await adapter.next_call(dispatch, without)
    expected = "OptionalCCVQuorumNotReached(uint256,uint256)" if is_optional else "RequiredCCVMissing(address)"
    assert refused.value.data[:4] == topic(expected)[:4]
    call = await adapter.next_call(dispatch, attestation)
    assert call is not None
    assert (await transact(world.chains[ALPHA], DAPP, call)).succeeded
    assert await world.executed(dispatch)


async def test_ccip_1_6_lane_ignores_chosen_verifiers(world: World) -> None:
    resolver = await another_resolver(world, ALPHA, BETA)
    assert (await transact(world.chains[ALPHA], OWNER, choose(world, ALPHA, BETA, ([resolver], [], 0)))).succeeded
    await world.send(Gmp.CCIP)
    (dispatch,) = await world.dispatches(Gmp.CCIP)
    assert not is_v2(dispatch)
    await world.deliver(Gmp.CCIP, dispatch)
    assert await world.executed(dispatch)


async def arrives(world: World, dispatch: Dispatch) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await world.executed(dispatch):
            await asyncio.sleep(0.3)


async def test_relayer_rescues_from_and_delivers_over_ccip_2_0(devnet: Devnet, world: World, tmp_path: Path) -> None:
    client = Client(world.deployment, world.chains, DAPP)
    async with relaying(devnet, tmp_path, paused_gmps=["ccip"]), blocks(devnet):
        stalled = await world.send(Gmp.CCIP, source="beta", destination="alpha", quorum=1)
        (over_ccip,) = await world.dispatches(Gmp.CCIP, "beta")
        await asyncio.sleep(3)
        assert not await world.executed(over_ccip), "its GMP is silent"
        await client.retry(stalled.message, [Gmp.WORMHOLE])
        await arrives(world, over_ccip)
    async with relaying(devnet, tmp_path, paused_gmps=["wormhole"]), blocks(devnet):
        back = await world.send(Gmp.WORMHOLE, source="beta", destination="alpha", payload=b"back", quorum=1)
        await client.retry(back.message, [Gmp.CCIP])
        *_, over_ccip = await world.dispatches(Gmp.CCIP, "beta")
        assert over_ccip.message_id == back.message.id
        await arrives(world, over_ccip)


async def test_unknown_on_ramp_of_2_0_is_counted_as_unrecognised(devnet: Devnet, world: World, tmp_path: Path) -> None:
    beta = devnet.deployment.chain(BETA)
    section = {name: value for name, value in beta.gmps["ccip"].items() if name != "onRampV2"}
    old = beta.model_copy(update={"gmps": {**beta.gmps, "ccip": section}})
    known = devnet.deployment.model_copy(update={"chains": (devnet.deployment.chain(ALPHA), old)})
    store = Store(f"sqlite:///{tmp_path}/bridge.db")

    try:
        async with relaying(replace(devnet, deployment=known), tmp_path), blocks(devnet):
            await world.send(Gmp.CCIP, source="beta", destination="alpha")
            await until(lambda: store.counters.counted(Counted.UNRECOGNISED).get((BETA,), 0) > 0, "nothing was counted")
    finally:
        store.close()
