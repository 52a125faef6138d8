"""Keeps store and lake small: prunes ended messages that the lake's tables have, compacts and vacuums the lake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import duckdb
import structlog

from indexer.jobs.pruning import TABLES
from indexer.lake.derived import reach_of_table
from indexer.lake.lake import Lake
from indexer.model.errors import IndexerError
from indexer.model.settings import IndexSettings
from indexer.store.retention import any_ended, prune
from indexer.store.store import Store

log = structlog.get_logger(__name__)

_LOOSE_FILES = 32  # appends of the stream before they are worth a compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """What a round of maintenance did.

    Attributes:
        pruned: messages that the store pruned.
        compacted: files of the lake that were replaced by bucketed ones.
        vacuumed: files of the lake that were deleted.
    """

    pruned: int
    compacted: int
    vacuumed: int


def maintain(
    store: Store,
    lake: Lake,
    settings: IndexSettings,
    now: float,
    *,
    least_files: int = _LOOSE_FILES,
    make_tables: Callable[[], object],
) -> Maintained:
    """One round. May be cut off anywhere, and repeated.

    Args:
        store: open for writing.
        lake: the lake.
        settings: how long what is kept.
        now: Unix seconds.
        least_files: how many small files the lake must have to be compacted.
        make_tables: see `let_go_of_ended`.
    """
    compacted = lake.compact(least_files)
    done = Maintained(
        pruned=let_go_of_ended(store, lake, int(now) - settings.keep_ended, make_tables),
        compacted=compacted,
        vacuumed=len(lake.vacuum(settings.keep_versions)),
    )
    log.info("maintained", pruned=done.pruned, compacted=done.compacted, vacuumed=done.vacuumed)
    return done


def let_go_of_ended(store: Store, lake: Lake, before: int, make_tables: Callable[[], object]) -> int:
    """Lets the store go of messages that ended, and to which nothing has happened since.

    The tables are rebuilt only if they lack one of these messages: those of today have what will be pruned for as long
    as the store keeps what has ended.

    Args:
        store: open for writing.
        lake: the lake.
        before: Unix seconds of block time.
        make_tables: makes the lake's tables, or starts a process that does.

    Returns:
        How many messages went. Without tables that have them none do.
    """
    final = _final(store)
    gone = prune(store.engine, before, covered(lake, final))
    if _lacking(store, lake, final, before):
        try:
            make_tables()
        except (IndexerError, duckdb.Error) as error:
            log.warning("the lake's tables can't be made now; the store keeps what they lack", reason=str(error))
        gone += prune(store.engine, before, covered(lake, final))
    return gone


def _final(store: Store) -> dict[int, int]:
    """By chain, the last block that the store has read as final: what it holds behind it, the lake need not have."""
    return {chain: position.final_block for chain, position in store.positions().items()}


def covered(lake: Lake, final: Mapping[int, int]) -> dict[int, int]:
    """By chain, the block up to which the report's tables, and the lake itself, have its events as they are now.

    Args:
        lake: the lake.
        final: by chain, the last block that the store has read as final. Lake and store may differ behind it.
    """
    lasting = lake.reach(final)
    reaches = [reach_of_table(lake.place / name, lasting.blocks) for name in TABLES]
    if any(reach.corrections != lasting.corrections for reach in reaches):
        return {}
    return {
        chain: min(block, final[chain], *(reach.blocks[chain] for reach in reaches))
        for chain, block in lasting.blocks.items()
        if all(chain in reach.blocks for reach in reaches)
    }


def _lacking(store: Store, lake: Lake, final: Mapping[int, int], before: int) -> bool:
    """Whether the tables lack what the store could prune now, or has pruned."""
    if store.has_pruned() and not covered(lake, final):
        return True
    in_lake = lake.reach(final).blocks
    return any_ended(store.engine, before, {chain: min(block, final[chain]) for chain, block in in_lake.items()})
