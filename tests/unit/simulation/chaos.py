"""A seeded history; then calm, in which everything must come right.

In the storm there are messages of several kinds, requests for retries, bad nodes, reorgs on both sides, and relayers, sometimes two at
once, that crash and whose clocks are off. Messages of two kinds have few tries: their deliveries may die.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context

import structlog

from bridge.policies import DEFAULT_POLICIES, RetryPolicy
from bridge.protocol.message import Kind, Message
from bridge.records import Store
from bridge.records.dead_letters import DeadLetterLog, LetterStatus, RecordKind
from bridge.records.outbox import OutboxState, event_id_of
from bridge.records.transactions import SlotState
from bridge.simulation import DAPP, RELAYER, Faults, Power, SimulatedBridge, World, run_in_virtual_time
from bridge.simulation.contracts import GMPS
from bridge.simulation.world import Sent
from bridge.store import MemoryStore
from bridge.store.memory.dead_letters import MemoryDeadLetterLog

STORM_SECONDS = 40
SQUALL_SECONDS = 8
CALM_SECONDS = 900
CALM = Faults()
MOST_AHEAD = 30.0  # seconds that a machine's clock is ahead or behind

KINDS = (Kind.PLAIN, Kind.PLAIN, Kind.STATE_SYNC, Kind.GOVERNANCE_VOTE, Kind.QUERY)
POLICIES: Mapping[Kind, RetryPolicy] = {
    **DEFAULT_POLICIES,
    Kind.PLAIN: replace(DEFAULT_POLICIES[Kind.PLAIN], max_retries=200),  # each crash is a try, too
    Kind.STATE_SYNC: replace(DEFAULT_POLICIES[Kind.STATE_SYNC], max_retries=200),
    Kind.GOVERNANCE_VOTE: RetryPolicy(max_retries=1, base=0.5, cap=2, dead_letter=True),
    Kind.QUERY: RetryPolicy(max_retries=1, base=0.5, cap=2, dead_letter=False),
}
MORTAL = (Kind.GOVERNANCE_VOTE, Kind.QUERY)


@dataclass(slots=True)
class History:
    """What happened, for whoever has to understand a failure."""

    seed: int
    world: World
    store: Store
    letters: DeadLetterLog = field(default_factory=MemoryDeadLetterLog)
    events: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.events.append(f"{asyncio.get_running_loop().time():8.2f} {text}")


async def play(
    seed: int, store: Store | None = None, letters: DeadLetterLog | None = None, *, storm: float = STORM_SECONDS
) -> History:
    """Plays the history of a seed to its end; the storm lasts for so many simulated seconds, more or less."""
    dice = random.Random(f"chaos {seed}")
    share = random.Random(f"share {seed}").choice([1, 2, 8])  # deliveries to a transaction, the same in every life
    world = World(seed)
    history = History(seed, world, store or MemoryStore(), letters or MemoryDeadLetterLog())
    world.start()
    weather = asyncio.create_task(_weather(history, dice))
    life = 0
    while asyncio.get_running_loop().time() < storm:
        life += 1
        length = dice.uniform(storm / 8, storm)
        await asyncio.gather(
            *(_live(history, dice, f"{life}.{one}", share, length) for one in range(dice.choice([1, 1, 2])))
        )
        await asyncio.sleep(dice.choice([0, 1, 10]))
    weather.cancel()
    for chain in world.chains.values():
        chain.faults = CALM
        chain.base_fee = 50  # more than most offered before: what is stuck has to be replaced
    history.note("calm")
    running = asyncio.create_task(_bridge(history, "last life", share).run())
    await _until_settled(history)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await world.stop()
    return history


async def _live(history: History, dice: random.Random, name: str, share: int, length: float) -> None:
    power = Power(draws=int(dice.lognormvariate(6.5, 1.2)))
    ahead = dice.uniform(-MOST_AHEAD, MOST_AHEAD)
    history.note(f"life {name} begins, its clock {ahead:+.1f} s")
    running = asyncio.create_task(_bridge(history, f"life {name}", share, power, ahead).run())
    await asyncio.wait([running], timeout=length)
    power.cut()
    await asyncio.wait_for(running, timeout=60)
    history.note(f"crash of life {name} after {power.used} calls")


def _bridge(history: History, name: str, share: int, power: Power | None = None, ahead: float = 0) -> SimulatedBridge:
    return SimulatedBridge(
        history.world,
        history.store,
        name=name,
        power=power,
        policies=POLICIES,
        letters=history.letters,
        share=share,
        ahead=ahead,
    )


async def _weather(history: History, dice: random.Random) -> None:
    world = history.world
    chains = list(world.chains.values())
    for chain in chains:
        chain.faults = Faults(
            unavailable=dice.choice([0, 0.02, 0.1]),
            answer_lost=dice.choice([0, 0.1, 0.3]),
            forgets=dice.choice([0, 0.1, 0.3]),
            hides=dice.choice([0, 0.2, 0.5]),
            stale=dice.choice([0, 0.1, 0.3]),
            slow=dice.choice([0, 0.01]),
        )
        history.note(f"chain {chain.chain_id}: {chain.faults}")
    while True:
        await asyncio.sleep(dice.expovariate(1.5))
        chain = dice.choice(chains)
        match dice.choices(["send", "retry", "reorg", "rollback", "evict", "fees"], weights=[12, 2, 3, 1, 1, 2])[0]:
            case "send":
                gmps = dice.sample(GMPS, dice.randint(1, 3))
                other = next(one for one in chains if one is not chain)
                quorum, kind = dice.randint(1, len(gmps)), dice.choice(KINDS)
                world.send(chain.chain_id, other.chain_id, gmps=gmps, quorum=quorum, kind=kind)
            case "retry":
                waiting = [sent.message for sent in standing(world) if not world.executions(sent.message)]
                if waiting:
                    world.request_retry(dice.choice(waiting))
            case "reorg":
                depth, keep = dice.randint(1, 8), dice.choice([1.0, 1.0, 0.5, 0.0])
                chain.reorganise(depth, keep=keep)
                history.note(f"chain {chain.chain_id}: reorg of depth {depth}, {keep:.0%} of the transactions kept")
            case "rollback":
                depth = min(dice.randint(1, 4), chain.height)
                chain.rollback(depth)
                history.note(f"chain {chain.chain_id}: rollback of {depth}")
            case "evict":
                chain.pool = {key: one for key, one in chain.pool.items() if one.action is not None}
                history.note(f"chain {chain.chain_id}: pool emptied")
            case "fees":
                chain.base_fee = dice.choice([5, 10, 50, 200])
                history.note(f"chain {chain.chain_id}: base fee {chain.base_fee}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a seed: nothing to complain about, or all that is wrong, and what happened."""

    seed: int
    complaints: tuple[str, ...]
    events: tuple[str, ...]


