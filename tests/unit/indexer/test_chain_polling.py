"""An index that waits asks little: one HTTP request for each block without events, close behind the block."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from indexer.model import schemas
from indexer.model.settings import SourceLimits
from indexer.sources import tail as tail_module
from indexer.sources.chain import Advance, ChainReader
from indexer.sources.position import ChainPosition, Header
from indexer.sources.tail import ChainTail
from indexer.store.blocks import Batch
from indexer.store.store import Store
from tests.cases import for_each_case
from tests.unit.indexer.endpoint import Endpoint, chain_of, reader_of, truth
from tests.unit.indexer.logs import ALPHA
from tests.unit.indexer.world import SimulatedChain, routed, sent_message
from tests.waiting import PATIENCE


def read_to(reader: ChainReader, position: ChainPosition) -> tuple[ChainPosition, list[tuple[int, bytes]]]:
    """Everything that is new, block and block hash of each event."""
    rows: list[tuple[int, bytes]] = []
    while (advance := reader.advance(position)) is not None:
        position = advance.position
        events = advance.events.to_pylist()
        rows += [(event["block_number"], event["block_hash"]) for event in events]
    return position, rows


@for_each_case("blooms", [True, False])
@for_each_case("seed", range(2))
def test_no_event_is_lost_whether_a_chain_has_filters_or_not(blooms: bool, seed: int) -> None:
    chain, dice = SimulatedChain(ALPHA), random.Random(seed)
    reader = reader_of(Endpoint(chain, blooms=blooms), SourceLimits())
    position, found, number = ChainPosition.before(0), list[tuple[int, bytes]](), 0
    for _ in range(25):
        for _ in range(dice.randint(1, 4)):
            number += 1
            chain.mine(*([routed(sent_message(number))] if dice.random() < 0.3 else []))
        position, rows = read_to(reader, position)
        found += rows
    assert sorted(found) == truth(chain)


def test_chain_with_lossy_filters_is_read_block_by_block() -> None:
    chain = chain_of(6)
    endpoint = Endpoint(chain)
    reader = reader_of(endpoint, SourceLimits())
    position, _ = read_to(reader, ChainPosition.before(0))
    endpoint.blooms = False
    chain.mine(routed(sent_message(50)))  # left out: only the routers' own totals tell
    position, rows = read_to(reader, position)
    assert rows == []
    endpoint.blooms = True
    chain.mine(routed(sent_message(51)))
    position, rows = read_to(reader, position)
    assert len(rows) == 1


@for_each_case("seed", range(4))
def test_blocks_without_events_share_a_batch_even_if_they_reorganise(
    seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tail_module, "_LONGEST_ROUND", PATIENCE)
    chain, dice = chain_of(4), random.Random(seed)
    changes: list[Callable[[], None]] = []
    for _ in range(5):
        changes += [chain.mine, lambda: chain.reorganise(dice.randint(1, 3), (), ())]
    dice.shuffle(changes)
    store = Store(f"sqlite:///{tmp_path / f'{seed}.sqlite3'}")
    tail = ChainTail([reader_of(Endpoint(chain), SourceLimits()).config], SourceLimits())
    polled = Changing(reader_of(Endpoint(chain), SourceLimits()), [])
    tail._readers = {ALPHA: cast("ChainReader", polled)}
    positions, batches = tail.read({ALPHA: ChainPosition.before(0)})
    apply_batches(store, batches)
    polled.changes = [*changes, lambda: chain.mine(routed(sent_message(90)))]
    positions, batches = tail.read(positions)
    apply_batches(store, batches)
    tail.close()
    assert polled.changes == []
    assert store.positions()[ALPHA].has(chain_header(chain))
    rows = store.events_between(ALPHA, 0, chain.head).select(["block_number", "block_hash"]).to_pylist()
    assert [(row["block_number"], row["block_hash"]) for row in rows] == truth(chain)
    store.close()


@dataclass
class Changing:
    """A reader whose chain changes before each poll."""

    reader: ChainReader
    changes: list[Callable[[], None]]
    waits: bool = False
    next_look: float = 0.0

    def advance(self, position: ChainPosition, target: int | None) -> Advance | None:
        if self.changes:
            self.changes.pop(0)()
        return self.reader.advance(position, target)

    def close(self) -> None:
        self.reader.close()


def apply_batches(store: Store, batches: list[pa.RecordBatch]) -> None:
    batch = Batch.from_source(pa.Table.from_batches(batches, schemas.SOURCE))
    store.apply(batch.events, batch.ranges)


def chain_header(chain: SimulatedChain) -> Header:
    """The newest block."""
    head = chain.blocks[-1]
    return Header(number=chain.head, hash=head.hash, parent_hash=chain.blocks[-2].hash, time=head.time)
