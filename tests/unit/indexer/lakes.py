"""What the tests of the lake put into it."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable

from indexer.lake.lake import FinalBlocks, Lake
from indexer.lake.lake_tables import DUCKDB
from indexer.model.tables import Bronze, Noted
from tests.unit.indexer.world import SimulatedChain, new_world, routed, sent_message


def chain_with_events(blocks: int) -> SimulatedChain:
    chain, _ = new_world()
    for number in range(1, blocks + 1):
        chain.mine(routed(sent_message(number, gas_limit=2**64 - number)))
    return chain


def final(chain: SimulatedChain, first: int, last: int) -> dict[int, FinalBlocks]:
    return {chain.chain_id: FinalBlocks(first, last, chain.blocks[last].hash)}


def made_of(name: str, lake: Lake) -> pa.Table:
    """One of the lake's tables, made of its events."""
    with DUCKDB.tables(Bronze(files=lake.files(), folder=lake.folder), Noted()) as tables:
        return tables.rows(name)


def repairs(lake: Lake) -> list[str]:
    """Why something other than an append was ever committed, the newest first."""
    table = DeltaTable(lake.folder.root, storage_options=lake.folder.options)
    return [commit["repair"] for commit in table.history() if "repair" in commit]
