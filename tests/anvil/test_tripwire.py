"""The tripwire on real chains: a GMP whose adapter makes messages up is paused, and nobody else ever is."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from bridge.cli.workspace import Workspace
from bridge.client import Client, RouteRequest
from bridge.devnet import Devnet
from bridge.devnet.accounts import DAPP_KEY, TRIPWIRE_KEY, account
from bridge.evm.chain import EvmChain
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from bridge.service.tripwire_service import open_tripwire
from bridge.settings import SettingsError
from bridge.tripwire.journal import Deed
from bridge.tripwire.tripwire import Tripwire
from tests.anvil.command import Waybill, new_home
from tests.anvil.forgery import forgery, message_from
from tests.anvil.rpc import rpc
from tests.anvil.running_tripwire import tripwire_settings
from tests.anvil.running_tripwire import watching as watching_from

pytestmark = pytest.mark.long

PATIENCE: Final = 60.0  # seconds
STRANGER = to_bytes32(account(DAPP_KEY).address)
"""A router that no other knows."""
HYPERLANE, AXELAR, WORMHOLE = (int(gmp) for gmp in (Gmp.HYPERLANE, Gmp.AXELAR, Gmp.WORMHOLE))


def url_of(chain: ChainDeployment) -> str:
    return chain.rpc_urls[0]


def transact(chain: ChainDeployment, sender: str, to: str, data: bytes) -> dict[str, Any]:
    """The receipt of any account's transaction, made without its key."""
    url = url_of(chain)
    rpc(url, "anvil_setBalance", sender, hex(10**20))
    rpc(url, "anvil_impersonateAccount", sender)
    fields = {"from": sender, "to": to, "data": f"0x{data.hex()}", "gas": hex(3_000_000)}
    sent = rpc(url, "eth_sendTransaction", fields)
    receipt: dict[str, Any] | None = None
    deadline = time.monotonic() + PATIENCE
    while receipt is None:
        assert time.monotonic() < deadline
        receipt = rpc(url, "eth_getTransactionReceipt", sent)
    return receipt


def lie(message: Message, destination: ChainDeployment, gmp: int, *, succeeds: bool = True) -> None:
    """Has a GMP's adapter hand a message over that nobody handed to the GMP."""
    sender, data = forgery(message, destination, Gmp(gmp))
    receipt = transact(destination, sender, destination.router, data)
    assert (receipt["status"] == "0x1") is succeeds


def paused_until(chain: ChainDeployment, gmp: int) -> int:
    call = {"to": chain.router, "data": f"0x{ROUTER.encode('gmpPausedUntil', gmp).hex()}"}
    until = int(rpc(url_of(chain), "eth_call", call, "latest"), 16)
    return until if until > time_of(chain) else 0


def time_of(chain: ChainDeployment) -> int:
    return int(rpc(url_of(chain), "eth_getBlockByNumber", "latest", False)["timestamp"], 16)


async def eventually(said: Callable[[], Any], *mining: ChainDeployment) -> Any:
    """Waits for something, while some chains go on making blocks as real ones do."""
    deadline = time.monotonic() + PATIENCE
    while not (found := said()):
        assert time.monotonic() < deadline, "it did not happen in time"
        for chain in mining:
            rpc(url_of(chain), "evm_increaseTime", 2)
            rpc(url_of(chain), "evm_mine")
        await asyncio.sleep(0.1)
    return found


def mine(chain: ChainDeployment, count: int = 3) -> None:
    """Blocks, so that those before become final."""
    for _ in range(count):
        rpc(url_of(chain), "evm_mine")


@asynccontextmanager
async def watching(devnet: Devnet, home: Path, *, dry_run: bool = False) -> AsyncIterator[Tripwire]:
    """A tripwire at work, with its store where the command looks for it."""
    file = Workspace("devnet", home).tripwire_file
    file.parent.mkdir(parents=True, exist_ok=True)
    async with watching_from(devnet.deployment, file, dry_run=dry_run) as tripwire:
        yield tripwire


def records(tripwire: Tripwire) -> list[str]:
    return [one.deed.value for one in tripwire.store.records()]


