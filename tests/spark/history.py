"""Seeded histories of two chains with everything that can happen to a message, reorgs included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa

from bridge.protocol.message import Message
from indexer.lake.history import History
from indexer.lake.lake import Lake
from indexer.lake.promotion import promote
from indexer.store.store import Store
from tests.unit.indexer.logs import ADAPTERS, ALPHA, BETA
from tests.unit.indexer.test_store_apply import fork_of
from tests.unit.indexer.world import (
    Event,
    absorbed,
    adapter_added,
    adapter_revoked,
    apply,
    cancellation_requested,
    cancelled,
    contradicted,
    created,
    deferred,
    executed,
    expired,
    failed,
    floor_set,
    gmp_pause_set,
    lane_pause_set,
    late_receipt,
    new_world,
    policy_set,
    received,
    reported,
    retried,
    routed,
    sent_message,
    unfunded,
)

_BLOCKS: Final = 40
_MESSAGES: Final = 30

OnSource = Callable[[Message, Random], Event]

_SOURCE: Final[tuple[OnSource, ...]] = (
    lambda one, _: created(one),
    lambda one, random: routed(one, gmps=random.randrange(1, 8), retriable=random.random() < 0.8),
    lambda one, random: routed(one, gmps=random.randrange(1, 8)),
    lambda one, _: unfunded(one),
    lambda one, random: retried(one, random.randrange(1, 4), random.randrange(1, 8)),
    lambda one, random: (
        "DispatchFailed",
        {"message_id": one.id, "gmp": random.randrange(1, 5), "attempt": 0, "reason": b"no"},
    ),
    lambda one, _: cancellation_requested(one),
    lambda one, random: reported(one, random.randrange(1, 4)),
    lambda one, _: contradicted(one, 1, 2),
)
_DESTINATION: Final[tuple[OnSource, ...]] = (
    *[lambda one, random: received(one, random.randrange(1, 5), random.randrange(1, 4), random.randrange(1, 4))] * 4,
    lambda one, _: executed(one),
    lambda one, _: executed(one),
    lambda one, random: failed(one, bytes([random.randrange(256)])),
    lambda one, _: deferred(one),
    lambda one, _: expired(one),
    lambda one, _: cancelled(one),
    lambda one, random: absorbed(one, random.randrange(1, 5)),
    lambda one, random: late_receipt(one, random.randrange(1, 5)),
)


@dataclass(frozen=True)
class SeededHistory:
    """An index of such a history: a part of it in the lake, the rest in the store alone."""

    store: Store
    lake: Lake

    @property
    def history(self) -> History:
        return History(self.store.engine, self.lake)


def seeded_history(seed: int, folder: Path) -> SeededHistory:
    """Plays a history to a store, reorgs as well, and promotes what is final now and then."""
    random = Random(seed)
    store, lake = Store(f"sqlite:///{folder / 'index.db'}"), Lake(folder / "lake")
    chains = new_world()
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
    return SeededHistory(store, lake)


def _events(random: Random, side: int, messages: list[Message]) -> list[Event]:
    chosen = [_SOURCE, _DESTINATION][side]
    events = [random.choice(chosen)(random.choice(messages), random) for _ in range(random.randrange(12))]
    if random.random() < 0.3:
        recipient, gmp = random.choice(messages).recipient, random.randrange(1, 5)
        events.append(
            random.choice(
                (
                    adapter_added(gmp, ADAPTERS[BETA]),
                    adapter_revoked(gmp, ADAPTERS[BETA]),
                    policy_set(recipient, ALPHA, random.randrange(1, 16), quorum=random.randrange(1, 3)),
                    floor_set(ALPHA, random.randrange(1, 3)),
                    lane_pause_set(ALPHA, 1_000_000 + random.randrange(100)),
                    gmp_pause_set(gmp, 1_000_000 + random.randrange(100)),
                )
            )
        )
    return events


def rows_of(table: pa.Table) -> list[str]:
    """Its rows, in an order of their own, to compare with those of another."""
    return sorted(map(repr, table.to_pylist()))