def judge(seed: int, storm: float) -> Verdict:
    """Plays a seed in memory."""
    history = run_in_virtual_time(play(seed, storm=storm))
    found = complaints(history) if standing(history.world) else ["nothing was sent"]
    return Verdict(seed, tuple(found), tuple(history.events) if found else ())


def judge_all(seeds: Iterable[int], storm: float) -> Iterator[Verdict]:
    """Plays seeds on all cores; the verdicts come in the order of the seeds."""
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=_be_quiet) as pool:
        yield from pool.map(partial(judge, storm=storm), seeds, chunksize=10)


def _be_quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def standing(world: World) -> list[Sent]:
    """What dApps sent, and what the source chain as it is now includes."""
    return [sent for sent in world.sent if _is_included(world, sent)]


def _is_included(world: World, sent: Sent) -> bool:
    chain = world.chains[sent.source]
    return sent.created != [] and chain.includes(sent.transaction_hash)


async def _until_settled(history: History) -> None:
    for _ in range(CALM_SECONDS // 10):
        await asyncio.sleep(10)
        if not complaints(history):
            return


def complaints(history: History) -> list[str]:
    """Everything that is not as it must be in the end."""
    found = []
    for sent in standing(history.world):
        found += _message_complaints(history, sent.message)
    for chain in history.world.chains.values():
        found += (c for one in (RELAYER, DAPP) for c in _nonce_complaints(history, chain.chain_id, one.address))
    return found + _letter_complaints(history)


def _message_complaints(history: History, message: Message) -> list[str]:
    world, store = history.world, history.store
    name = f"message {message.nonce} of {message.source_chain}"
    found = []
    entries = [entry for entry in store.outbox.entries(message.id) if entry.orphaned_at is None]
    observed = store.observations.attempts(message.id)
    dispatched = {gmp for attempt in observed for gmp in attempt.gmps}
    expected = {event_id_of(message.id, gmp, attempt.attempt) for attempt in observed for gmp in attempt.gmps}
    if {entry.event_id for entry in entries} != expected or not dispatched:
        found.append(f"{name} is in the outbox for {[entry.event_id for entry in entries]}, not for {expected}")
    dead = [one for one in entries if one.state is OutboxState.DEAD and message.kind in MORTAL]
    found += (
        f"{entry.event_id} is {entry.state}, confirmed at {entry.confirmed_at}: {entry.last_error}"
        for entry in entries
        if entry not in dead and (entry.state is not OutboxState.DELIVERED or entry.confirmed_at is None)
    )
    found += (f"{one.event_id} died after {one.attempts} tries: {one.last_error}" for one in dead if one.attempts < 2)
    alive = {one.dispatch.gmp for one in entries if one not in dead}
    ever = {one.dispatch.gmp for one in store.outbox.entries(message.id)}  # a retry may fall after its delivery
    receipts = world.receipts(message)
    if not alive <= receipts <= ever:
        found.append(f"{name} was delivered by {receipts}: less than {alive} or more than {ever}")
    due = len(receipts) >= message.quorum
    if world.executions(message) != due:
        found.append(
            f"{name} with {len(receipts)} receipts of {message.quorum} was executed {world.executions(message)} times"
        )
    return found


def _letter_complaints(history: History) -> list[str]:
    """A delivery that is dead has one letter, if its kind has letters; a letter is about a delivery that is, or was, dead."""
    store = history.store
    dead = {
        entry.event_id
        for entry in store.outbox.listed(state=OutboxState.DEAD, limit=10_000)
        if POLICIES[entry.kind].dead_letter
    }
    letters = history.letters.letters(limit=None)
    records = [record.event_id for record in history.letters.records() if record.kind is RecordKind.ENTERED]
    found = [f"{event_id} is dead without a letter" for event_id in dead - {letter.event_id for letter in letters}]
    found += (f"{event_id} has {times} letters" for event_id, times in Counter(records).items() if times > 1)
    pending = {one.event_id for one in letters if one.status is LetterStatus.PENDING_REVIEW}
    standing_ids = {sent.message.id for sent in standing(history.world)}
    found += (
        f"{one.event_id} has a letter to decide about, and is not dead"
        for one in letters
        if one.event_id in pending - dead and one.message_id in standing_ids
    )
    return found


def _nonce_complaints(history: History, chain_id: int, account: str) -> list[str]:
    ledger = history.store.transactions
    open_slots = ledger.open_slots(chain_id, account)
    found = [f"nonce {slot.nonce} of {account} on {chain_id} is {slot.state} for {slot.purpose}" for slot in open_slots]
    included = [ledger.slot(slot_id) for ids in ledger.included_slots(chain_id, account).values() for slot_id in ids]
    found += (f"nonce {slot.nonce} of {account} on {chain_id} is not final" for slot in included)
    used = history.world.chains[chain_id].state.nonces.get(account, 0)
    final = [slot.nonce for slot in ledger.slots(chain_id, account) if slot.state is SlotState.FINAL]
    if final != list(range(used)):
        found.append(f"{account} has used nonces up to {used} on {chain_id}, the ledger ends with {final}")
    return found


def wasted_transactions(history: History) -> int:
    """Transactions of the relayer that did nothing: reverted, or no-ops."""
    return sum(
        slot.ended_as_noop or (slot.included is not None and not slot.included.succeeded)
        for chain_id in history.world.chains
        for slot in history.store.transactions.slots(chain_id, RELAYER.address)
    )


def deliveries(history: History) -> int:
    """How many (message, GMP) pairs have a receipt."""
    return sum(len(history.world.receipts(sent.message)) for sent in standing(history.world))