@pytest.fixture
def home(devnet: Devnet, tmp_path: Path) -> Path:
    return new_home(devnet, tmp_path)


def ends(devnet: Devnet) -> tuple[ChainDeployment, ChainDeployment]:
    alpha, beta = devnet.deployment.chains
    return alpha, beta


async def test_a_gmp_that_makes_a_message_up_is_paused_where_it_lied_and_nowhere_else(
    devnet: Devnet, home: Path
) -> None:
    alpha, beta = ends(devnet)
    forged = message_from(alpha, beta)
    async with watching(devnet, home) as tripwire:
        await asyncio.to_thread(lie, forged, beta, AXELAR)
        until = await eventually(lambda: paused_until(beta, AXELAR), alpha)
        await eventually(lambda: records(tripwire) == ["EVIDENCE", "PAUSED"])
    assert until <= time_of(beta) + 6 * 3600
    assert paused_until(beta, HYPERLANE) == paused_until(beta, WORMHOLE) == 0
    assert paused_until(alpha, AXELAR) == 0, "only the affected destination"
    lie(message_from(alpha, beta, 1_000_001), beta, AXELAR, succeeds=False)

    waybill = Waybill(home)
    listed = waybill.json("incident", "list")
    (incident,) = listed["incidents"]
    assert (incident["gmp"], incident["chain"], listed["violations"]) == ("axelar", "beta", [])
    shown = waybill.json("incident", "show", incident["id"])
    (evidence,) = shown["evidence"]
    assert (evidence["kind"], evidence["messageId"]) == ("RECEIPT_WITHOUT_CREATION", f"0x{forged.id.hex()}")
    assert (evidence["receiptSaidBy"], evidence["finalSourceBlock"]["saidBy"]) == ([url_of(beta)], [url_of(alpha)])
    assert f"said by {url_of(beta)}" in waybill("incident", "show", incident["id"]).out
    (pause,) = shown["pauses"]
    assert 0 < pause["secondsLeft"] <= 6 * 3600
    assert {one["signedBy"] for one in shown["history"]} == {account(TRIPWIRE_KEY).address}
    assert any("resume" in line for line in shown["next"])
    assert any(
        line.startswith("waybill gmp revoke-adapter axelar --chains beta as the revoker") for line in shown["next"]
    )
    assert any(line.startswith("waybill gmp floor alpha beta 2 as the revoker") for line in shown["next"])
    seed = json.loads(waybill("incident", "export", incident["id"]).out)
    assert [one["kind"] for one in seed["forgeries"]] == ["RECEIPT_WITHOUT_CREATION"]

    resumed = waybill.json("gmp", "resume", "axelar", "--chains", "beta")
    assert resumed["chains"][0]["pausedUntil"] is None
    assert paused_until(beta, AXELAR) == 0
    waybill.json("gmp", "pause", "axelar", "--chains", "alpha", "--for", "1")
    assert 0 < paused_until(alpha, AXELAR) <= time_of(alpha) + 3600


async def test_what_happened_while_it_was_dead_is_found_once_and_nothing_is_repeated(
    devnet: Devnet, home: Path
) -> None:
    alpha, beta = ends(devnet)
    async with watching(devnet, home):
        pass
    await asyncio.to_thread(lie, message_from(alpha, beta), beta, WORMHOLE)
    for _ in range(2):
        async with watching(devnet, home) as tripwire:
            await eventually(lambda: paused_until(beta, WORMHOLE), alpha)
            await eventually(partial(is_done, tripwire))
            await asyncio.sleep(1)
            assert records(tripwire) == ["EVIDENCE", "PAUSED"]
    nonce = rpc(url_of(beta), "eth_getTransactionCount", account(TRIPWIRE_KEY).address, "latest")
    assert int(nonce, 16) == 1


def is_done(tripwire: Tripwire) -> bool:
    return all(one.state != "OPEN" for one in tripwire.store.incidents())


