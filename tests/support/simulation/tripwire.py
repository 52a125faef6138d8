"""A world for the tripwire: honest GMPs, some of which do not wait, reorgs, bad endpoints, and now and then a liar."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from eth_account import Account
from eth_utils import keccak

from bridge.domain.ports import Block, Call, Log, TransientError
from bridge.evm.chain import EvmChain
from bridge.evm.signing import LocalSigner
from bridge.evm.transport import Endpoints
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.events import MessageReceived
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message, decode_envelope
from bridge.rpc.policy import EndpointPolicy
from bridge.tripwire.journal import Deed
from bridge.tripwire.judgement import Judgement
from bridge.tripwire.pauser import Pauser
from bridge.tripwire.reader import ChainReader
from bridge.tripwire.settings import TripwireSettings
from bridge.tripwire.store import TripwireStore
from bridge.tripwire.tripwire import Tripwire
from tests.support.simulation.chain import SimulatedChain
from tests.support.simulation.contracts import (
    DISPATCHED,
    GMPS,
    ROUTER_ADDRESS,
    Emitted,
    State,
    create_message,
    deliver,
    event_log,
    gmp_address,
    retry,
    route,
)
from tests.support.simulation.node import LyingNode, SimulatedNode
from tests.support.simulation.time import VirtualClock

TRIPWIRE: Final = Account.from_key("0x" + "55" * 32)
DEEPEST: Final = 64
"""Blocks that a reorg takes at most."""

FINALITY: Final = DEEPEST + 1
EARLY: Final = Gmp.AXELAR
"""A GMP that delivers what is not final."""

FAULTS: Final = (
    *(f"{fault} on {name}" for fault in ("reorg", f"reorg of {DEEPEST} blocks") for name in ("alpha", "beta")),
    "creation fell",
    "answer of an endpoint that lags",
    "lie of an endpoint",
    "restart",
    "adapter replaced",
    "message lost in flight",
    "message retried",
)
"""What an honest history has to survive."""

_BLOCK_TIME: Final = 2.0  # seconds
_SENDER: Final = "0x" + "5e" * 20
_POLL: Final = 1.0
_POLICY: Final = EndpointPolicy(agreement=2, try_seconds=1e-6)


class LaggingChain:
    """A chain as a node has it that is some blocks behind."""

    def __init__(self, chain: SimulatedChain) -> None:
        self._chain = chain
        self.behind = 0
        self.late_answers = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chain, name)

    @property
    def _top(self) -> int:
        self.late_answers += self.behind > 0
        return max(0, self._chain.height - self.behind)

    async def head(self) -> Block:
        found = self._chain.header(self._top)
        assert found is not None
        return found

    async def block(self, number: int) -> Block | None:
        return None if number > self._top else await self._chain.block(number)

    def number_of(self, block_hash: bytes) -> int:
        number = self._chain.number_of(block_hash)
        if number > self._top:
            raise TransientError("unknown block")
        return number

    async def logs(self, first: int, last: int, addresses: Sequence[str], topics: Sequence[bytes]) -> list[Log]:
        """As real nodes do: of blocks that it does not have it gives no logs, and no error."""
        return await self._chain.logs(first, min(last, self._top), addresses, topics)

    async def call(self, call: Call, *, sender: str | None = None, block: int | None = None) -> bytes:
        if block is not None and block > self._top:
            raise TransientError("header not found")
        return await self._chain.call(call, sender=sender, block=self._top if block is None else block)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a history came to."""

    honest: int  # messages that were created, again after a reorg too
    receipts: int
    incidents: tuple[tuple[int, int], ...]  # chain and GMP of each
    pauses: int
    findings: tuple[str, ...]
    kinds: tuple[str, ...]  # of the evidence
    faults: Mapping[str, int]  # how often each happened

    def lacks(self) -> list[str]:
        """What should have happened and did not."""
        return [name for name in FAULTS if not self.faults.get(name)]


