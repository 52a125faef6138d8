"""Seeded histories of two chains with everything that can happen to a message, reorgs included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from bridge.protocol.message import Message
from indexer.decode.events import events_table
from indexer.decode.logs import raw_logs
from indexer.jobs.promotion import promote
from indexer.pipeline.bronze import Lake
from indexer.store.store import Store
from tests.unit.indexer.logs import ALPHA, BETA, EMITTERS
from tests.unit.indexer.stories import change, fork_of, happening
from tests.unit.indexer.world import Event, SimulatedChain, apply, new_world, sent_message

_BLOCKS: Final = 40
_MESSAGES: Final = 30


@dataclass(frozen=True)
class SeededHistory:
    """An index of such a history, all of whose blocks are final in the end."""

    store: Store
    lake: Lake
    chains: tuple[SimulatedChain, SimulatedChain]

    def events(self) -> list[dict[str, Any]]:
        """All events of the chains, each log decoded by itself."""
        return [
            row
            for chain in self.chains
            for log in chain.logs(0, chain.head)
            for row in events_table(raw_logs([log]), EMITTERS[chain.chain_id]).to_pylist()
        ]


def seeded_history(
    seed: int, folder: Path, promoted: Callable[[SeededHistory, Random], None] = lambda _, __: None
) -> SeededHistory:
    """Plays a history to a store, reorgs as well, and promotes what is final now and then.

    Args:
        seed: of the history.
        folder: for store and lake.
        promoted: called each time that final events have come to the lake.
    """
    random = Random(seed)
    store, lake = Store(f"sqlite:///{folder / 'index.db'}"), Lake(folder / "lake")
    chains = new_world()
    for chain in chains:
        chain.is_batched = True
    messages = [
        sent_message(
            nonce,
            quorum=random.randrange(1, 4),
            ttl=random.choice((0, 5, 500)),
            payload=random.choice((b"state", b"%d" % nonce)),
        )
        for nonce in range(1, _MESSAGES + 1)
    ]
    known: list[list[bytes]] = [[], []]
    for _ in range(_BLOCKS):
        side = random.randrange(2)
        chain = chains[side]
        depth = random.choice((0, 0, 0, 1, 2, 5))
        blocks = [_events(random, side, messages) for _ in range(random.randrange(1, 3) + depth)]
        chain.reorganise(depth, *blocks)
        fork = fork_of(chain, known[side])
        apply(store, chain, max(0, fork + 1), chain.head, final=max(-1, chain.head - 8))
        known[side] = [block.hash for block in chain.blocks]
        if random.random() < 0.3:
            promote(store, lake, {ALPHA: 0, BETA: 0})
            promoted(SeededHistory(store, lake, chains), random)
    for chain in chains:
        apply(store, chain, chain.head, chain.head, final=chain.head)
    promote(store, lake, {ALPHA: 0, BETA: 0})
    return SeededHistory(store, lake, chains)


def _events(random: Random, side: int, messages: list[Message]) -> list[Event]:
    events = [happening(side, messages, random.randint) for _ in range(random.randrange(12))]
    if random.random() < 0.3:
        events.append(change(messages, random.randint))
    return events
