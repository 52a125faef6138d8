"""What explorer and command advise is what the routers accept: each act is tried by `eth_call`, by everybody who might."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from eth_abi.abi import encode
from eth_utils import keccak

from bridge.cli.lookup import look_up
from bridge.cli.workspace import Workspace
from bridge.client import Client
from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS, DEPLOYER_KEY, account
from bridge.evm.chain import EvmChain, open_chains
from bridge.protocol.addresses import from_bytes32, to_bytes32
from bridge.protocol.contracts import ADAPTER, INBOX, ROUTER, explain_revert, message_tuple
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.events import MessageRouted, MessageUnfunded, decode_event
from bridge.protocol.gmps import Gmp, bits_from_gmps
from bridge.protocol.message import Kind, Message, decode_envelope
from bridge.protocol.ports import Call, CallRevertedError, Receipt
from bridge.protocol.status import Status
from bridge.queries.advice import Act, Role
from bridge.queries.explain import read_stored, stored_explanation
from indexer.model import schemas
from indexer.model.settings import SourceLimits, StallPolicy
from indexer.sources.chain import chain_config
from indexer.sources.position import ChainPosition
from indexer.sources.tail import ChainTail
from indexer.store.blocks import Batch
from indexer.store.browser import IndexBrowser
from indexer.store.store import Store
from tests.anvil.command import new_home
from tests.anvil.devnets import new_devnet
from tests.anvil.rpc import rpc
from tests.anvil.traffic import DAPP, transact
from tests.waiting import eventually

pytestmark = pytest.mark.long

OWNER, RETRIER, STRANGER = account(DEPLOYER_KEY), account(ANVIL_KEYS[6]), account(ANVIL_KEYS[7])
GMPS = (Gmp.HYPERLANE, Gmp.WORMHOLE)
SHORT, LONG = 300, 50_000  # seconds of TTL
STALL_AFTER = 60
LIMITS = SourceLimits(rollback_patience=0.05, poll_interval=0.02)
POLICY = StallPolicy(stall_after=STALL_AFTER, max_lag=10_000_000, silence_after=10_000_000)
MAY_LIVE_FOR_EVER = (Kind.PLAIN, Kind.REGULATORY_ACTION_CRITICAL)
KINDS = (Kind.PLAIN, Kind.REGULATORY_ACTION_CRITICAL, Kind.QUERY)
"""The routers tell no other kinds apart: with any TTL, with none, and with one that must not be 0."""
FATES = (
    "routed",
    "received",
    "executed",
    "refused",
    "deferred",
    "unfunded",
    "cancelling",
    "cancelled",
    "expires",
    "expires when received",
)


@dataclass
class Ground:
    """Two chains with real routers, an index of them, and messages of every fate."""

    devnet: Devnet
    chains: dict[int, EvmChain]
    home: Path
    messages: list[tuple[str, Message]] = field(default_factory=list)

    def __post_init__(self) -> None:
        deployment = self.devnet.deployment
        self.alpha, self.beta = deployment.chains
        self.dapp = Client(deployment, self.chains, DAPP)
        self.workspace = Workspace("devnet", new_home(self.devnet, self.home))
        self.url = self.workspace.index_url
        Path(self.url.removeprefix("sqlite:///")).parent.mkdir(parents=True)
        self.store = Store(self.url)
        self.store.save_policy(POLICY)
        self.tail = ChainTail([chain_config(chain) for chain in deployment.chains], LIMITS)
        for chain in deployment.chains:
            for adapter in chain.adapters.values():
                rpc(chain.rpc_urls[0], "anvil_impersonateAccount", adapter)
                rpc(chain.rpc_urls[0], "anvil_setBalance", adapter, hex(10**20))
            rpc(chain.rpc_urls[0], "anvil_setBalance", chain.router, hex(10**20))  # the sender of reports

    def close(self) -> None:
        self.tail.close()
        self.store.close()

    # What the chains do

    async def call(
        self, chain: ChainDeployment, data: bytes, *, to: str = "", value: int = 0, by: Any = DAPP
    ) -> Receipt:
        receipt = await transact(self.chains[chain.chain_id], by, Call(to=to or chain.router, data=data, value=value))
        assert receipt.succeeded
        return receipt

    def deliver(self, message: Message, gmp: Gmp, *, gas: int = 3_000_000) -> None:
        """As the GMP's adapter does once the GMP has proved the delivery."""
        chain = next(one for one in (self.alpha, self.beta) if one.chain_id == message.destination_chain)
        data = keccak(text="receiveMessage(uint64,bytes)")[:4] + encode(
            ["uint64", "bytes"], [message.source_chain, message.encode()]
        )
        fields = {"from": chain.adapter(gmp), "to": chain.router, "data": f"0x{data.hex()}", "gas": hex(gas)}
        digest = rpc(chain.rpc_urls[0], "eth_sendTransaction", fields)
        receipt = eventually(lambda: rpc(chain.rpc_urls[0], "eth_getTransactionReceipt", digest), "it is included")
        assert receipt["status"] == "0x1"

    async def route(self, kind: Kind, *, retriable: bool, ttl: int, gas_limit: int = 200_000) -> Message:
        recipient = to_bytes32(self.beta.examples["inbox"])
        fees = await self.fees(self.alpha, self.beta)
        request = (
            self.beta.chain_id, recipient, b"hello", gas_limit, ttl, int(kind), 2, bytes(32), retriable, 0, fees,
            DAPP.address,
        )  # fmt: skip
        receipt = await self.call(self.alpha, ROUTER.encode("route", request), value=sum(fee for _, fee in fees))
        return _created(receipt)

    async def unfunded(self, kind: Kind, *, retriable: bool, ttl: int) -> Message:
        """As an ERC-7786 sender creates it."""
        router = self.alpha.router
        profiles = await self.chains[self.alpha.chain_id].call(Call(to=router, data=keccak(text="profiles()")[:4]))
        types = ["uint64", "(uint16,uint8,uint64,uint32,uint8,bool,uint40)"]
        profile = (bits_from_gmps(GMPS), 2, 200_000, ttl, int(kind), retriable, 0)
        set_profile = keccak(text=f"setProfile({','.join(types)})")[:4] + encode(types, [self.beta.chain_id, profile])
        await self.call(self.alpha, set_profile, to=f"0x{profiles[-20:].hex()}")
        number = self.beta.chain_id
        reference = number.to_bytes((number.bit_length() + 7) // 8, "big")
        inbox = bytes.fromhex(self.beta.examples["inbox"][2:])
        recipient = bytes.fromhex("00010000") + bytes([len(reference)]) + reference + bytes([20]) + inbox
        send = keccak(text="sendMessage(bytes,bytes,bytes[])")[:4]
        return _created(
            await self.call(self.alpha, send + encode(["bytes", "bytes", "bytes[]"], [recipient, b"hello", []]))
        )

    async def fees(self, source: ChainDeployment, destination: ChainDeployment) -> list[tuple[int, int]]:
        """What both GMPs ask for a small message."""
        chain, found = self.chains[source.chain_id], []
        for gmp in GMPS:
            arguments = (destination.chain_id, to_bytes32(destination.router), bytes(400), 2_000_000)
            answer = await chain.call(Call(to=source.adapter(gmp), data=ADAPTER.encode("quote", *arguments)))
            found.append((int(gmp), int(ADAPTER.decode("quote", answer))))
        return found

    async def closed(self, closed: bool) -> None:
        await self.call(self.beta, INBOX.encode("setClosed", closed), to=self.beta.examples["inbox"], by=OWNER)

    def wait(self, seconds: int) -> None:
        for chain in (self.alpha, self.beta):
            rpc(chain.rpc_urls[0], "evm_increaseTime", seconds)
            rpc(chain.rpc_urls[0], "evm_mine")

    async def meet(self, fate: str, kind: Kind, *, retriable: bool) -> None:
        """Makes a message and lets it come as far as its fate says."""
        lives = 0 if kind in MAY_LIVE_FOR_EVER else LONG
        if fate == "unfunded":
            self.messages.append((fate, await self.unfunded(kind, retriable=retriable, ttl=lives)))
            return
        ttl = SHORT if fate.startswith("expires") else lives
        sent = await self.route(
            kind, retriable=retriable, ttl=ttl, gas_limit=1_000_000 if fate == "deferred" else 200_000
        )
        self.messages.append((fate, sent))
        if fate in ("received", "executed", "refused", "deferred", "expires when received"):
            self.deliver(sent, Gmp.HYPERLANE)
        if fate == "deferred":
            self.deliver(sent, Gmp.WORMHOLE, gas=700_000)
        if fate in ("executed", "refused"):
            await self.closed(fate == "refused")
            self.deliver(sent, Gmp.WORMHOLE)
            await self.closed(False)
        if fate in ("cancelling", "cancelled"):
            cancellation = (await self.dapp.cancel(sent, GMPS)).message
            self.messages.append(("cancellation", cancellation))
            for gmp in GMPS if fate == "cancelled" else ():
                self.deliver(cancellation, gmp)

    async def report(self, message: Message) -> None:
        fees = await self.fees(self.beta, self.alpha)
        data = ROUTER.encode("report", message_tuple(message), 1, fees, DAPP.address)
        self.messages.append(("report", _created(await self.call(self.beta, data, value=sum(fee for _, fee in fees)))))

    # What is said, and whether it holds

    def index(self) -> IndexBrowser:
        """Reads the chains to their heads."""
        heads = {
            chain.chain_id: int(rpc(chain.rpc_urls[0], "eth_blockNumber"), 16) for chain in (self.alpha, self.beta)
        }
        start = {chain.chain_id: ChainPosition.before(chain.start_block) for chain in (self.alpha, self.beta)}
        while any(found.block < heads[one] for one, found in (start | self.store.positions()).items()):
            _, batches = self.tail.read(start | self.store.positions())
            if batches:
                batch = Batch.from_source(pa.Table.from_batches(batches, schemas.SOURCE))
                self.store.apply(batch.events, batch.ranges)
        return IndexBrowser(self.url)

    async def check(self) -> set[tuple[Status, bool, str]]:
        """Compares what explorer and command say with what the routers do; which acts were offered, by state."""
        seen = set()
        times = [(await chain.head()).timestamp for chain in self.chains.values()]
        with self.index() as index:
            for fate, message in self.messages:
                found = (await look_up(self.workspace, message.id)).explanation
                stored = read_stored(message.id, index, None, None)
                shown = stored_explanation(self.devnet.deployment, message.id, stored, max(times))
                about = f"{fate} {message.kind.name}: {found.status}"
                assert shown.status is found.status, about
                assert shown.next_action == found.next_action, about
                assert shown.offers == found.offers, about
                verbs = set(re.findall(r"`waybill message (\w+)", found.next_action)) - {"show"}
                assert verbs <= {offer.act.value for offer in found.offers}, f"{about}: {found.next_action}"
                for offer in found.offers:
                    await self._try(message, offer.act, offer.by, found.status, about)
                record = index.message(message.id)
                assert record is not None
                seen.add((found.status, record.retriable, " ".join(offer.act.value for offer in found.offers)))
        return seen

    async def _try(self, message: Message, act: Act, by: Role, status: Status, about: str) -> None:
        sender = from_bytes32(message.sender)
        allowed = {Role.SENDER: {sender}, Role.SENDER_OR_RETRIER: {sender, RETRIER.address}}
        if status is Status.EXECUTION_FAILED:
            assert not await self._accepts(message, act, sender), "its recipient is closed again for the moment"
        for caller in (sender, RETRIER.address, STRANGER.address):
            refusal = await self._refusal(message, act, caller)
            expected = by is Role.ANYONE or caller in allowed[by]
            assert (refusal is None) == expected, f"{about}: {act} by {caller}, who should be {by}: {refusal}"

    async def _accepts(self, message: Message, act: Act, caller: str) -> bool:
        if act is not Act.EXECUTE:
            return False
        await self.closed(True)
        try:
            return await self._refusal(message, act, caller) is None
        finally:
            await self.closed(False)

    async def _refusal(self, message: Message, act: Act, caller: str) -> str | None:
        names = {chain.chain_id: chain for chain in (self.alpha, self.beta)}
        source, destination = names[message.source_chain], names[message.destination_chain]
        at = destination if act in (Act.EXECUTE, Act.EXPIRE) else source
        fees = [] if at is destination else await self.fees(source, destination)
        header = message_tuple(message)
        data = {
            Act.EXECUTE: lambda: ROUTER.encode("execute", header),
            Act.EXPIRE: lambda: ROUTER.encode("expire", header),
            Act.CANCEL: lambda: ROUTER.encode("cancel", header, 1, fees, STRANGER.address),
            Act.RETRY: lambda: ROUTER.encode("retryRoute", (message.id, header, 1, fees, STRANGER.address)),
            Act.FUND: lambda: ROUTER.encode("fund", header, STRANGER.address),
        }[act]()
        call = Call(to=at.router, data=data, value=sum(fee for _, fee in fees), gas=10_000_000)
        try:
            await self.chains[at.chain_id].call(call, sender=caller)
        except CallRevertedError as error:
            return explain_revert(error.data)
        return None


def _created(receipt: Receipt) -> Message:
    events = (decode_event(log.topics, log.data) for log in receipt.logs)
    (created,) = (event for event in events if isinstance(event, MessageRouted | MessageUnfunded))
    return decode_envelope(created.envelope).message


EXPECTED = {
    (Status.ROUTED, True, "retry cancel"),
    (Status.ROUTED, False, "cancel"),
    (Status.RECEIVED, True, "retry cancel"),
    (Status.RECEIVED, False, "cancel"),
    (Status.STALLED, True, "retry cancel"),
    (Status.STALLED, True, "retry"),  # a cancellation, a report
    (Status.STALLED, False, "cancel"),
    (Status.ROUTED, True, ""),  # its cancellation is on its way
    (Status.ROUTED, False, ""),
    (Status.EXECUTED, True, ""),
    (Status.EXECUTED, False, ""),
    (Status.EXECUTION_FAILED, True, "execute cancel"),
    (Status.EXECUTION_FAILED, False, "execute cancel"),
    (Status.EXECUTION_DEFERRED, True, "execute cancel"),
    (Status.EXECUTION_DEFERRED, False, "execute cancel"),
    (Status.UNFUNDED, True, "fund cancel"),
    (Status.UNFUNDED, False, "fund cancel"),
    (Status.CANCELLED, True, ""),
    (Status.CANCELLED, False, ""),
    (Status.EXPIRED, True, "expire"),
    (Status.EXPIRED, False, "expire"),
    (Status.EXPIRED, True, ""),
    (Status.EXPIRED, False, ""),
}


@pytest.fixture
def own_devnet(tmp_path: Path) -> Iterator[Devnet]:
    """Chains whose clocks this test may turn, and whose lanes it leaves paused."""
    with new_devnet(tmp_path / "chains") as devnet:
        yield devnet


async def test_routers_accept_what_is_advised(own_devnet: Devnet, tmp_path: Path) -> None:
    async with open_chains(own_devnet.deployment) as chains:
        ground = Ground(own_devnet, chains, tmp_path)
        try:
            await _every_state_is_advised_on(ground)
        finally:
            await asyncio.to_thread(ground.close)


async def _every_state_is_advised_on(ground: Ground) -> None:
    await ground.dapp.appoint_retrier(ground.alpha.chain_id, RETRIER.address)
    for kind, retriable, fate in product(KINDS, (True, False), FATES):
        if kind is Kind.REGULATORY_ACTION_CRITICAL and fate.startswith("expires"):
            continue  # routers take none that would
        await ground.meet(fate, kind, retriable=retriable)
    await ground.report(next(sent for fate, sent in ground.messages if fate == "executed"))
    seen = await ground.check()
    ground.wait(STALL_AFTER + 1)
    seen |= await ground.check()
    ground.wait(SHORT)
    seen |= await ground.check()
    for fate, sent in ground.messages:
        if fate == "expires":
            await ground.dapp.expire(sent)
    seen |= await ground.check()
    assert seen >= EXPECTED, EXPECTED - seen
    for chain, other in ((ground.alpha, ground.beta), (ground.beta, ground.alpha)):
        until = (await ground.chains[chain.chain_id].head()).timestamp + 3_600
        await ground.call(chain, ROUTER.encode("pauseLane", other.chain_id, until), by=OWNER)
        paused = await ground.check()
        sends = {act for _, _, acts in paused for act in acts.split()} & {"retry", "cancel", "fund"}
        assert sends <= {"retry"}, "the report's source is the other chain"
    assert {acts for _, _, acts in paused} == {""}, "no router takes anything now"