class TripwireWorld:
    """Two chains or more; the same seed gives the same history."""

    def __init__(
        self,
        seed: int,
        file: Path,
        *,
        names: Sequence[str] = ("alpha", "beta"),
        early_gmps: frozenset[Gmp] = frozenset(),
    ) -> None:
        """Nothing happens yet; `file` is the tripwire's store."""
        self._early_gmps = early_gmps
        self.dice = random.Random(seed)  # a seeded world
        self.clock = VirtualClock()
        self._file = file
        self.chains = {
            31_337 + number: SimulatedChain(31_337 + number, self.dice, now=self.clock.now, latency=0.001)
            for number in range(len(names))
        }
        self._lagging = {key: LaggingChain(chain) for key, chain in self.chains.items()}
        self.deployment = Deployment(
            version=1,
            network="simulation",
            chains=tuple(
                ChainDeployment(
                    chain_id=key,
                    name=name,
                    rpc_urls=("http://nowhere",),
                    start_block=0,
                    confirmations=FINALITY,
                    router=ROUTER_ADDRESS,
                    adapters={},
                    gmps={},
                )
                for key, name in zip(self.chains, names, strict=True)
            ),
        )
        for chain in self.chains.values():
            chain.fund(TRIPWIRE.address, 10**24)
        self.created: list[Message] = []
        self._carried: dict[int, set[bytes]] = {key: set() for key in self.chains}
        self._task: asyncio.Task[None] | None = None
        self._store: TripwireStore | None = None
        self._opened: list[EvmChain] = []
        self._liars: list[LyingNode] = []
        self._replaced: dict[tuple[int, Gmp], dict[int, int]] = {}  # by destination: the sources' heights then
        self.lost: list[Message] = []  # in flight, when an adapter was replaced
        self.faults: Counter[str] = Counter()

    # ---- the tripwire

    def start(self) -> None:
        """The process starts, with what it remembers."""
        self._store = TripwireStore(self._file, TRIPWIRE)
        chains = {key: self._connected(key) for key in self.chains}
        self._opened = list(chains.values())
        settings = TripwireSettings(poll_interval=_POLL, max_clock_skew=5, early_gmps=self._early_gmps)
        tripwire = Tripwire(
            self.deployment,
            readers={
                deployed.chain_id: ChainReader(chains[deployed.chain_id], deployed, self._store, block_range=500)
                for deployed in self.deployment.chains
            },
            pausers={
                deployed.chain_id: Pauser(chains[deployed.chain_id], deployed.router, LocalSigner(TRIPWIRE))
                for deployed in self.deployment.chains
            },
            store=self._store,
            channels=[],
            clock=self.clock,
            settings=settings,
        )
        self._task = asyncio.get_running_loop().create_task(tripwire.run())

    async def kill(self) -> None:
        """The process dies, wherever it is."""
        assert self._task is not None
        assert self._store is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._store.close()
        for chain in self._opened:
            await chain.close()

    def _connected(self, chain_id: int) -> EvmChain:
        """One honest endpoint, one that lags and one that lies; two of them have to agree."""
        chain = self.chains[chain_id]
        liar = LyingNode(chain, self.dice, 0.3)
        self._liars.append(liar)
        lagging = SimulatedNode(self._lagging[chain_id])  # type: ignore[arg-type]  # as far as a node asks it
        nodes: list[SimulatedNode] = [SimulatedNode(chain), lagging, liar]
        urls = [f"http://node-{number}" for number in range(len(nodes))]
        by_url = dict(zip(urls, nodes, strict=True))
        return EvmChain(chain_id, Endpoints(chain_id, urls, _POLICY, lambda url, _policy: by_url[url]))

    # ---- the world

    def send(self, source: int, destination: int, gmps: Sequence[Gmp]) -> None:
        """A dApp's transaction; a reorg may make another message of it."""
        payload = self.dice.randbytes(8)

        def action(state: State) -> list[Emitted]:
            message = create_message(state, _SENDER, destination, quorum=len(gmps), payload=payload, kind=Kind.PLAIN)
            self.created.append(message)
            return route(state, message, _SENDER, gmps, retriable=True)

        self.chains[source].submit(action)

    def retry(self, message: Message, gmps: Sequence[Gmp]) -> None:
        """What was on its way when an adapter was replaced is sent again."""
        self.faults["message retried"] += 1
        self.chains[message.source_chain].submit(lambda state: retry(state, message, gmps))

    def replace_adapter(self, destination: int, gmp: Gmp) -> None:
        """A destination believes another adapter of a GMP from now on: it refuses what is on its way to the old one."""
        self.faults["adapter replaced"] += 1
        self._replaced[destination, gmp] = {key: chain.height for key, chain in self.chains.items()}

    def forge(self, source: int, destination: int, gmp: Gmp, nonce: int = 10**9) -> Message:
        """A GMP delivers what nobody sent."""
        state = State(source, timestamp=int(self.clock.now()), lanes={destination: nonce})
        message = create_message(state, _SENDER, destination, quorum=2, payload=b"all your funds", kind=Kind.PLAIN)
        self.chains[destination].submit(lambda state: deliver(state, gmp, message.encode()))
        return message

    async def lie(self, kind: Judgement, source: int, destination: int, gmp: Gmp, nonce: int) -> None:
        """A GMP lies in one of the ways that name it."""
        if kind is Judgement.RECEIPT_WITHOUT_CREATION:
            self.forge(source, destination, gmp, nonce)
            return
        honest = next(one for one in GMPS if one is not gmp)
        self.send(source, destination, [honest if kind is Judgement.RECEIPT_OVER_UNUSED_GMP else gmp])
        await self.pass_blocks(1)
        message = self.created[-1]
        said = MessageReceived(
            message_id=message.id,
            source_chain=source,
            gmp=int(gmp),
            receipts=1,
            quorum=2,
            payload_hash=keccak(b"all your funds"),
        )
        if kind is Judgement.PAYLOAD_DIFFERS:
            self._carried[source].add(message.id + bytes([gmp]))
            self.chains[destination].submit(lambda _state: [event_log(said)])
        else:
            self.chains[destination].submit(partial(_bring, gmp, message.encode()))

    def _carry(self) -> None:
        """Each GMP delivers what it took: the early one at once, the others when it is final."""
        for chain in self.chains.values():
            for depth, early in ((0, True), (1, True), (2, True), (FINALITY, False)):
                for log in chain.logs_of(chain.height - depth):
                    if log.topics[0] != DISPATCHED or (log.address == gmp_address(EARLY)) is not early:
                        continue
                    gmp = next(one for one in GMPS if gmp_address(one) == log.address)
                    message = decode_envelope(log.data).message
                    key = message.id + bytes([gmp])
                    if key in self._carried[chain.chain_id] or self.dice.random() < 0.02:
                        continue
                    replaced = self._replaced.get((message.destination_chain, gmp), {})
                    if log.block_number <= replaced.get(chain.chain_id, -1):
                        self.faults["message lost in flight"] += 1
                        self.lost.append(message)
                        continue
                    self._carried[chain.chain_id].add(key)
                    self.chains[message.destination_chain].submit(partial(_bring, gmp, log.data))

    async def pass_blocks(self, count: int, *, deepest: int = 0) -> None:
        """Blocks come, and some fall; endpoints lag, and GMPs carry."""
        for _ in range(count):
            await asyncio.sleep(_BLOCK_TIME)
            for key, chain in self.chains.items():
                chain.mine()
                if self.dice.random() < 0.1:
                    self._lagging[key].behind = self.dice.choice([0, 0, 1, 3, 20])
                if deepest and self.dice.random() < 0.1:
                    depth = min(self.dice.choice([1, 1, 2, 3, 7, 20, deepest]), chain.height)
                    chain.reorganise(depth, keep=self.dice.choice([1.0, 0.9]))
                    name = self.deployment.chain(key).name
                    self.faults[f"reorg on {name}"] += 1
                    self.faults[f"reorg of {depth} blocks on {name}"] += 1
            self._carry()

    async def wait_for(self, gmp: Gmp, chain_id: int, blocks: int = 400) -> bool:
        """Whether the GMP is paused within so many blocks."""
        for _ in range(blocks):
            state = self.chains[chain_id].state
            if state.pauses.get(int(gmp), 0) > state.timestamp:
                return True
            await self.pass_blocks(1)
        return False

    def outcome(self) -> Outcome:
        """What the tripwire has found until now."""
        with closing(TripwireStore(self._file)) as store:
            records = store.records()
            return Outcome(
                honest=len(self.created),
                receipts=sum(len(one) for one in self._carried.values()),
                incidents=tuple((one.chain_id, one.gmp) for one in store.incidents()),
                pauses=sum(one.deed is Deed.PAUSED for one in records),
                findings=tuple(one.document["kind"] for one in records if one.deed is Deed.FINDING),
                kinds=tuple(one.document["kind"] for one in records if one.deed is Deed.EVIDENCE),
                faults=self.faults
                | Counter(
                    {
                        "creation fell": store.count_orphaned(),
                        "answer of an endpoint that lags": sum(one.late_answers for one in self._lagging.values()),
                        "lie of an endpoint": sum(one.told for one in self._liars),
                    }
                ),
            )


