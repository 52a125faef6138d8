"""Recipients that make the relayer pay for nothing, on real chains: its loss stays within the bounds, and others are served."""

from __future__ import annotations

import asyncio
import json
import subprocess
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from eth_utils.crypto import keccak

from bridge.client import Client, RouteRequest, Sent
from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS, account
from bridge.devnet.artifacts import Artifact
from bridge.devnet.deployer import Deployer
from bridge.evm.chain import EvmChain
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import Contract
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call
from bridge.relayer.retries import RetryFailedError
from bridge.service.relayer_service import RelayerService
from tests import seeds
from tests.anvil.relayers import until
from tests.anvil.test_relayer import blocks, relaying
from tests.anvil.traffic import RELAYER, World, transact
from tests.builders import ALPHA, BETA
from tests.waiting import PATIENCE

DEPLOYER, STRANGER = account(ANVIL_KEYS[0]), account(ANVIL_KEYS[5])
ROOT = Path(__file__).resolve().parents[2]
SOURCE = "contracts/testing/Hostile.sol"
WAYS = 4
GAS = 3_000_000  # that hostile messages ask for
ETHER = 10**18
SENDER_PER_DAY = ETHER // 40
MESSAGE = ETHER // 60
HONEST = ETHER // 100  # more than an honest message costs here

pytestmark = [pytest.mark.long, pytest.mark.timeout(4 * PATIENCE)]


def compiled() -> Artifact:
    """The hostile recipient."""
    request = {
        "language": "Solidity",
        "sources": {SOURCE: {"content": (ROOT / SOURCE).read_text()}},
        "settings": {
            "evmVersion": "cancun",
            "outputSelection": {"*": {"*": ["abi", "evm.bytecode.object"]}},
        },
    }
    done = subprocess.run(
        [ROOT / "build/tools/bin/solc", "--standard-json"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout[done.stdout.index("{") :])["contracts"][SOURCE]["Hostile"]
    bytecode = bytes.fromhex(found["evm"]["bytecode"]["object"])
    return Artifact("Hostile", found["abi"], bytecode, Contract(found["abi"]))


class Storm:
    """A stranger's messages to a hostile recipient, and honest ones beside them."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = Random(seed)  # a seeded storm
        self.hostile: list[Sent] = []
        self.honest: list[Sent] = []
        self._recipient = ""

    async def deploy(self) -> None:
        deployer = await Deployer.on(self.world.chains[BETA], DEPLOYER)
        self._recipient = deployer.create(await asyncio.to_thread(compiled))
        await deployer.send()

    async def send(self, messages: int) -> None:
        client = Client(self.world.deployment, self.world.chains, STRANGER)
        await client.appoint_retrier("alpha", RELAYER.address)
        for number in range(messages):
            way = self.random.randrange(WAYS)
            gmps = tuple(self.random.sample([Gmp.WORMHOLE, Gmp.HYPERLANE], self.random.randint(1, 2)))
            request = RouteRequest(
                destination="beta",
                recipient=self._recipient,
                payload=bytes([way, number]) + self.random.randbytes(self.random.randint(0, 400)),
                gmps=gmps,
                quorum=1,
                gas_limit=GAS,
            )
            self.hostile.append(await client.route("alpha", request))
        self.honest += [await self.world.send(Gmp.HYPERLANE, payload=bytes([number])) for number in range(2)]

    async def toggle(self) -> None:
        call = Call(to=self._recipient, data=keccak(text="toggle()")[:4])
        assert (await transact(self.world.chains[BETA], STRANGER, call)).succeeded

    async def executed(self, sent: Sent) -> bool:
        return (await Client(self.world.deployment, self.world.chains).progress(sent.message)).executed

    def failures(self, bridge: RelayerService, sent: Sent) -> int:
        """Executions of a message that failed in a block."""
        prefix = f"execute/0x{sent.message.id.hex()}/"
        slots = [
            one
            for one in bridge.store.transactions.slots(BETA, RELAYER.address)
            if one.transaction_key.startswith(prefix)
        ]
        return sum(slot.included is not None and not slot.included.succeeded for slot in slots)


async def storm(
    devnet: Devnet, chains: dict[int, EvmChain], folder: Path, seed: int, *, messages: int, seconds: float
) -> None:
    """Messages of a stranger for some seconds; honest ones arrive, and the loss is what the bounds allow."""
    case = Storm(World(devnet.deployment, chains), seed)
    await case.deploy()
    await case.send(messages)
    before = {chain_id: await chains[chain_id].balance(RELAYER.address) for chain_id in (ALPHA, BETA)}
    bounds = {"message": MESSAGE, "sender_per_day": SENDER_PER_DAY, "message_failures": 2, "sender_failures_per_day": 4}
    async with blocks(devnet), relaying(devnet, folder, spending=bounds, max_gas=6_000_000) as bridge:
        for _ in range(round(seconds)):
            await asyncio.sleep(1)
            if case.random.random() < 0.3:
                await case.toggle()
            if case.random.random() < 0.5:  # an index, or a queue of state changes, asks for a retry
                with suppress(RetryFailedError):
                    await bridge.recovery.retry(case.random.choice(case.hostile).message.id)
        async with asyncio.timeout(PATIENCE):
            while not all([await case.executed(one) for one in case.honest]):
                await asyncio.sleep(0.2)
        spent = {chain_id: wei - await chains[chain_id].balance(RELAYER.address) for chain_id, wei in before.items()}
        assert spent[ALPHA] <= SENDER_PER_DAY, (seed, spent)
        assert spent[BETA] <= SENDER_PER_DAY + len(case.honest) * HONEST, (seed, spent)
        failed = [case.failures(bridge, one) for one in case.hostile]
        assert max(failed) <= 2, (seed, failed)
        assert sum(failed) <= 4, (seed, failed)
        held = bridge.store.spending.blocked()
        assert held, "a storm that no bound ends shows nothing"
        assert {one.message_id for one in held} <= {one.message.id for one in case.hostile}


async def test_over_a_storm_of_hostile_recipients_the_loss_is_within_the_bounds(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    seed = seeds.dice("hostile").randrange(1_000_000)
    await storm(devnet, chains, tmp_path, seed, messages=12, seconds=10)


async def test_a_stranger_that_appoints_the_relayer_gets_no_retry_without_consent_or_when_it_is_denied(
    devnet: Devnet, chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    case = Storm(World(devnet.deployment, chains), 0)
    await case.deploy()
    await case.send(1)
    (sent,) = case.hostile
    refused = {"paused_gmps": "wormhole,hyperlane"}  # so that nothing is delivered
    before = await chains[ALPHA].balance(RELAYER.address)
    for changes, why in (
        ({"retry_for": []}, "add it to retry_for"),
        ({"retry_for": ["any"], "deny_senders": [STRANGER.address]}, "deny_senders"),
        ({"retry_for": ["any"], "spending": {"message": 10**9}}, r"spending\.message"),
    ):
        async with blocks(devnet), relaying(devnet, tmp_path, **refused, **changes) as bridge:
            await until(lambda: bool(bridge.store.outbox.entries(sent.message.id)), "it is observed")
            with pytest.raises(RetryFailedError, match=why):
                await bridge.recovery.retry(sent.message.id, (Gmp.AXELAR,))
    assert await chains[ALPHA].balance(RELAYER.address) == before
    async with blocks(devnet), relaying(devnet, tmp_path, **refused, retry_for=[STRANGER.address]) as bridge:
        done = await bridge.recovery.retry(sent.message.id, (Gmp.AXELAR,))
        assert done.attempt == 1
    assert to_bytes32(STRANGER.address) == sent.message.sender
