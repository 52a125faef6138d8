"""The tripwire on simulated chains: a proven lie pauses its GMP, and a log that the index missed pauses nobody."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

from eth_account import Account
from eth_utils import keccak

from bridge.evm.sender import Sender
from bridge.evm.settings import SendingSettings
from bridge.evm.signing import LocalSigner
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.events import MessageReceived, MessageRouted, decode_event
from bridge.protocol.gmps import Gmp, gmps_from_bits
from bridge.protocol.indexed import ChainRecord, DivergenceRecord, EventRecord, MessageRecord, ReceiptRecord
from bridge.protocol.message import Kind, Message, decode_envelope
from bridge.protocol.ports import Log
from bridge.store.accusations import AccusationState
from bridge.store.observations import Finality
from bridge.tripwire.evidence import OVER_UNUSED_GMP, PAYLOAD_DIFFERS, WITHOUT_CREATION, Evidence
from bridge.tripwire.settings import TripwireSettings
from bridge.tripwire.tripwire import Tripwire
from tests.support.simulation.chain import SimulatedChain
from tests.support.simulation.contracts import ROUTER_ADDRESS, State, create_message, deliver, event_log, route
from tests.support.stores import memory_store

ALPHA, BETA = 1, 2
CONFIRMATIONS = 3
PAUSER = Account.from_key("0x" + "55" * 32)
SENDER = "0x" + "5e" * 20


def empty(record: type, /, **known: Any) -> Any:
    """A record of which nothing but some fields is known."""
    return record(**{one.name: known.get(one.name) for one in fields(record)})


class Ticks:
    """A clock that stands still until somebody sleeps."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


@dataclass
class FoundIndex:
    """An index that has read both chains, except for some messages' logs on their source."""

    chains_of_world: dict[int, SimulatedChain]
    missed: set[bytes] = field(default_factory=set)
    imagined: list[tuple[bytes, Gmp]] = field(default_factory=list)  # receipts in block 1 that no chain shows

    def _events(self, chain_id: int) -> Iterator[tuple[Log, Any]]:
        chain = self.chains_of_world[chain_id]
        for number in range(chain.height + 1):
            for log in chain.logs_of(number):
                if log.address == ROUTER_ADDRESS and (event := decode_event(log.topics, log.data)) is not None:
                    yield log, event

    def _routed(self) -> dict[bytes, tuple[Log, MessageRouted]]:
        found = ((log, event) for chain in self.chains_of_world for log, event in self._events(chain))
        return {
            event.message_id: (log, event)
            for log, event in found
            if isinstance(event, MessageRouted) and event.message_id not in self.missed
        }

    def divergences(self) -> list[DivergenceRecord]:
        found = []
        for _, event in self._events(BETA):
            if isinstance(event, MessageReceived):
                kind = self._kind(event)
                known: dict[str, Any] = {"kind": kind, "message_id": event.message_id, "source_chain": ALPHA}
                found += [empty(DivergenceRecord, **known)] if kind else []
        for message_id, _ in self.imagined:
            found.append(empty(DivergenceRecord, kind=WITHOUT_CREATION, message_id=message_id, source_chain=ALPHA))
        return found

    def _kind(self, event: MessageReceived) -> str | None:
        routed = self._routed().get(event.message_id)
        if routed is None:
            return WITHOUT_CREATION
        if decode_envelope(routed[1].envelope).message.payload_hash != event.payload_hash:
            return PAYLOAD_DIFFERS
        return None if Gmp(event.gmp) in gmps_from_bits(routed[1].gmps) else OVER_UNUSED_GMP

    def message(self, message_id: bytes) -> MessageRecord:
        routed = self._routed().get(message_id)
        block = None if routed is None else routed[0].block_number
        found: MessageRecord = empty(MessageRecord, message_id=message_id, source_block=block)
        return found

    def receipts(self, message_id: bytes) -> list[ReceiptRecord]:
        read = [
            (event.gmp, log.block_number, log.transaction_hash)
            for log, event in self._events(BETA)
            if isinstance(event, MessageReceived) and event.message_id == message_id
        ]
        read += [(int(gmp), 1, b"") for imagined, gmp in self.imagined if imagined == message_id]
        return [
            empty(
                ReceiptRecord,
                message_id=message_id,
                gmp=gmp,
                received_chain=BETA,
                received_block=block,
                received_transaction=transaction,
            )
            for gmp, block, transaction in read
        ]

    def events(self, message_id: bytes) -> list[EventRecord]:
        routed = self._routed().get(message_id)
        return [empty(EventRecord, chain_id=ALPHA, block_number=routed[0].block_number)] if routed else []

    def chains(self) -> list[ChainRecord]:
        return [
            empty(ChainRecord, chain_id=chain_id, block=chain.height)
            for chain_id, chain in self.chains_of_world.items()
        ]

    def created_up_to(self, source_chain: int, source_router: bytes, destination_chain: int, block: int) -> int:
        assert source_router[-20:].hex() == ROUTER_ADDRESS[2:].lower()
        created = (log for log, event in self._routed().values() if event.destination_chain == destination_chain)
        return sum(log.block_number <= block for log in created)