def _bring(gmp: Gmp, envelope: bytes, state: State) -> list[Emitted]:
    return deliver(state, gmp, envelope)


async def honest_history(seed: int, file: Path, *, messages: int) -> tuple[Outcome, Outcome]:
    """A history without a lie, and then one lie, which shows that the tripwire was awake.

    Returns:
        What was found before the lie, and after it.
    """
    world = TripwireWorld(seed, file, early_gmps=frozenset({EARLY}))
    dice, ids = world.dice, list(world.chains)
    world.start()
    try:
        await world.pass_blocks(5)
        while len(world.created) < messages:
            for _ in range(dice.choice([2, 10, 40])):
                source, destination = dice.sample(ids, 2)
                world.send(source, destination, dice.sample(GMPS, dice.choice([1, 2, 3])))
            if dice.random() < 0.2:
                world.replace_adapter(dice.choice(ids), dice.choice(GMPS))
            if world.created and dice.random() < 0.5:
                world.retry(dice.choice(world.created[-200:]), dice.sample(GMPS, 2))
            await world.pass_blocks(1, deepest=DEEPEST)
            for message in world.lost:
                world.retry(message, dice.sample(GMPS, 2))
            world.lost.clear()
            if dice.random() < 0.1:
                await world.kill()
                world.faults["restart"] += 1
                await world.pass_blocks(dice.choice([0, 1, 5, 30]), deepest=DEEPEST)
                world.start()
        await world.pass_blocks(2 * FINALITY, deepest=3)
        before = world.outcome()
        world.forge(ids[0], ids[1], Gmp.WORMHOLE)
        assert await world.wait_for(Gmp.WORMHOLE, ids[1]), f"seed {seed}: the lie was not found"
        return before, world.outcome()
    finally:
        await world.kill()


async def play_incident(seed: Mapping[str, Any], file: Path) -> Outcome:
    """Has GMPs lie as they did in an incident: see `waybill incident export`."""
    names = [chain["name"] for chain in seed["chains"]]
    world = TripwireWorld(seed["seed"], file, names=names)
    world.start()
    try:
        await world.pass_blocks(5)
        began = world.clock.now()
        for number, forgery in enumerate(sorted(seed["forgeries"], key=lambda one: one["after"])):
            await world.pass_blocks(max(0, round((began + forgery["after"] - world.clock.now()) / _BLOCK_TIME)))
            source, destination = (world.deployment.chain(forgery[end]).chain_id for end in ("source", "destination"))
            await world.lie(Judgement(forgery["kind"]), source, destination, Gmp.parse(forgery["gmp"]), 10**9 + number)
        await world.pass_blocks(2 * FINALITY + 20)
        return world.outcome()
    finally:
        await world.kill()
