"""A seeded history; then calm, in which everything must come right.

In the storm there are messages of several kinds, requests for retries, bad nodes, reorgs on both sides, and relayers, sometimes two at
once, that crash and whose clocks are off. Messages of some kinds have few tries: their deliveries may die. In half of the worlds the
GMPs deliver some messages themselves, and a reorg drops such a delivery for good. In some worlds each chain has three endpoints, of
which one lies, in the calm, too. In some, state changes go to several chains at once, and are followed there.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from multiprocessing import get_context

import structlog

from bridge.protocol.message import Kind
from bridge.relayer.propagation import PropagationSettings
from bridge.relayer.retries import RecoverySettings
from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog
from tests.simulation.invariants import POLICIES, History, complaints, standing
from tests.support.settings import tuned
from tests.support.simulation import Faults, Power, SimulatedRelayer, World, run_in_virtual_time
from tests.support.simulation.chain import SimulatedChain
from tests.support.simulation.contracts import GMPS, deliver, refuse
from tests.support.stores import memory_dead_letters, memory_store

STORM_SECONDS = 40
SQUALL_SECONDS = 8
CALM_SECONDS = 900
CALM = Faults()
MOST_AHEAD = 30.0  # seconds that a machine's clock is ahead or behind

KINDS = (Kind.PLAIN, Kind.PLAIN, Kind.STATE_SYNC, Kind.GOVERNANCE_VOTE, Kind.QUERY)
CHANGES = (Kind.STATE_SYNC, Kind.LOCK_MANAGEMENT, Kind.GOVERNANCE_EXECUTE, Kind.REGULATORY_ACTION_CRITICAL)
FOLLOWING = tuned(
    PropagationSettings(threshold=10, pause=4, most=3), heartbeat=1, LOOK=1, LONGEST_LOOK=4, longest_pause=16
)
EVENTS = {"send": 12, "retry": 2, "reorg": 3, "rollback": 1, "evict": 1, "fees": 2}
"""What happens in a storm, and how often."""
TROUBLES = {"gmp": 2, "refuse": 2}
"""What happens besides where state changes are followed: somebody is there who gets over it."""


class WorldKind(StrEnum):
    """What is in a world besides bad weather."""

    PLAIN = "plain"
    LYING = "lying"  # endpoints that lie
    FOLLOWING = "following"  # state changes that are followed
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a world is like for all of its time."""

    max_calls_per_tx: int  # deliveries to a transaction at most
    lies: float | None  # how often one of three endpoints lies; None: chains are asked directly
    follows: bool  # whether state changes go to several chains, and are followed
    has_executors: bool = False  # whether the GMPs deliver too

    @classmethod
    def of(cls, seed: int, kind: WorldKind | None = None) -> Shape:
        """That of a seed; of a kind, if one is wanted: else one world in 32 has liars, one follows, and one has both."""
        drawn = {3: WorldKind.LYING, 5: WorldKind.FOLLOWING, 7: WorldKind.BOTH}
        kind = kind or drawn.get(seed % 32, WorldKind.PLAIN)
        dice = random.Random(f"shape {seed}")
        return cls(
            max_calls_per_tx=random.Random(f"share {seed}").choice([1, 2, 8]),
            lies=dice.choice([0.05, 0.3, 1.0]) if kind in (WorldKind.LYING, WorldKind.BOTH) else None,
            follows=kind in (WorldKind.FOLLOWING, WorldKind.BOTH),
            has_executors=random.Random(f"executors {seed}").random() < 0.5,
        )


async def play(
    seed: int,
    store: Store | None = None,
    dead_letters: DeadLetterLog | None = None,
    *,
    storm: float = STORM_SECONDS,
    kind: WorldKind | None = None,
) -> History:
    """Plays the history of a seed to its end; the storm lasts about `storm` simulated seconds."""
    dice, shape = random.Random(f"chaos {seed}"), Shape.of(seed, kind)
    world = World(seed, chains=3 if shape.follows else 2, lies=shape.lies)
    history = History(seed, world, store or memory_store(), dead_letters or memory_dead_letters(), shape.follows)
    history.note(f"{shape}")
    world.start()
    weather = [asyncio.create_task(_weather(history, dice, shape))]
    if shape.has_executors:
        weather.append(asyncio.create_task(_execute(history)))
    life = 0
    while asyncio.get_running_loop().time() < storm:
        life += 1
        length = dice.uniform(storm / 8, storm)
        await asyncio.gather(
            *(_live(history, dice, f"{life}.{one}", shape, length) for one in range(dice.choice([1, 1, 2])))
        )
        await asyncio.sleep(dice.choice([0, 1, 10]))
    for one in weather:
        one.cancel()
    _calm_down(history, shape)
    running = asyncio.create_task(_bridge(history, "last life", shape).run())
    await _until_settled(history)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await world.stop()
    return history


def _calm_down(history: History, shape: Shape) -> None:
    """No more faults; but a liar lies on."""
    for chain in history.world.chains.values():
        chain.faults = CALM
        chain.base_fee = 50  # more than most offered before: what is stuck has to be replaced
        if shape.follows:
            chain.submit(partial(refuse, refusing=False))
    history.world.down.clear()
    history.note("calm")


async def _live(history: History, dice: random.Random, name: str, shape: Shape, length: float) -> None:
    draws = int(dice.lognormvariate(6.5, 1.2))
    power = Power(draws if shape.lies is None else 3 * draws)  # each call is made of several requests
    ahead = dice.uniform(-MOST_AHEAD, MOST_AHEAD)
    history.note(f"life {name} begins, its clock {ahead:+.1f} s")
    bridge = _bridge(history, f"life {name}", shape, power, ahead)
    running = asyncio.create_task(bridge.run())
    await asyncio.wait([running], timeout=length)
    power.cut()
    await asyncio.wait_for(running, timeout=60)
    history.note(f"crash of life {name} after {power.used} calls")