class World:
    """Two chains, an index of them, and a tripwire."""

    def __init__(self, *, early_gmps: frozenset[Gmp] = frozenset()) -> None:
        dice = random.Random(1)
        self.clock = Ticks()
        self.chains = {one: SimulatedChain(one, dice, now=self.clock.now) for one in (ALPHA, BETA)}
        self.index = FoundIndex(self.chains)
        self.store = memory_store()
        for chain in self.chains.values():
            chain.fund(PAUSER.address, 10**24)
            chain.mine()
        deployed = {
            chain_id: ChainDeployment(
                chain_id=chain_id,
                name=name,
                rpc_urls=("http://nowhere",),
                start_block=0,
                confirmations=CONFIRMATIONS,
                router=ROUTER_ADDRESS,
                adapters={},
                gmps={},
            )
            for chain_id, name in ((ALPHA, "alpha"), (BETA, "beta"))
        }
        deployment = Deployment(version=1, network="simulation", chains=tuple(deployed.values()))
        self.senders = {
            chain_id: Sender(
                chain,
                LocalSigner(PAUSER),
                self.store.transactions,
                self.clock,
                finality=Finality(self.store.observations, chain_id),
                settings=SendingSettings(),
            )
            for chain_id, chain in self.chains.items()
        }

        @contextmanager
        def opened() -> Iterator[Any]:
            yield self.index

        self.tripwire = Tripwire(
            deployment,
            chains=self.chains,
            senders=self.senders,
            evidence=Evidence(deployment, self.chains, opened, max_clock_skew=1),
            accusations=self.store.accusations,
            channels=[],
            clock=self.clock,
            settings=TripwireSettings(early_gmps=early_gmps),
        )

    def sent(self, *, gmps: tuple[Gmp, ...] = (Gmp.AXELAR,), retriable: bool = True) -> Message:
        """A message of a dApp, in a block of its own."""
        created: list[Message] = []

        def action(state: State) -> list[Any]:
            message = create_message(state, SENDER, BETA, quorum=2, payload=b"honest", kind=Kind.PLAIN)
            created.append(message)
            return route(state, message, SENDER, gmps, retriable=retriable)

        self.chains[ALPHA].submit(action)
        self.chains[ALPHA].mine()
        return created[-1]

    def forged(self) -> Message:
        """A message that nobody sent."""
        state = State(ALPHA, timestamp=int(self.clock.now()), lanes={BETA: 10**9})
        return create_message(state, SENDER, BETA, quorum=2, payload=b"all your funds", kind=Kind.PLAIN)

    def bring(self, gmp: Gmp, message: Message) -> None:
        """A GMP delivers a message."""
        self.chains[BETA].submit(lambda state: deliver(state, gmp, message.encode()))
        self.chains[BETA].mine()

    async def pass_blocks(self, count: int = 2 * CONFIRMATIONS) -> None:
        """Blocks come on both chains, and the tripwire looks after each."""
        for _ in range(count):
            await self.clock.sleep(2)
            for chain in self.chains.values():
                chain.mine()
            step = asyncio.ensure_future(self.tripwire.step())
            while not step.done():  # a pause waits for its block
                await self.clock.sleep(0.5)
                await asyncio.sleep(0.002)
                self.chains[BETA].mine()
                await self.senders[BETA].tick()
            await step

    @property
    def paused(self) -> set[Gmp]:
        """The GMPs that the destination has paused."""
        state = self.chains[BETA].state
        return {Gmp(gmp) for gmp, until in state.pauses.items() if until > state.timestamp}

    @property
    def kinds(self) -> list[tuple[str, AccusationState]]:
        return [(one.kind, one.state) for one in self.store.accusations.all()]


