"""State changes that act under a lock of their asset, and such as fail again and again: what `waybill relayer run` does about them."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from eth_utils import keccak

from bridge import devnet as devnets
from bridge.devnet import Devnet
from bridge.devnet.accounts import DEPLOYER_KEY, RELAYER_KEY, account
from bridge.devnet.artifacts import Artifact
from bridge.devnet.deployer import Deployer
from bridge.devnet.gmps import devnet_attesters
from bridge.evm.chain import EvmChain, open_chains
from bridge.protocol.contracts import Contract
from bridge.protocol.events import MessageRouted, decode_event
from bridge.protocol.gmps import Gmp, bits_from_gmps
from bridge.protocol.message import Message, decode_envelope
from bridge.protocol.ports import Call
from bridge.records.jobs import SyncJob, SyncState
from bridge.service.relayer_service import RelayerService, open_relayer
from scripts.setup_proofs import ROOT
from tests.anvil.command import Waybill, new_home
from tests.anvil.rpc import free_ports, mine, rpc
from tests.anvil.test_dead_letters import broken_axelar
from tests.anvil.test_relayer import blocks, settings
from tests.anvil.traffic import transact
from tests.waiting import eventually_answered, eventually_true

pytestmark = pytest.mark.long

SOURCE = "contracts/examples/AssetRegistry.sol"
HOUSE = keccak(text="house")
SYNC, LOCK = 0, 4
OWNER, BUYER = account(DEPLOYER_KEY), "0x" + "b0" * 20
WINDOW = (60, 1, 1)  # messageTtl, maxRetries, maxBackoff
LOCK_TTL = 61
DAY = 86_400
FOLLOWING = {"heartbeat": 0.3, "threshold": 3, "pause": 2, "most": 2, "longest_pause": 4}


@dataclass(frozen=True)
class Registries:
    """A registry on alpha, which instructs the one on beta."""

    devnet: Devnet
    chains: dict[int, EvmChain]
    artifact: Artifact
    alpha: str
    beta: str

    @classmethod
    async def deploy(cls, devnet: Devnet, chains: dict[int, EvmChain], *, retaker: str) -> Registries:
        artifact = compiled()
        alpha, beta = devnet.deployment.chains
        here, there = [await Deployer.on(chains[one.chain_id], OWNER) for one in (alpha, beta)]
        source = here.create(artifact, alpha.router, OWNER.address, WINDOW)
        target = there.create(artifact, beta.router, OWNER.address, WINDOW)
        made = cls(devnet, chains, artifact, source, target)
        here.call(artifact, source, "setOperator", OWNER.address, True)
        here.call(artifact, source, "setRetrier", account(RELAYER_KEY).address, True)
        believed = bits_from_gmps(beta.gmp_numbers)
        there.call(artifact, target, "allowRoute", alpha.chain_id, source, 1, believed)
        there.call(artifact, target, "setRetrier", retaker, True)
        there.call(artifact, target, "create", HOUSE, OWNER.address, 100)
        for action in (SYNC, LOCK):
            there.call(artifact, target, "setPermission", alpha.chain_id, source, action, True)
        await asyncio.gather(here.send(), there.send())
        return made

    async def instruct(self, gmp: Gmp, **given: Any) -> Message:
        """One instruction of alpha's registry over a GMP."""
        alpha, beta = self.devnet.deployment.chains
        lane = (beta.chain_id, self.beta, 400_000, DAY, 1, bits_from_gmps([gmp]), 0)
        chain, encode = self.chains[alpha.chain_id], self.artifact.contract.encode
        assert (await transact(chain, OWNER, Call(to=self.alpha, data=encode("setLane", lane)))).succeeded
        empty = {"action": SYNC, "asset": HOUSE, "state": bytes(32), "sequence": 0, "ledger": bytes(32)}
        rest = {"transaction": bytes(32), "account": BUYER, "units": 1, "lockTtl": 0, "fence": 0}
        data = encode("instruct", beta.chain_id, tuple({**empty, **rest, **given}.values()))
        receipt = await transact(chain, OWNER, Call(to=self.alpha, data=data, value=10**18))
        assert receipt.succeeded
        events = [decode_event(log.topics, log.data) for log in receipt.logs if log.address == alpha.router]
        (routed,) = [one for one in events if isinstance(one, MessageRouted)]
        return decode_envelope(routed.envelope).message

    async def allow_retaking(self) -> None:
        """Lets the relayer take beta's locks again."""
        beta = self.devnet.deployment.chains[1]
        allow = self.artifact.contract.encode("setRetrier", account(RELAYER_KEY).address, True)
        assert (await transact(self.chains[beta.chain_id], OWNER, Call(to=self.beta, data=allow))).succeeded

    async def ask(self, function: str, *arguments: Any) -> Any:
        """A view of beta's registry."""
        beta = self.devnet.deployment.chains[1]
        call = Call(to=self.beta, data=self.artifact.contract.encode(function, *arguments))
        return self.artifact.contract.decode(function, await self.chains[beta.chain_id].call(call))

    async def sync_under_lock(self, bridge: RelayerService) -> Message:
        """A lock that arrives, and a change under it over a GMP that delivers nothing."""
        await self.instruct(Gmp.HYPERLANE, action=LOCK, account=OWNER.address, sequence=1, lockTtl=LOCK_TTL)
        await eventually_answered(self.holds_lock)
        state = await self.ask("currentStateHash", HOUSE)
        sent = await self.instruct(Gmp.AXELAR, state=state, fence=1)
        await eventually_true(lambda: bridge.store.jobs.newest(SyncJob, sent.id) is not None)
        return sent

    async def holds_lock(self) -> bool:
        return bool((await self.ask("lockOf", HOUSE))[1])

    async def is_applied(self) -> bool:
        return bool((await self.ask("assetOf", HOUSE))[0].lower() == BUYER)

    def let_pass(self, seconds: int) -> None:
        """On beta alone."""
        url = self.devnet.deployment.chains[1].rpc_urls[0]
        rpc(url, "evm_increaseTime", seconds)
        mine(url)


