"""On a public network the relayer signs nothing: it fetches what the GMPs' parties signed, or waits for what they wrote."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from bridge.client import Client
from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, RELAYER_KEY, account, signer
from bridge.devnet.artifacts import Artifact
from bridge.devnet.deployer import Deployer
from bridge.evm.chain import EvmChain
from bridge.gmps.attestation import AttestationError, JsonDocuments
from bridge.gmps.hyperlane.adapter import HyperlaneContracts
from bridge.gmps.hyperlane.attester import public_url
from bridge.gmps.hyperlane.devnet import THRESHOLD, VALIDATORS
from bridge.gmps.registry import create_attesters
from bridge.gmps.settings import AttestationServices
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import AttestationPendingError, Attester, Call, Dispatch, TransientError
from tests.anvil.public_network import PublicNetwork
from tests.anvil.relayers import process
from tests.anvil.test_relayer import blocks
from tests.anvil.traffic import World, tampered
from tests.waiting import PATIENCE

pytestmark = pytest.mark.long

STRANGER = signer("stranger", 0)
NO_WEB = JsonDocuments(timeout=1)  # nothing is asked


@pytest.fixture
def world(devnet: Devnet, chains: dict[int, EvmChain]) -> World:
    return World(devnet.deployment, chains)


@pytest.fixture
async def public(world: World) -> AsyncIterator[PublicNetwork]:
    network = PublicNetwork(world)
    async with network.serving():
        await network.announce_validators()
        yield network


def attester_of(gmp: Gmp, public: PublicNetwork) -> Attester:
    return create_attesters(public.world.deployment, public.world.chains, public.settings, set(Gmp), public.asking)[gmp]


async def dispatched(world: World, gmp: Gmp, payload: bytes = b"hello") -> Dispatch:
    await world.send(gmp, payload=payload)
    return (await world.dispatches(gmp))[-1]


@pytest.mark.parametrize("gmp", Gmp, ids=lambda gmp: gmp.label)
async def test_public_network_waits_for_the_gmps_own_attestation(public: PublicNetwork, gmp: Gmp) -> None:
    world = public.world
    dispatch = await dispatched(world, gmp)
    attester = attester_of(gmp, public)
    with pytest.raises(TransientError, match=r"(?i)not (signed|approved|executed|committed)|0 of 2 validators"):
        await world.deliver(gmp, dispatch, attester)
    await public.attest(dispatch)
    await world.deliver(gmp, dispatch, attester)
    assert await world.executed(dispatch)


async def test_foreign_vaa_is_refused_and_the_next_host_asked(public: PublicNetwork) -> None:
    dispatch = await dispatched(public.world, Gmp.WORMHOLE)
    other = await dispatched(public.world, Gmp.WORMHOLE, b"another")
    for one in (dispatch, other):
        await public.attest(one)
    path, of_other = (f"/v1/signed_vaa/{one.transport_id}" for one in (dispatch, other))
    honest = public.documents[path]
    settings = {Gmp.WORMHOLE: (f"{public.url}/liar", "http://127.0.0.1:1", public.url)}
    made = create_attesters(public.world.deployment, public.world.chains, settings, {Gmp.WORMHOLE}, public.asking)
    lies: list[object] = [
        public.documents[of_other],
        {"vaaBytes": "no base64"},
        {"vaaBytes": ""},
        {},
        [],
        web.Response(status=500),
        web.Response(text="<html>"),
    ]
    for lie in lies:
        public.documents["/liar" + path] = lie
        public.documents[path] = honest
        assert await made[Gmp.WORMHOLE].attest(dispatch) == base64.b64decode(honest["vaaBytes"])
        del public.documents[path]
        with pytest.raises(TransientError, match="127"):
            await made[Gmp.WORMHOLE].attest(dispatch)


async def test_foreign_checkpoints_do_not_count(public: PublicNetwork) -> None:
    dispatch = await dispatched(public.world, Gmp.HYPERLANE)
    attester = attester_of(Gmp.HYPERLANE, public)
    first, second, third = VALIDATORS
    await public.sign_checkpoint(dispatch, first)
    await public.sign_checkpoint(dispatch, second, signer=STRANGER)
    await public.sign_checkpoint(tampered(dispatch), third)
    with pytest.raises(AttestationPendingError, match=f"1 of {THRESHOLD} validators") as refused:
        await attester.attest(dispatch)
    for liar in (second, third):
        assert f"{liar.address} did not sign" in str(refused.value)
    await public.sign_checkpoint(dispatch, third)
    await public.world.deliver(Gmp.HYPERLANE, dispatch, attester)
    assert await public.world.executed(dispatch)


async def test_the_proof_fits_an_ism_that_routes_and_aggregates(public: PublicNetwork) -> None:
    """As Hyperlane's default ISMs do. The second of three modules is one that no proof can be put together for."""
    world = public.world
    alpha, beta = world.deployment.chains
    mailbox = HyperlaneContracts.of(beta).mailbox
    artifacts = {name: Artifact.load("hyperlane", name) for name in ("Mailbox", "DomainRoutingIsm")}
    factory_artifact = Artifact.load("hyperlane", "StaticAggregationIsmFactory")
    chain = world.chains[beta.chain_id]
    asked = Call(to=mailbox, data=artifacts["Mailbox"].contract.encode("defaultIsm"))
    multisig = artifacts["Mailbox"].contract.decode("defaultIsm", await chain.call(asked))
    deployer = await Deployer.on(chain, account(DEPLOYER_KEY))
    factory, routing = deployer.create(factory_artifact), deployer.create(artifacts["DomainRoutingIsm"])
    another = deployer.create(artifacts["DomainRoutingIsm"])
    domains = [HyperlaneContracts.of(alpha).domain]
    deployer.call(artifacts["DomainRoutingIsm"], another, "initialize(address,uint32[],address[])",
                  deployer.address, domains, [multisig])  # fmt: skip
    modules = sorted([mailbox, multisig, another], key=lambda one: int(one, 16))
    deployer.call(factory_artifact, factory, "deploy(address[],uint8)", modules, 2)
    await deployer.send()
    asked = Call(to=factory, data=factory_artifact.contract.encode("getAddress(address[],uint8)", modules, 2))
    aggregation = factory_artifact.contract.decode("getAddress(address[],uint8)", await chain.call(asked))
    deployer.call(artifacts["DomainRoutingIsm"], routing, "initialize(address,uint32[],address[])",
                  deployer.address, domains, [aggregation])  # fmt: skip
    deployer.call(artifacts["Mailbox"], mailbox, "setDefaultIsm", routing)
    await deployer.send()

    dispatch = await dispatched(world, Gmp.HYPERLANE)
    attester = attester_of(Gmp.HYPERLANE, public)
    with pytest.raises(AttestationPendingError):
        await attester.attest(dispatch)
    await public.attest(dispatch)
    await world.deliver(Gmp.HYPERLANE, dispatch, attester)
    assert await world.executed(dispatch)