def play(history: Callable[[World], Awaitable[None]], **options: Any) -> World:
    """A history on a new world."""

    async def playing() -> World:
        world = World(**options)
        await history(world)
        return world

    return asyncio.run(playing())


def test_a_message_that_nobody_sent_pauses_its_gmp() -> None:
    async def history(world: World) -> None:
        world.sent()
        world.bring(Gmp.WORMHOLE, world.forged())
        await world.pass_blocks()

    world = play(history)
    assert world.paused == {Gmp.WORMHOLE}
    assert world.kinds == [(WITHOUT_CREATION, AccusationState.PAUSED)]


def test_nobody_is_accused_before_the_source_is_final() -> None:
    async def history(world: World) -> None:
        world.bring(Gmp.WORMHOLE, world.forged())
        await world.pass_blocks(CONFIRMATIONS - 1)

    assert play(history).kinds == []


def test_a_creation_that_the_index_missed_pauses_nobody() -> None:
    async def history(world: World) -> None:
        for retriable in (True, False):
            message = world.sent(retriable=retriable)
            world.index.missed.add(message.id)
            world.bring(Gmp.AXELAR, message)
        await world.pass_blocks()

    world = play(history)
    assert (world.paused, world.kinds) == (set(), [])


def test_receipt_that_the_endpoints_do_not_show_accuses_nobody() -> None:
    async def history(world: World) -> None:
        world.index.imagined.append((world.forged().id, Gmp.WORMHOLE))
        await world.pass_blocks()

    world = play(history)
    assert (world.paused, world.kinds) == (set(), [])


def test_a_delivery_over_a_gmp_that_was_not_used_is_a_lie() -> None:
    async def history(world: World) -> None:
        message = world.sent(gmps=(Gmp.AXELAR,))
        world.bring(Gmp.AXELAR, message)
        world.bring(Gmp.HYPERLANE, message)
        await world.pass_blocks()

    world = play(history)
    assert world.paused == {Gmp.HYPERLANE}
    assert world.kinds == [(OVER_UNUSED_GMP, AccusationState.PAUSED)]


def test_a_retry_that_the_index_missed_pauses_nobody() -> None:
    async def history(world: World) -> None:
        message = world.sent(gmps=(Gmp.AXELAR,))

        def retry(state: State) -> list[Any]:
            owner, attempts = state.sent[message.id]
            state.sent[message.id] = (owner, attempts + 1)
            return []  # its log is lost

        world.chains[ALPHA].submit(retry)
        world.bring(Gmp.HYPERLANE, message)
        await world.pass_blocks()

    assert play(history).kinds == []


def test_another_payload_than_the_source_sent_is_a_lie() -> None:
    async def history(world: World) -> None:
        message = world.sent(gmps=(Gmp.AXELAR,))
        said = MessageReceived(
            message_id=message.id,
            source_chain=ALPHA,
            gmp=int(Gmp.AXELAR),
            receipts=1,
            quorum=2,
            payload_hash=keccak(b"all your funds"),
        )
        world.chains[BETA].submit(lambda _state: [event_log(said)])
        world.chains[BETA].mine()
        await world.pass_blocks()

    assert play(history).kinds == [(PAYLOAD_DIFFERS, AccusationState.PAUSED)]


def test_a_gmp_that_delivers_early_is_reported_and_not_paused() -> None:
    async def history(world: World) -> None:
        world.bring(Gmp.AXELAR, world.forged())
        await world.pass_blocks()

    world = play(history, early_gmps=frozenset({Gmp.AXELAR}))
    assert world.paused == set()
    assert world.kinds == [(WITHOUT_CREATION, AccusationState.NOT_PAUSED)]


def test_a_second_lie_of_a_paused_gmp_spends_no_more_allowance() -> None:
    async def history(world: World) -> None:
        world.bring(Gmp.WORMHOLE, world.forged())
        world.chains[BETA].submit(lambda state: deliver(state, Gmp.WORMHOLE, world.sent().encode()))
        await world.pass_blocks()
        assert await world.chains[BETA].transaction_count(PAUSER.address) == 1

    assert play(history).paused == {Gmp.WORMHOLE}