def _bridge(
    history: History, name: str, shape: Shape, power: Power | None = None, ahead: float = 0
) -> SimulatedRelayer:
    return SimulatedRelayer(
        history.world,
        history.store,
        name=name,
        power=power,
        policies=POLICIES,
        dead_letters=history.dead_letters,
        recovering=RecoverySettings(max_message_retries=10**6),
        propagating=FOLLOWING if shape.follows else None,
        lock_ttl=12,
        max_calls_per_tx=shape.max_calls_per_tx,
        ahead=ahead,
    )


async def _weather(history: History, dice: random.Random, shape: Shape) -> None:
    world = history.world
    for chain in world.chains.values():
        chain.faults = Faults(
            unavailable=dice.choice([0, 0.02, 0.1]),
            answer_lost=dice.choice([0, 0.1, 0.3]),
            forgets=dice.choice([0, 0.1, 0.3]),
            hides=dice.choice([0, 0.2, 0.5]),
            stale=dice.choice([0, 0.1, 0.3]),
            slow=dice.choice([0, 0.01]),
            blank=random.Random(f"blank {history.seed} {chain.chain_id}").choice([0, 0.05, 0.2]),
        )
        history.note(f"chain {chain.chain_id}: {chain.faults}")
    shares = {**EVENTS, **(TROUBLES if shape.follows else {})}
    kinds, weights = list(shares), list(shares.values())
    while True:
        await asyncio.sleep(dice.expovariate(1.5))
        chain = dice.choice(list(world.chains.values()))
        match dice.choices(kinds, weights=weights)[0]:
            case "send":
                _send(world, dice, shape, chain.chain_id)
            case "retry":
                waiting = [sent.message for sent in standing(world) if not world.executions(sent.message)]
                if waiting:
                    world.request_retry(dice.choice(waiting))
            case "gmp":
                world.down.symmetric_difference_update({gmp := dice.choice(GMPS)})
                history.note(f"{gmp.label} gives {'no proofs' if gmp in world.down else 'proofs again'}")
            case event:
                history.note(f"chain {chain.chain_id}: {_befall(chain, dice, event)}")


async def _execute(history: History) -> None:
    """The GMPs' own executors deliver some messages. A reorg that drops such a delivery drops it for good."""
    world, dice = history.world, random.Random(f"executors of {history.seed}")
    while True:
        await asyncio.sleep(dice.expovariate(0.5))
        waiting = [sent.message for sent in standing(world) if not world.executions(sent.message)]
        if waiting:
            message = dice.choice(waiting)
            gmp = dice.choice(sorted(world.route_of(message)))
            world.chains[message.destination_chain].submit(partial(deliver, gmp=gmp, envelope=message.encode()))
            history.note(f"{gmp.label} delivers message {message.nonce} of {message.source_chain} by itself")


def _send(world: World, dice: random.Random, shape: Shape, source: int) -> None:
    others = [chain_id for chain_id in world.chains if chain_id != source]
    gmps = dice.sample(GMPS, dice.randint(1, 3))
    destinations = dice.sample(others, dice.choice([1, 2, 2])) if shape.follows else others
    quorum, kind = dice.randint(1, len(gmps)), dice.choice(CHANGES if shape.follows else KINDS)
    world.send_all(source, destinations, gmps=gmps, quorum=quorum, kind=kind)


def _befall(chain: SimulatedChain, dice: random.Random, event: str) -> str:
    """Does something to a chain, and says what."""
    match event:
        case "reorg":
            depth, keep = dice.randint(1, 8), dice.choice([1.0, 1.0, 0.5, 0.0])
            chain.reorganise(depth, keep=keep)
            return f"reorg of depth {depth}, {keep:.0%} of the transactions kept"
        case "rollback":
            depth = min(dice.randint(1, 4), chain.height)
            chain.rollback(depth)
            return f"rollback of {depth}"
        case "evict":
            chain.pool = {key: one for key, one in chain.pool.items() if one.action is not None}
            return "pool emptied"
        case "fees":
            chain.base_fee = dice.choice([5, 10, 50, 200])
            return f"base fee {chain.base_fee}"
        case "refuse":
            refusing = dice.choice([True, False])
            chain.submit(partial(refuse, refusing=refusing))
            return f"recipients {'refuse' if refusing else 'take'} messages"
    raise AssertionError(event)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a seed: nothing to complain about, or all that is wrong, and what happened."""

    seed: int
    complaints: tuple[str, ...]
    events: tuple[str, ...]


def judge(seed: int, storm: float, kind: WorldKind | None = None) -> Verdict:
    """Plays a seed in memory."""
    history = run_in_virtual_time(play(seed, storm=storm, kind=kind))
    found = complaints(history) if standing(history.world) else ["nothing was sent"]
    return Verdict(seed, tuple(found), tuple(history.events) if found else ())


def judge_all(seeds: Iterable[int], storm: float, kind: WorldKind | None = None) -> Iterator[Verdict]:
    """Plays seeds on all cores; the verdicts come in the order of the seeds."""
    with ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=_be_quiet) as pool:
        yield from pool.map(partial(judge, storm=storm, kind=kind), seeds, chunksize=10)


def _be_quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


async def _until_settled(history: History) -> None:
    for _ in range(CALM_SECONDS // 10):
        await asyncio.sleep(10)
        if not complaints(history):
            return
