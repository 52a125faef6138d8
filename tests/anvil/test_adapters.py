"""Every GMP, from its real contracts on one chain to its real contracts on the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from eth_abi.abi import encode
from eth_utils.address import to_checksum_address

from bridge.client import Client
from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, account, signer
from bridge.evm.chain import EvmChain
from bridge.gmps.axelar import devnet as axelar
from bridge.gmps.axelar.adapter import AxelarContracts
from bridge.gmps.ccip import devnet as ccip
from bridge.gmps.ccip.adapter import CcipContracts
from bridge.gmps.hyperlane import devnet as hyperlane
from bridge.gmps.hyperlane.adapter import HyperlaneContracts
from bridge.gmps.layerzero import devnet as layerzero
from bridge.gmps.layerzero.adapter import LayerZeroContracts
from bridge.gmps.wormhole import devnet as wormhole
from bridge.gmps.wormhole.adapter import WormholeContracts
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import INBOX, contract, explain_revert, topic
from bridge.protocol.deployment import Deployment
from bridge.protocol.events import MessageExecuted, decode_event, topic_of
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import MAX_GAS_LIMIT
from bridge.protocol.ports import Attester, Call, CallRevertedError, Log, TerminalError, TransientError
from tests.anvil.rpc import mine, rpc
from tests.anvil.traffic import DAPP, RELAYER, World, tampered, transact
from tests.builders import ALPHA, BETA

GMPS = tuple(Gmp)
every_gmp = pytest.mark.parametrize("gmp", GMPS, ids=lambda gmp: gmp.label)

STRANGERS = tuple(sorted((signer("stranger", index) for index in range(3)), key=lambda one: int(one.address, 16)))


NO_TOKEN = "0x" + "00" * 20  # fees are paid in the chain's coin
# What a stranger asks for: 500,000 gas of LayerZero's executor; of CCIP the same, and any order.
LAYERZERO_OPTIONS = bytes.fromhex("0003" + "01" + "0011" + "01") + (500_000).to_bytes(16, "big")
CCIP_ARGUMENTS = bytes.fromhex("181dcf10") + encode(["uint256", "bool"], [500_000, True])


@pytest.fixture
def world(devnet: Devnet, chains: dict[int, EvmChain]) -> World:
    return World(devnet.deployment, chains)


def events(world: World, logs: tuple[Log, ...]) -> list[object]:
    """The routers' events: CCIP's router has one of the same name and types."""
    routers = {chain.router for chain in world.deployment.chains}
    own = (log for log in logs if to_checksum_address(log.address) in routers)
    return [event for log in own if (event := decode_event(log.topics, log.data)) is not None]


def with_strangers(gmp: Gmp, deployment: Deployment, chains: Mapping[int, EvmChain]) -> Attester:
    """The GMP's attester, signing with as many keys as it should, none of which the GMP trusts."""
    if gmp is Gmp.HYPERLANE:
        return hyperlane.HyperlaneValidators(deployment, chains, STRANGERS[: hyperlane.THRESHOLD])
    if gmp is Gmp.AXELAR:
        return axelar.AxelarSigners(deployment, chains, STRANGERS[: axelar.THRESHOLD])
    if gmp is Gmp.LAYERZERO:
        return layerzero.LayerZeroVerifiers(deployment, chains, STRANGERS[: layerzero.QUORUM])
    if gmp is Gmp.CCIP:
        return ccip.CcipOracles(deployment, chains, STRANGERS[: ccip.SIGNATURES])
    return wormhole.WormholeGuardians(deployment, chains, STRANGERS[: wormhole.QUORUM])


def with_one_too_few(gmp: Gmp, deployment: Deployment, chains: Mapping[int, EvmChain]) -> Attester:
    if gmp is Gmp.HYPERLANE:
        return hyperlane.HyperlaneValidators(deployment, chains, hyperlane.VALIDATORS[: hyperlane.THRESHOLD - 1])
    if gmp is Gmp.AXELAR:
        return axelar.AxelarSigners(deployment, chains, axelar.SIGNERS[: axelar.THRESHOLD - 1])
    if gmp is Gmp.LAYERZERO:
        return layerzero.LayerZeroVerifiers(deployment, chains, layerzero.SIGNERS[: layerzero.QUORUM - 1])
    if gmp is Gmp.CCIP:
        return ccip.CcipOracles(deployment, chains, ccip.ORACLES[: ccip.SIGNATURES - 1])
    return wormhole.WormholeGuardians(deployment, chains, wormhole.GUARDIANS[: wormhole.QUORUM - 1])


