"""An index that waits asks little: one HTTP request for each block without events, close behind the block."""

from __future__ import annotations

import random

from indexer.model.settings import SourceLimits
from indexer.sources.chain import ChainReader
from indexer.sources.position import ChainPosition
from tests.cases import for_each_case
from tests.unit.indexer.endpoint import Endpoint, chain_of, reader_of, truth
from tests.unit.indexer.logs import ALPHA
from tests.unit.indexer.world import SimulatedChain, routed, sent_message


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
