"""A seeded history: traffic, bad nodes, reorgs on both sides, crashes; then calm, in which everything must come right."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

import structlog

from bridge.records import Store
from bridge.records.outbox import OutboxState
from bridge.records.transactions import SlotState
from bridge.simulation import RELAYER, Faults, Power, SimulatedBridge, World, run_in_virtual_time
from bridge.simulation.contracts import GMPS
from bridge.simulation.world import Sent
from bridge.store import MemoryStore

STORM_SECONDS = 40
SQUALL_SECONDS = 8
CALM_SECONDS = 900
CALM = Faults()


@dataclass(slots=True)
class History:
    """What happened, for whoever has to understand a failure."""

    seed: int
    world: World
    store: Store
    events: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.events.append(f"{asyncio.get_running_loop().time():8.2f} {text}")


async def play(seed: int, store: Store | None = None, *, storm: float = STORM_SECONDS) -> History:
    """Plays the history of a seed to its end; the storm lasts for so many simulated seconds, more or less."""
    dice = random.Random(f"chaos {seed}")
    share = random.Random(f"share {seed}").choice([1, 2, 8])  # deliveries to a transaction, the same in every life
    world = World(seed)
    history = History(seed, world, store or MemoryStore())
    world.start()
    weather = asyncio.create_task(_weather(history, dice))
    life = 0
    while asyncio.get_running_loop().time() < storm:
        life += 1
        power = Power(draws=int(dice.lognormvariate(6.5, 1.2)))
        bridge = SimulatedBridge(world, history.store, name=f"life {life}", power=power, share=share)
        running = asyncio.create_task(bridge.run())
        await asyncio.wait([running], timeout=dice.uniform(storm / 8, storm))
        power.cut()
        await asyncio.wait_for(running, timeout=60)
        history.note(f"crash of life {life} after {power.used} calls")
        await asyncio.sleep(dice.choice([0, 1, 10]))
    weather.cancel()
    for chain in world.chains.values():
        chain.faults = CALM
        chain.base_fee = 50  # more than most offered before: what is stuck has to be replaced
    history.note("calm")
    running = asyncio.create_task(SimulatedBridge(world, history.store, name="last life", share=share).run())
    await _until_settled(history)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await world.stop()
    return history


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
        match dice.choices(["send", "reorg", "rollback", "evict", "fees"], weights=[12, 3, 1, 1, 2])[0]:
            case "send":
                gmps = dice.sample(GMPS, dice.randint(1, 3))
                other = next(one for one in chains if one is not chain)
                world.send(chain.chain_id, other.chain_id, gmps=gmps, quorum=dice.randint(1, len(gmps)))
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
    world, store = history.world, history.store
    found = []
    for sent in standing(world):
        message = sent.message
        name = f"message {message.nonce} of {message.source_chain}"
        if world.executions(message) != 1:
            found.append(f"{name} was executed {world.executions(message)} times")
        entries = store.outbox.entries(message.id)
        dispatched = {gmp for attempt in store.observations.attempts(message.id) for gmp in attempt.gmps}
        if {entry.dispatch.gmp for entry in entries} != dispatched or not dispatched:
            found.append(f"{name} is in the outbox for {[entry.event_id for entry in entries]}, not for {dispatched}")
        found += (
            f"{entry.event_id} is {entry.state}, confirmed at {entry.confirmed_at}: {entry.last_error}"
            for entry in entries
            if entry.state is not OutboxState.DELIVERED or entry.confirmed_at is None or entry.orphaned_at is not None
        )
        if world.receipts(message) != dispatched:
            found.append(f"{name} was delivered by {world.receipts(message)}, not by {dispatched}")
    for chain in world.chains.values():
        found += _nonce_complaints(history, chain.chain_id)
    return found


def _nonce_complaints(history: History, chain_id: int) -> list[str]:
    ledger, account = history.store.transactions, RELAYER.address
    open_slots = ledger.open_slots(chain_id, account)
    found = [f"nonce {slot.nonce} on {chain_id} is {slot.state} for {slot.purpose}" for slot in open_slots]
    included = [ledger.slot(slot_id) for ids in ledger.included_slots(chain_id, account).values() for slot_id in ids]
    found += (f"nonce {slot.nonce} on {chain_id} is not final" for slot in included)
    used = history.world.chains[chain_id].state.nonces.get(account, 0)
    final = [slot.nonce for slot in ledger.slots(chain_id, account) if slot.state is SlotState.FINAL]
    if final != list(range(used)):
        found.append(f"chain {chain_id} has used nonces up to {used}, the ledger ends with {final}")
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
