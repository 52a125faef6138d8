"""Gives the lake back what it has lost and the store has pruned: the chains still have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
import structlog

from indexer.jobs.repair import misfit_of_lake
from indexer.lake.lake import FinalBlocks, Lake
from indexer.lake.promotion import lost
from indexer.model import schemas
from indexer.sources.chain import ChainReader
from indexer.store.store import Store

log = structlog.get_logger(__name__)

_BLOCKS_IN_A_COMMIT: Final = 20_000


def restore(readers: Iterable[ChainReader], store: Store, lake: Lake) -> dict[int, int]:
    """Reads blocks that were in the lake, and no longer are, from their chains again. May be cut off, and repeated.

    Args:
        readers: of the chains, with the adapters that their routers have taken since.
        store: knows how far the lake was.
        lake: a folder or commit of which somebody has deleted or taken back.

    Returns:
        By chain, how many blocks were read again; chains that had lost nothing are left out.

    Raises:
        RpcError: a chain can't be read.
    """
    by_chain: Mapping[int, ChainReader] = {reader.config.chain_id: reader for reader in readers}
    starts = {chain: reader.config.start_block for chain, reader in by_chain.items()}
    restored: dict[int, int] = {}
    for chain, (first, last) in lost(store, lake, starts).items():
        reader = by_chain[chain]
        if (misfit := misfit_of_lake(reader, lake)) is not None:
            log.error("what the lake lost is not read again", chain=chain, reason=misfit)
            continue
        log.error("the lake has lost blocks; reading them from the chain again", chain=chain, first=first, last=last)
        for start in range(first, last + 1, _BLOCKS_IN_A_COMMIT):
            end = min(start + _BLOCKS_IN_A_COMMIT - 1, last)
            events = pa.concat_tables([schemas.EVENTS.empty_table(), *reader.read_final(start, end)])
            lake.append(events, {chain: FinalBlocks(start, end, reader.header(end).hash)}, lost=True)
            log.info("read again for the lake", chain=chain, block=end, of=last)
        restored[chain] = last - first + 1
    return restored
