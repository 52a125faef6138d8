"""Keeps store and lake small: retention, compaction, vacuum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from indexer.jobs.ended import let_go_of_ended
from indexer.settings import IndexSettings
from indexer.sinks.lake import Lake
from indexer.sinks.store import Store

log = structlog.get_logger(__name__)

_LOOSE_FILES = 32  # appends of the stream before they are worth a compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintained:
    """What a round of maintenance did.

    Attributes:
        pruned: messages that the store let go of.
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
    make_tables: Callable[[], object] | None = None,
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
