"""The tables that follow from the events: what they are computed from, and what an engine that computes them offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from indexer.model import schemas
from indexer.model.dictionary import TABLES as DESCRIBED
from indexer.model.settings import StallPolicy
from indexer.model.storage_location import StorageLocation

SILVER: Final = ("messages", "receipts", "attempts")
"""What became of each message, made of the events alone."""

GOLD: Final = ("duplicates", "lanes", "latencies", "redundancy", "costs", "divergences")
"""What all messages add up to, made of the events and of `SILVER`."""

KEPT: Final = ("findings", "candidates", "fan_outs", "tallies")
"""What a run keeps for the next one, so that totals cost what is new: made of the events and of `SILVER`, and `GOLD` of it."""

MADE_OF: Final[dict[str, tuple[str, ...]]] = {
    "findings": ("messages", "receipts", "duplicates"),
    "candidates": ("messages",),
    "fan_outs": ("messages",),
    "tallies": ("messages", "receipts"),
    "lanes": ("tallies",),
    "latencies": ("tallies", "messages", "receipts"),
    "redundancy": ("tallies",),
    "costs": ("messages", "receipts"),
    "divergences": ("messages", "findings", "candidates", "fan_outs", "tallies"),
}
"""By table, which others it is made of; those that are not named are made of the events alone."""

SCHEMAS: Final[dict[str, pa.Schema]] = {name: DESCRIBED[name][0] for name in (*SILVER, "duplicates", *KEPT, *GOLD[1:])}
"""The columns of each table, by its name, in the order in which one is made of the others."""

Explain = Callable[[str, str], None]
"""Gets the name of a table and the engine's plan for it, before it is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is new in the lake since its tables were made.

    Attributes:
        files: of the lake that hold all new events, and maybe others.
        blocks: by chain, the last block that is not new; chains that are not named are new.
        ids: messages with new events that the tables have already, `message_id` of `schemas.EVENTS`.
        events: how many are new.
        messages: how many messages these are about.
    """

    files: Sequence[str]
    blocks: Mapping[int, int]
    ids: pa.Array
    events: int
    messages: int

    @property
    def is_old(self) -> str:
        """Which events are not new, in SQL."""
        return _up_to(self.blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bronze:
    """The events to compute from.

    Attributes:
        files: Parquet, of one version of the lake.
        folder: where these are.
        tail: events that the lake does not have yet, `schemas.EVENTS`.
        last_blocks: by chain, the last block that counts; events of other chains do not. None: all events count.
        last_time: Unix seconds of block time; later events do not count. None: all do.
        changes: then only events of messages to which something new happened count: `files` have their old ones, and what is
            new counts beside these. None: all do.
    """

    files: Sequence[str]
    folder: StorageLocation
    tail: pa.Table = field(default_factory=schemas.EVENTS.empty_table)
    last_blocks: Mapping[int, int] | None = None
    last_time: int | None = None
    changes: Changes | None = None

    @property
    def condition(self) -> str:
        """Which events count, in SQL."""
        parts = ["true"]
        if self.last_blocks is not None:
            parts.append(_up_to(self.last_blocks))
        if self.last_time is not None:
            parts.append(f"block_time <= {self.last_time}")
        return " and ".join(parts)


def _up_to(blocks: Mapping[int, int]) -> str:
    chains = [f"(chain_id = {chain} and block_number <= {last})" for chain, last in blocks.items()]
    return f"({' or '.join(chains) or 'false'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What the events do not say, but the store and the relayer.

    Attributes:
        policy: when a message counts as silent.
        limits: `schemas.LIMITS`.
        divergences: `schemas.DIVERGENCES`, those that do not follow from messages and receipts.
        chains: `schemas.CHAINS`, how far each was read; None: up to its newest event, so that a message counts as silent
            later, never sooner.
        final_times: `schemas.FINAL_TIMES`.
        attested: `schemas.ATTESTED`; None if no relayer was asked.
        paid: `schemas.PAID`; None if no relayer was asked.
    """

    policy: StallPolicy = field(default_factory=StallPolicy)
    limits: pa.Table = field(default_factory=schemas.LIMITS.empty_table)
    divergences: pa.Table = field(default_factory=schemas.DIVERGENCES.empty_table)
    chains: pa.Table | None = None
    final_times: pa.Table = field(default_factory=schemas.FINAL_TIMES.empty_table)
    attested: pa.Table | None = None
    paid: pa.Table | None = None


class Tables(Protocol):
    """The tables of some events, each computed when it is asked for."""

    def rows(self, name: str) -> pa.Table:
        """One of `SCHEMAS`, with its columns, in no order.

        Raises:
            IndexerError: the events can't be read, or the engine fails.
        """
        ...

    def write(self, name: str, target: StorageLocation, before: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Writes one of them to new files; what is made of it later reads these.

        Args:
            name: of the table.
            target: where to write; the folder must be there.
            before: its files so far: tallies are added to these, and fan-outs have their other messages there.

        Returns:
            Of each file what `indexer.lake.files.write_files` says, and its `rows`; of an empty table one file, too.

        Raises:
            IndexerError: the events can't be read, or the engine fails.
        """
        ...

    def use(self, name: str, files: Sequence[str], folder: StorageLocation, removed: Sequence[str] = ()) -> None:
        """Takes rows that are there for what is made of the table.

        Args:
            name: of the table.
            files: Parquet, with its rows.
            folder: where these are.
            removed: files with rows that these replace, which tallies no longer count.
        """
        ...


class TableEngine(Protocol):
    """Computes tables: Spark, or DuckDB."""

    @property
    def at_once(self) -> int:
        """How many of them it can write at a time, each in a thread of its own."""
        ...

    def tables(self, bronze: Bronze, noted: Noted) -> AbstractContextManager[Tables]:
        """The tables of these events."""
        ...
