"""What the tests of the lake put into it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from indexer.model.dictionary import TABLES
from indexer.pipeline.bronze import FinalBlocks, Lake, ensure_table
from indexer.pipeline.reading import AsOf, state_as_of
from tests.unit.indexer.world import SimulatedChain, new_world, routed, sent_message


def chain_with_events(blocks: int) -> SimulatedChain:
    chain, _ = new_world()
    for number in range(1, blocks + 1):
        chain.mine(routed(sent_message(number, gas_limit=2**64 - number)))
    return chain


def final(chain: SimulatedChain, first: int, last: int) -> dict[int, FinalBlocks]:
    return {chain.chain_id: FinalBlocks(first, last, chain.blocks[last].hash)}


def write_table(lake: Lake, name: str, rows: list[dict[str, Any]]) -> None:
    """Writes a table of the lake as a refresh would, with these rows."""
    schema, _ = TABLES[name]
    write_deltalake(
        lake.place.table(name).root,
        pa.Table.from_pylist(rows, schema=schema),
        mode="overwrite",
    )
    ensure_table(lake.place, "gold.divergences")
    state_as_of(lake.place, AsOf(blocks=lake.state().blocks, refreshed_at=1_700_000_000))