def compiled() -> Artifact:
    forge = str(ROOT / "build" / "tools" / "bin" / "forge")
    subprocess.run([forge, "build", SOURCE], cwd=ROOT, check=True, capture_output=True)
    found = json.loads((ROOT / "build/forge/out/AssetRegistry.sol/AssetRegistry.json").read_text())
    return Artifact(
        "AssetRegistry", found["abi"], bytes.fromhex(found["bytecode"]["object"][2:]), Contract(found["abi"])
    )


@pytest.fixture(scope="module")
def two_chains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    home = tmp_path_factory.mktemp("devnet")
    try:
        yield asyncio.run(devnets.up(home=home, chains=2, block_time=0, first_port=free_ports(2)[0]))
    finally:
        devnets.down(home=home)


@pytest.fixture
async def chains(two_chains: Devnet) -> AsyncIterator[dict[int, EvmChain]]:
    snapshots = {chain.url: rpc(chain.url, "evm_snapshot") for chain in two_chains.chains}
    async with open_chains(two_chains.deployment) as opened:
        yield opened
    for url, snapshot in snapshots.items():
        assert rpc(url, "evm_revert", snapshot)


@asynccontextmanager
async def relaying(devnet: Devnet, folder: Path) -> AsyncIterator[RelayerService]:
    made = settings(folder, sync=FOLLOWING, policies={"state_sync": {"max_retries": 200, "base": 0.3, "cap": 1}})
    async with open_relayer(devnet.deployment, made, devnet_attesters) as bridge, blocks(devnet):
        task = asyncio.create_task(bridge.run())
        try:
            yield bridge
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_change_goes_forward_once_its_lock_is_retaken(
    two_chains: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    registries = await Registries.deploy(two_chains, chains, retaker=account(RELAYER_KEY).address)
    with broken_axelar(two_chains):
        async with relaying(two_chains, tmp_path) as bridge:
            sent = await registries.sync_under_lock(bridge)
            registries.let_pass(LOCK_TTL + 1)
            assert not await registries.is_applied()
            await eventually_answered(registries.is_applied)
            job = bridge.store.jobs.newest(SyncJob, sent.id)
            assert job is not None
            attempts = bridge.store.observations.attempts(sent.id)
    assert {gmp for attempt in attempts[1:] for gmp in attempt.gmps}.isdisjoint({Gmp.AXELAR})
    holder, ends, fence = await registries.ask("lockOf", HOUSE)
    assert (holder, fence) == (OWNER.address.lower(), 1), "the same lock, for the same holder"
    assert ends != 0


@pytest.mark.parametrize("by", ["the relayer", "the command"])
async def test_repeated_failure_is_diverged_and_reconciled(
    two_chains: Devnet, chains: dict[int, EvmChain], tmp_path: Path, by: str
) -> None:
    """The recipient's owner lets the relayer take no lock: nothing is sent in vain, and the operator is told what to do."""
    registries = await Registries.deploy(two_chains, chains, retaker=OWNER.address)
    with broken_axelar(two_chains):
        async with relaying(two_chains, tmp_path) as bridge:
            sent = await registries.sync_under_lock(bridge)
            registries.let_pass(LOCK_TTL + 1)
            jobs = bridge.store.jobs
            await eventually_true(lambda: getattr(jobs.newest(SyncJob, sent.id), "state", None) is SyncState.DIVERGED)
            stuck = jobs.newest(SyncJob, sent.id)
            assert stuck is not None
            forced = f"forced reconciliation with the record of block {stuck.record.block.number}; "
            assert stuck.outcome.startswith(forced)
            assert "NotLockRetaker" in stuck.outcome
            assert "waybill message retry" in stuck.outcome
            assert len(bridge.store.observations.attempts(sent.id)) == 1, "nothing was paid for in vain"
            if by == "the relayer":
                await registries.allow_retaking()
                await eventually_answered(registries.is_applied)
        if by == "the command":
            async with blocks(two_chains):
                await registries.allow_retaking()
                said, told = await asyncio.to_thread(reconcile, two_chains, tmp_path, sent)
            assert said.startswith(f"0x{sent.id.hex()} is DIVERGED: {forced}")
            assert (told["state"], told["blockHash"]) == ("DIVERGED", f"0x{stuck.record.block.hash.hex()}")
            assert told["problem"].startswith(f"{forced}re-propagated")
        async with relaying(two_chains, tmp_path) as bridge:
            jobs = bridge.store.jobs
            await eventually_true(lambda: getattr(jobs.newest(SyncJob, sent.id), "state", None) is SyncState.APPLIED)
            attempts = bridge.store.observations.attempts(sent.id)
    assert await registries.is_applied()
    more = {gmp for attempt in attempts[1:] for gmp in attempt.gmps}
    assert len(more) > 1, "over every GMP that can carry it"


def reconcile(devnet: Devnet, folder: Path, message: Message) -> tuple[str, Any]:
    """What the operator's command says, which works on the store that the relayer has left, and what the store has then."""
    home = new_home(devnet, folder)
    following = "".join(f"{name} = {seconds}\n" for name, seconds in FOLLOWING.items())
    store = f'store = "sqlite:///{folder}/bridge.db"\nretry_for = ["any"]\n'
    (home / "waybill.toml").write_text(f"{store}[sync]\n{following}")
    waybill = Waybill(home)
    name = f"0x{message.id.hex()}"
    said = waybill("message", "retry", name)
    assert said.code == 4, "it is not applied yet"
    return said.out, next(one for one in waybill.json("status")["sync"]["pending"] if one["messageId"] == name)