async def test_relayer_on_a_public_network_delivers(
    public: PublicNetwork, chains: dict[int, EvmChain], devnet: Devnet, tmp_path: Path
) -> None:
    deployment = devnet.deployment.model_copy(update={"network": "testnet"})
    (tmp_path / "deployments").mkdir()
    (tmp_path / "deployments" / "testnet.json").write_text(deployment.to_json())
    environment = {
        "WAYBILL_RELAYER_KEY": RELAYER_KEY,
        "WAYBILL_POLL_INTERVAL": "0.2",
        "WAYBILL_GMPS": "hyperlane,wormhole",
        "WAYBILL_ATTESTATIONS": json.dumps({"wormhole": [public.url], "hyperlane": public.announce}),
    }
    arguments = ("relayer", "run", "--network", "testnet")
    async with blocks(devnet):
        sent = await public.world.send(Gmp.HYPERLANE, Gmp.WORMHOLE, quorum=2)
        with process(tmp_path, tmp_path / "relayer.log", *arguments, **environment) as relayer:
            await relayer.is_at_work()
            for gmp in (Gmp.HYPERLANE, Gmp.WORMHOLE):
                await public.attest((await public.world.dispatches(gmp))[-1])
            assert (await Client(deployment, chains).wait(sent.message, timeout=PATIENCE)).executed, relayer.log
            assert relayer.terminate() == 0


def test_network_without_validators_is_refused(devnet: Devnet) -> None:
    with pytest.raises(AttestationError, match=r"is known for alpha, beta.*\[attestations\.hyperlane\]"):
        create_attesters(devnet.deployment, {}, AttestationServices().by_gmp(), set(Gmp), NO_WEB)
    assert Gmp.HYPERLANE not in create_attesters(
        devnet.deployment, {}, AttestationServices().by_gmp(), {Gmp.WORMHOLE}, NO_WEB
    )


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("s3://hyperlane-mainnet3-ethereum-validator-0/us-east-1",
         "https://hyperlane-mainnet3-ethereum-validator-0.s3.us-east-1.amazonaws.com"),
        ("s3://bucket/eu-west-1/some/folder", "https://bucket.s3.eu-west-1.amazonaws.com/some/folder"),
        ("gs://bucket/folder", "https://storage.googleapis.com/bucket/folder"),
        ("https://validator.example/signatures/", "https://validator.example/signatures"),
    ],
)  # fmt: skip
def test_a_validators_storage_is_found_where_it_is_announced(location: str, url: str) -> None:
    assert public_url(location) == url


@pytest.mark.parametrize("location", ["file:///tmp/signatures", "s3://bucket", "nothing"])
def test_a_storage_that_can_not_be_reached_is_said(location: str) -> None:
    with pytest.raises(TransientError, match="is not supported"):
        public_url(location)
