"""Moves raw logs of final blocks from the store to `bronze.logs`."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import structlog

from indexer.pipeline.bronze import FinalBlocks, Lake
from indexer.store.store import Store

log = structlog.get_logger(__name__)


def promote(store: Store, lake: Lake, start_blocks: Mapping[int, int]) -> dict[int, int]:
    """Appends newly final blocks to the lake.

    Writes Parquet files, then one Delta commit, then a note in the store. A crash between these steps loses
    nothing: the lake itself records each chain's last block, and the store drops no event.

    Skips chains whose lake has lost blocks that the store has partly pruned (see `lost_blocks`), and chains
    whose store has a different block at the lake's last height.

    Args:
        store: source of the events.
        lake: lake to append to.
        start_blocks: first block that was read, by chain.

    Returns:
        The last block in the lake by chain; chains without new blocks are omitted.
    """
    blocks: dict[int, FinalBlocks] = {}
    missing = lost_blocks(store, lake, start_blocks)
    for chain, position in store.positions().items():
        if chain in missing:
            continue
        there = lake.last_block(chain)
        first = start_blocks[chain] if there is None else there + 1
        if position.final_hash and position.final_block >= first:
            if not _joins(store, lake, chain):
                continue
            blocks[chain] = FinalBlocks(first, position.final_block, position.final_hash)
    if not blocks:
        return {}
    logs = [store.events_between(chain, final.first, final.last) for chain, final in blocks.items()]
    lake.append(pa.concat_tables(logs), blocks)
    reached = {chain: final.last for chain, final in blocks.items()}
    store.note_lake(reached)
    return reached


def kept_in_lake(store: Store, lake: Lake) -> dict[int, int]:
    """Returns each chain's last block that is in the lake and is final according to the store."""
    final = {chain: position.final_block for chain, position in store.positions().items()}
    return {chain: min(block, final[chain]) for chain, block in lake.state(list(final)).blocks.items()}


def _joins(store: Store, lake: Lake, chain: int) -> bool:
    """Returns whether the lake's last block is on the same branch as the store, as far as the store can tell."""
    known = lake.last_known(chain)
    ours = None if known is None else store.hash_of(chain, known[0])
    if known is None or ours is None or known[1].startswith(ours):
        return True
    log.error(
        "lake not extended: lake and store disagree about the lake's last block; run `waybill index verify --repair`",
        chain=chain,
        block=known[0],
        lake=f"0x{known[1].hex()}",
        store=f"0x{ours.hex()}…",
    )
    return False


def lost_blocks(store: Store, lake: Lake, start_blocks: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Returns the blocks that the lake has lost, and whose events the store may have pruned.

    Args:
        store: store in which the last append recorded the lake's last block.
        lake: lake of which a folder or a commit may have been deleted or reverted.
        start_blocks: first block that was read, by chain; other chains are skipped.

    Returns:
        The first and the last lost block by chain. A chain is left out while the store still has all its lost
            blocks, because `promote` then restores them.
    """
    if not store.has_pruned():
        return {}
    found: dict[int, tuple[int, int]] = {}
    for chain, start in start_blocks.items():
        # Read in this order, because a promotion writes to the lake before it records the block.
        noted, there = store.lake_block(chain), lake.last_block(chain)
        first = start if there is None else there + 1
        if noted is not None and first <= noted:
            found[chain] = first, noted
    return found