@every_gmp
@pytest.mark.parametrize(("source", "destination"), [("alpha", "beta"), ("beta", "alpha")])
async def test_a_message_travels_and_is_executed_once(world: World, gmp: Gmp, source: str, destination: str) -> None:
    sent = await world.send(gmp, payload=b"over the sea", source=source, destination=destination)
    (dispatch,) = await world.dispatches(gmp, source)
    assert dispatch.message_id == sent.message.id
    assert dispatch.envelope == sent.message.encode()
    assert dispatch.block_hash == sent.receipt.block_hash
    assert dispatch.transaction_hash == sent.transaction

    receipts = await world.deliver(gmp, dispatch)

    assert len(receipts) == (2 if gmp is Gmp.AXELAR else 1)
    assert all(receipt.succeeded for receipt in receipts)
    assert [type(event) for event in events(world, receipts[-1].logs)].count(MessageExecuted) == 1
    target = world.deployment.chain(destination)
    answer = await world.chains[target.chain_id].call(
        Call(to=target.examples["inbox"], data=INBOX.encode("timesReceived", sent.message.id))
    )
    assert INBOX.decode("timesReceived", answer) == 1


@every_gmp
async def test_what_is_delivered_already_needs_no_call(world: World, gmp: Gmp) -> None:
    await world.send(gmp)
    (dispatch,) = await world.dispatches(gmp)
    attestation = await world.adapter(gmp).attest(dispatch)
    await world.deliver(gmp, dispatch)
    assert await world.adapter(gmp).next_call(dispatch, attestation) is None


@every_gmp
@pytest.mark.parametrize("attester_of", [with_strangers, with_one_too_few])
async def test_rejected_signatures_cost_no_gas(
    world: World, gmp: Gmp, attester_of: Callable[[Gmp, Deployment, Mapping[int, EvmChain]], Attester]
) -> None:
    await world.send(gmp)
    (dispatch,) = await world.dispatches(gmp)
    adapter = world.adapter(gmp, attester_of(gmp, world.deployment, world.chains))
    # LayerZero's verifier would take the transaction, and verify nothing: its node looks first.
    with pytest.raises(TransientError if gmp is Gmp.LAYERZERO else CallRevertedError):
        await adapter.next_call(dispatch, await adapter.attest(dispatch))
    assert not await world.executed(dispatch)


@every_gmp
async def test_envelope_other_than_the_attested_is_refused(world: World, gmp: Gmp) -> None:
    await world.send(gmp)
    (dispatch,) = await world.dispatches(gmp)
    adapter = world.adapter(gmp)
    forged = tampered(dispatch)
    attestation = await adapter.attest(forged)
    if gmp is Gmp.AXELAR:  # signed by a careless network: the gateway approves, and the router still refuses
        call = await adapter.next_call(forged, attestation)
        assert call is not None
        await transact(world.chains[BETA], RELAYER, call)
    with pytest.raises(CallRevertedError) as refused:
        await adapter.next_call(forged, attestation)
    # These two verify the packet or message that was sent, not the one that is asked for.
    by_the_gmp = {
        Gmp.LAYERZERO: topic("LZ_PayloadHashNotFound(bytes32,bytes32)"),
        Gmp.CCIP: topic("UnauthorizedSigner()"),
    }
    if gmp in by_the_gmp:
        assert refused.value.data[:4] == by_the_gmp[gmp][:4]
    else:
        assert "WrongMessageId" in explain_revert(refused.value.data)


@pytest.mark.parametrize("gmp", [Gmp.HYPERLANE, Gmp.AXELAR, Gmp.WORMHOLE], ids=lambda gmp: gmp.label)
async def test_an_attestation_of_another_message_is_refused(world: World, gmp: Gmp) -> None:
    await world.send(gmp, payload=b"one")
    await world.send(gmp, payload=b"two")
    one, two = await world.dispatches(gmp)
    adapter = world.adapter(gmp)
    attestation = await adapter.attest(two)
    if gmp is Gmp.HYPERLANE:
        with pytest.raises(CallRevertedError):
            await adapter.next_call(one, attestation)
        return
    # Axelar approves and Wormhole delivers what was attested, which is not what was asked for: the message is not executed.
    call = await adapter.next_call(one, attestation)
    assert call is not None
    await transact(world.chains[BETA], RELAYER, call)
    assert not await world.executed(one)