async def test_a_process_that_is_killed_after_its_evidence_pauses_when_it_is_started_again(
    devnet: Devnet, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evidence is written first: with it, a process that dies before the pause has something to go on from."""
    alpha, beta = ends(devnet)
    with monkeypatch.context() as patched:
        patched.setattr(Tripwire, "act", never)
        async with watching(devnet, home) as tripwire:
            await asyncio.to_thread(lie, message_from(alpha, beta), beta, WORMHOLE)
            await eventually(lambda: records(tripwire) == ["EVIDENCE"], alpha)
    assert not paused_until(beta, WORMHOLE)
    async with watching(devnet, home) as tripwire:
        await eventually(lambda: paused_until(beta, WORMHOLE))
        await eventually(lambda: records(tripwire) == ["EVIDENCE", "PAUSED"])


async def never(_tripwire: Tripwire, _chain_id: int) -> bool:
    await asyncio.sleep(3600)
    return True


async def test_a_dry_run_tells_and_pauses_nothing(devnet: Devnet, home: Path) -> None:
    alpha, beta = ends(devnet)
    async with watching(devnet, home, dry_run=True) as tripwire:
        await asyncio.to_thread(lie, message_from(alpha, beta), beta, AXELAR)
        await eventually(lambda: records(tripwire) == ["EVIDENCE", "NOT_PAUSED"], alpha)
    assert paused_until(beta, AXELAR) == 0


async def test_evidence_from_two_destinations_pauses_on_the_whole_network(devnet: Devnet, home: Path) -> None:
    alpha, beta = ends(devnet)
    async with watching(devnet, home) as tripwire:
        await asyncio.to_thread(lie, message_from(alpha, beta), beta, AXELAR)
        await asyncio.to_thread(lie, message_from(beta, alpha), alpha, AXELAR)
        await eventually(lambda: paused_until(beta, AXELAR) and paused_until(alpha, AXELAR), alpha, beta)
        await eventually(lambda: is_done(tripwire))
    assert paused_until(beta, WORMHOLE) == paused_until(alpha, WORMHOLE) == 0


async def test_a_message_whose_block_falls_looks_forged_and_pauses_nothing(
    devnet: Devnet, home: Path, chains: Mapping[int, EvmChain]
) -> None:
    alpha, beta = ends(devnet)
    client = Client(devnet.deployment, chains, account(DAPP_KEY))
    request = RouteRequest(
        destination=beta.chain_id, recipient=beta.examples["inbox"], payload=b"early", gmps=(Gmp.AXELAR,), quorum=1
    )
    async with watching(devnet, home) as tripwire:
        before = rpc(url_of(alpha), "evm_snapshot")
        sent = await client.route(alpha.chain_id, request)
        await eventually(lambda: tripwire.store.creations(alpha.chain_id, sent.message.id))
        await asyncio.to_thread(lie, sent.message, beta, AXELAR)
        assert rpc(url_of(alpha), "evm_revert", before)
        mine(alpha, 6)
        await eventually(lambda: records(tripwire), alpha)
        (found,) = tripwire.store.records()
    assert found.document["kind"] == "CREATION_ORPHANED"
    assert paused_until(beta, AXELAR) == 0


async def test_a_real_message_over_a_gmp_that_never_got_it_is_a_lie_too(
    devnet: Devnet, home: Path, chains: Mapping[int, EvmChain]
) -> None:
    alpha, beta = ends(devnet)
    client = Client(devnet.deployment, chains, account(DAPP_KEY))
    request = RouteRequest(
        destination=beta.chain_id, recipient=beta.examples["inbox"], payload=b"honest", gmps=(Gmp.AXELAR,), quorum=1
    )
    async with watching(devnet, home) as tripwire:
        sent = await client.route(alpha.chain_id, request)
        await asyncio.to_thread(lie, sent.message, beta, AXELAR)
        await asyncio.to_thread(lie, sent.message, beta, WORMHOLE)
        await eventually(lambda: paused_until(beta, WORMHOLE), alpha)
        await eventually(lambda: records(tripwire) == ["EVIDENCE", "PAUSED"])
        (evidence, _) = tripwire.store.records()
        assert evidence.document["kind"] == "RECEIPT_OVER_UNUSED_GMP"
    assert paused_until(beta, AXELAR) == 0, "it was handed the message"


async def test_what_only_resembles_a_real_message_is_a_lie(
    devnet: Devnet, home: Path, chains: Mapping[int, EvmChain]
) -> None:
    """The payload of a real one, with another sender, recipient, quorum or kind: each id is one that nobody created."""
    alpha, beta = ends(devnet)
    client = Client(devnet.deployment, chains, account(DAPP_KEY))
    request = RouteRequest(
        destination=beta.chain_id, recipient=beta.examples["inbox"], payload=b"real", gmps=(Gmp.AXELAR,), quorum=1
    )
    async with watching(devnet, home) as tripwire:
        real = (await client.route(alpha.chain_id, request)).message
        other = to_bytes32(account(TRIPWIRE_KEY).address)
        lies = {
            Gmp.HYPERLANE: replace(real, sender=other),
            Gmp.AXELAR: replace(real, recipient=other),
            Gmp.WORMHOLE: replace(real, quorum=2, ttl=60),
            Gmp.LAYERZERO: replace(real, kind=Kind.HEARTBEAT, nonce=real.nonce + 1),
            Gmp.CCIP: replace(real, replaces=real.id, nonce=real.nonce + 2),
        }
        for gmp, message in lies.items():
            assert message.id != real.id
            await asyncio.to_thread(lie, message, beta, int(gmp))
        await eventually(lambda: all(paused_until(beta, int(gmp)) for gmp in lies), alpha)
        await eventually(lambda: is_done(tripwire))
        evidence = [one.document for one in tripwire.store.records() if one.deed is Deed.EVIDENCE]
    assert sorted((one["gmp"], one["kind"]) for one in evidence) == sorted(
        (gmp.label, "RECEIPT_WITHOUT_CREATION") for gmp in lies
    )


async def test_a_message_of_another_lane_or_by_a_stranger_never_reaches_its_quorum(devnet: Devnet) -> None:
    alpha, beta = ends(devnet)
    forged = replace(message_from(alpha, beta), quorum=1)
    for message in (
        replace(forged, destination_chain=alpha.chain_id, quorum=2),
        replace(forged, source_chain=beta.chain_id),
        replace(forged, source_router=STRANGER),
        replace(forged, source_chain=999),
    ):
        await asyncio.to_thread(partial(lie, message, beta, AXELAR, succeeds=False))


async def test_a_receipt_for_a_strangers_message_is_a_lie_and_one_from_nowhere_is_told(
    devnet: Devnet, home: Path
) -> None:
    """Below its quorum a message is not asked whose it is (docs/decisions/0004)."""
    alpha, beta = ends(devnet)
    forged = message_from(alpha, beta)
    async with watching(devnet, home) as tripwire:
        await asyncio.to_thread(lie, replace(forged, source_chain=999), beta, WORMHOLE)
        await eventually(lambda: records(tripwire) == ["FINDING"])
        await asyncio.to_thread(lie, replace(forged, source_router=STRANGER), beta, AXELAR)
        await eventually(lambda: paused_until(beta, AXELAR), alpha)
        await eventually(lambda: records(tripwire) == ["FINDING", "EVIDENCE", "PAUSED"])
        finding, evidence, _ = (one.document for one in tripwire.store.records())
    assert (finding["kind"], evidence["kind"]) == ("UNKNOWN_SOURCE", "RECEIPT_WITHOUT_CREATION")
    assert paused_until(beta, WORMHOLE) == 0


async def test_endpoints_of_one_host_are_not_independent(devnet: Devnet, tmp_path: Path) -> None:
    settings = tripwire_settings(
        agreement=2,
        endpoints={name: ["https://a.example/1", "https://a.example/2"] for name in ("alpha", "beta")},
    )
    with pytest.raises(SettingsError, match="2 independent endpoints have to agree, and 1 are named"):
        async with open_tripwire(devnet.deployment, settings, tmp_path / "t.db", is_dry_run=True):
            pass


async def test_a_key_that_no_router_names_is_refused_at_the_start(devnet: Devnet, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"names .* as its tripwire, not"):
        async with open_tripwire(
            devnet.deployment, tripwire_settings(key=DAPP_KEY), tmp_path / "t.db", is_dry_run=False
        ):
            pass
