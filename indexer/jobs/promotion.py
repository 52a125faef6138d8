"""Raw logs whose blocks have become final go from the store to `bronze.logs`."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import structlog

from indexer.pipeline.bronze import FinalBlocks, Lake
from indexer.store.store import Store

log = structlog.get_logger(__name__)


def promote(store: Store, lake: Lake, start_blocks: Mapping[int, int]) -> dict[int, int]:
    """Appends to the lake what is final in the store and not yet there.

    Parquet first, then one Delta commit, then a note in the store. A crash in between loses nothing: the lake itself says
    up to which block it has each chain, and the store drops no event.

    A chain of which the lake has lost blocks that the store no longer has whole is passed over; see `lost`. So is one of which
    lake and store have another block where the lake ends.

    Args:
        store: where the events are.
        lake: where they go.
        start_blocks: by chain, the first block that was read.

    Returns:
        By chain, the block up to which its events are in the lake now; chains with nothing new are left out.
    """
    blocks: dict[int, FinalBlocks] = {}
    missing = lost(store, lake, start_blocks)
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


def kept_elsewhere(store: Store, lake: Lake) -> dict[int, int]:
    """By chain, the last block of which both the lake has the logs and the store knows that it is final."""
    final = {chain: position.final_block for chain, position in store.positions().items()}
    return {chain: min(block, final[chain]) for chain, block in lake.state(list(final)).blocks.items()}


def _joins(store: Store, lake: Lake, chain: int) -> bool:
    """Whether the lake ends with a block of the history that the store has, as far as the store knows that block."""
    known = lake.last_known(chain)
    ours = None if known is None else store.hash_of(chain, known[0])
    if known is None or ours is None or known[1].startswith(ours):
        return True
    log.error(
        "nothing is added to the lake, which ends with another block than the store has there: run `waybill index verify --repair`",
        chain=chain,
        block=known[0],
        lake=f"0x{known[1].hex()}",
        store=f"0x{ours.hex()}…",
    )
    return False


def lost(store: Store, lake: Lake, start_blocks: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """The blocks that the lake once had and no longer has, and whose events the store may have pruned.

    Args:
        store: which noted how far the lake was.
        lake: a folder or commit of which may have been deleted or taken back.
        start_blocks: by chain, the first block that was read; others are left out.

    Returns:
        By chain, the first and the last of them. Empty as long as the store holds everything: then `promote` is enough.
    """
    if not store.has_pruned():
        return {}
    found: dict[int, tuple[int, int]] = {}
    for chain, start in start_blocks.items():
        # In this order: what is promoted in between is in the lake before it is noted.
        noted, there = store.lake_block(chain), lake.last_block(chain)
        first = start if there is None else there + 1
        if noted is not None and first <= noted:
            found[chain] = first, noted
    return found