@every_gmp
async def test_recipient_gets_its_gas_for_any_payload(world: World, gmp: Gmp) -> None:
    for size in (0, 1_000, 9_000 if gmp is Gmp.LAYERZERO else 20_000):  # LayerZero takes 10,000 bytes at most
        for gas_limit in (25_000 + 25 * size, 12_000_000):
            sent = await world.send(gmp, payload=bytes(range(256)) * (size // 256 + 1), gas_limit=gas_limit)
            dispatch = (await world.dispatches(gmp))[-1]
            receipts = await world.deliver(gmp, dispatch)
            deferred = topic_of("ExecutionDeferred") in {log.topics[0] for log in receipts[-1].logs}
            assert not deferred, f"{size} bytes, {sent.message.gas_limit} gas"


@pytest.mark.parametrize("gmp", [gmp for gmp in GMPS if gmp is not Gmp.CCIP], ids=lambda gmp: gmp.label)
async def test_the_highest_gas_limit_fits_into_a_delivery(world: World, gmp: Gmp) -> None:
    await world.send(gmp, gas_limit=MAX_GAS_LIMIT)
    (dispatch,) = await world.dispatches(gmp)
    receipts = await world.deliver(gmp, dispatch)
    assert receipts[-1].succeeded
    assert [type(event) for event in events(world, receipts[-1].logs)][-1] is MessageExecuted


@every_gmp
async def test_refusing_recipient_keeps_its_receipt_for_later(world: World, gmp: Gmp) -> None:
    sent = await world.send(gmp)
    (dispatch,) = await world.dispatches(gmp)
    await set_closed(world, closed=True)
    receipts = await world.deliver(gmp, dispatch)
    assert receipts[-1].succeeded
    assert await world.deliver(gmp, dispatch) == [], "the receipt is there"
    assert not await world.executed(dispatch)
    await set_closed(world, closed=False)
    await Client(world.deployment, world.chains, RELAYER).execute(sent.message)
    assert await world.executed(dispatch)


async def set_closed(world: World, *, closed: bool) -> None:
    inbox = world.deployment.chain(BETA).examples["inbox"]
    call = Call(to=inbox, data=INBOX.encode("setClosed", closed))
    assert (await transact(world.chains[BETA], account(DEPLOYER_KEY), call)).succeeded


async def test_axelar_executes_what_another_approved(world: World) -> None:
    await world.send(Gmp.AXELAR)
    (dispatch,) = await world.dispatches(Gmp.AXELAR)
    adapter = world.adapter(Gmp.AXELAR)
    attestation = await adapter.attest(dispatch)
    gateway = AxelarContracts.of(world.deployment.chain(BETA)).gateway
    assert (await transact(world.chains[BETA], DAPP, Call(to=gateway, data=attestation))).succeeded
    call = await adapter.next_call(dispatch, attestation)
    assert call is not None
    assert call.to == world.deployment.chain(BETA).adapters["axelar"]
    assert (await transact(world.chains[BETA], RELAYER, call)).succeeded
    assert await world.executed(dispatch)


@every_gmp
async def test_nothing_is_signed_for_a_block_that_fell_to_a_reorg(world: World, devnet: Devnet, gmp: Gmp) -> None:
    url = devnet.chains[0].url
    mine(url)
    await world.send(gmp)
    (dispatch,) = await world.dispatches(gmp)
    mine(url, 2)
    rpc(url, "anvil_reorg", 3, [])
    with pytest.raises(TransientError, match="nothing was signed"):
        await world.adapter(gmp).attest(dispatch)


async def test_hyperlane_message_without_a_leaf_is_never_attested(world: World) -> None:
    await world.send(Gmp.HYPERLANE)
    logs = await world.logs(Gmp.HYPERLANE)
    mailbox = HyperlaneContracts.of(world.deployment.chain(ALPHA)).mailbox
    (dispatch,) = world.adapter(Gmp.HYPERLANE).dispatches(ALPHA, [log for log in logs if log.address == mailbox])
    with pytest.raises(TerminalError, match="did not insert"):
        await world.adapter(Gmp.HYPERLANE).attest(dispatch)


async def test_strangers_message_over_the_same_gmp_is_ignored(world: World) -> None:
    sent = await world.send(*GMPS, quorum=1)
    alpha = world.deployment.chain(ALPHA)
    chain, envelope = world.chains[alpha.chain_id], sent.message.encode()
    beta = world.deployment.chain(BETA)
    mailbox = contract("dispatch(uint32,bytes32,bytes)")
    gateway = contract("callContract(string,string,bytes)")
    core = contract("publishMessage(uint32,bytes,uint8)")
    calls = [
        Call(
            to=HyperlaneContracts.of(alpha).mailbox,
            data=mailbox.encode("dispatch", beta.chain_id, to_bytes32(beta.adapters["hyperlane"]), envelope),
            value=10**17,
        ),
        Call(
            to=AxelarContracts.of(alpha).gateway,
            data=gateway.encode("callContract", "beta", beta.adapters["axelar"], envelope),
        ),
        Call(
            to=WormholeContracts.of(alpha).core,
            data=core.encode("publishMessage", 0, envelope, 1),
            value=wormhole.MESSAGE_FEE,
        ),
        Call(
            to=LayerZeroContracts.of(alpha).endpoint,
            data=contract("send((uint32,bytes32,bytes,bytes,bool),address)").encode(
                "send",
                (31_002, to_bytes32(beta.adapters["layerzero"]), envelope, LAYERZERO_OPTIONS, False),
                DAPP.address,
            ),
            value=10**18,
        ),
        Call(
            to=CcipContracts.of(alpha).router,
            data=contract("ccipSend(uint64,(bytes,bytes,(address,uint256)[],address,bytes))").encode(
                "ccipSend",
                CcipContracts.of(beta).selector,
                (to_bytes32(beta.adapters["ccip"]), envelope, [], NO_TOKEN, CCIP_ARGUMENTS),
            ),
            value=10**18,
        ),
    ]
    for call in calls:
        assert (await transact(chain, DAPP, call)).succeeded
    for gmp in GMPS:
        assert len(await world.logs(gmp)) == (4 if gmp is Gmp.HYPERLANE else 2), "the stranger's logs are there"
        (dispatch,) = await world.dispatches(gmp)
        assert dispatch.transaction_hash == sent.transaction
