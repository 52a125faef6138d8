"""The Delta lake: events of final blocks, append-only. Each task writes its rows as Parquet, and the driver makes one commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.dataset import dataset
from pyarrow.fs import FileType

from indexer.lake.compaction import bucket_of_file, files_with, in_buckets, write_bucket
from indexer.lake.files import explained, files_in, files_of, refuse_empty_commits, write_files
from indexer.model import schemas
from indexer.model.dictionary import described, description
from indexer.model.errors import IndexerError, LakeDamagedError, LakeVersionError, RangeGapError
from indexer.model.storage_location import StorageLocation

log = structlog.get_logger(__name__)

Read = TypeVar("Read")

# To open a table is to read each commit after the last checkpoint, with a thread for each. By default there may be a hundred.
_CONFIGURATION: Final[Mapping[str, str | None]] = {"delta.checkpointInterval": "10"}
_REWRITTEN: Final = "rewritten"
"""A Delta transaction of all who take files away: of two at a time, the second one's commit fails."""
_CORRECTED: Final = "corrected"
"""A Delta transaction of all after whom something else is in the lake than what came next."""
_BEING_WRITTEN: Final = 24
"""Hours: a file younger than that, which no commit names, somebody may be about to commit."""


@dataclass(frozen=True, slots=True)
class FinalBlocks:
    """Blocks `first`…`last` of a chain, all of them final; `last_hash` is the hash of the last."""

    first: int
    last: int
    last_hash: bytes


@dataclass(frozen=True, slots=True)
class Reach:
    """Which events there are.

    Attributes:
        blocks: by chain, the block up to which its events are there; chains of which none are, are left out.
        corrections: how often something else was committed than the blocks that came next: what was made of the events before is
            out of date.
    """

    blocks: Mapping[int, int]
    corrections: int

    @classmethod
    def of(cls, table: DeltaTable, chains: Iterable[int]) -> Reach:
        """What a table's transactions say."""
        found = {chain: table.transaction_version(str(chain)) for chain in chains}
        blocks = {chain: block for chain, block in found.items() if block is not None}
        return cls(blocks, table.transaction_version(_CORRECTED) or 0)

    def transactions(self) -> list[Transaction]:
        """By which a table says the same."""
        told = {str(chain): block for chain, block in self.blocks.items()} | {_CORRECTED: self.corrections}
        return [Transaction(name, version) for name, version in told.items()]


class Lake:
    """The table `events`. Delta's own transaction versions say up to which block each chain is in it.

    A commit names its blocks, and counts only if they follow those that are there. A repeated commit, or one whose range
    leaves blocks out, changes nothing.
    """

    def __init__(self, place: StorageLocation | Path, version: int | None = None) -> None:
        """Opens the lake in that place, and makes it if it is not there.

        Args:
            place: a folder or a bucket.
            version: read it as it was then; the newest one if not given.

        Attributes:
            place: the lake's.
            folder: that of its table `events`.

        Raises:
            LakeDamagedError: a commit is empty.
            LakeVersionError: a newer Waybill wrote it.
            LakeUnreachableError: its bucket is not there, refuses, or does not answer.
        """
        self.place = StorageLocation.of(place) if isinstance(place, Path) else place
        self.folder = self.place / "events"
        self._version = version
        refuse_empty_commits(self.folder)
        with explained(self.folder):
            ensure_table(self.folder, "events", schemas.EVENTS)

    def last_block(self, chain: int) -> int | None:
        """The block up to which the chain's events are in the lake, or None if none are."""
        return self._table().transaction_version(str(chain))

    def last_known(self, chain: int) -> tuple[int, bytes] | None:
        """The highest block of the chain whose hash the lake has: number and hash; None if it has no block of it.

        It is the last block. Only if Delta has cleaned the commit away that says its hash is it the newest event's.
        """
        table = self._table()
        last = table.transaction_version(str(chain))
        if last is None:
            return None
        for commit in table.history():
            if (found := commit.get(f"hash-{chain}")) is not None:
                return (last, bytes.fromhex(found)) if found else None
        newest = self.events(chain, 0, last, ["block_number", "block_hash"]).slice(-1).to_pylist()
        return (newest[0]["block_number"], newest[0]["block_hash"]) if newest else None

    def commit(
        self, manifests: Iterable[Mapping[str, Any]], blocks: Mapping[int, FinalBlocks], *, lost: bool = False
    ) -> None:
        """Adds files to the table, in one commit.

        Args:
            manifests: of the files, as `indexer.lake.files.write_files` yields them.
            blocks: by chain, the blocks whose events the files hold.
            lost: they were there before; what was made of the lake since may lack them, too.

        Raises:
            RangeGapError: a chain's blocks do not begin behind those that are in the lake.
        """
        table = self._table()
        for chain, range_ in blocks.items():
            there = table.transaction_version(str(chain))
            if there is not None and range_.first != there + 1:
                raise RangeGapError(
                    f"the lake has chain {chain} up to block {there}, and the blocks to add begin with {range_.first}"
                )
        now = int(time.time() * 1000)
        files: list[AddAction | RemoveAction] = [added(manifest, now, data_change=True) for manifest in manifests]
        properties = CommitProperties(
            custom_metadata={f"hash-{chain}": range_.last_hash.hex() for chain, range_ in blocks.items()},
            app_transactions=[
                *[Transaction(str(chain), range_.last) for chain, range_ in blocks.items()],
                *[_correcting(table)] * lost,
            ],
        )
        with explained(self.folder):
            table.create_write_transaction(files, mode="append", schema=schemas.EVENTS, commit_properties=properties)

    def append(self, events: pa.Table, blocks: Mapping[int, FinalBlocks], *, lost: bool = False) -> None:
        """Writes events and commits them; see `commit`."""
        self.commit(list(write_files(self.folder, events.combine_chunks().to_batches())), blocks, lost=lost)

    def files(self) -> list[str]:
        """The files of the table's newest version. Others in the folder were never committed."""
        return files_in(self._table(), self.folder)

    def replace(self, chain: int, first: int, last: int, events: pa.Table, reason: str) -> None:
        """Puts other events in the place of those of a range of blocks, in one commit that says why.

        The only exception to append-only; the versions before it still show what was there.

        Raises:
            IndexerError: somebody else compacts or repairs the lake at the same time.
        """
        table = self._table()
        if not schemas.EVENTS.equals(events.schema):
            raise ValueError("events to replace others must have the columns of schemas.EVENTS")
        with self._alone():
            write_deltalake(
                table,
                events,
                mode="overwrite",
                predicate=f"chain_id = {chain} AND block_number >= {first} AND block_number <= {last}",
                commit_properties=CommitProperties(
                    custom_metadata={"repair": reason}, app_transactions=[_rewriting(table), _correcting(table)]
                ),
            )

    def take_back(self, chain: int, back_to: FinalBlocks, reason: str) -> None:
        """Deletes what the chain has no longer, in one commit that says why; the next append begins behind `back_to`.

        Raises:
            IndexerError: somebody else compacts or repairs the lake at the same time.
        """
        table = self._table()
        properties = CommitProperties(
            custom_metadata={"repair": reason, f"hash-{chain}": back_to.last_hash.hex()},
            app_transactions=[Transaction(str(chain), back_to.last), _rewriting(table), _correcting(table)],
        )
        with self._alone():
            table.delete(f"chain_id = {chain} AND block_number > {back_to.last}", commit_properties=properties)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            with explained(self.folder):
                yield
        except CommitFailedError as error:
            raise IndexerError(
                f"another process compacts or repairs the lake at {self.folder}; try again when it has ended"
            ) from error

    def events_of(self, ids: Sequence[bytes]) -> pa.Table:
        """All events of some messages, as `schemas.EVENTS`."""
        wanted = pc.field("message_id").isin(pa.array(ids, pa.binary()))

        def read(table: DeltaTable) -> pa.Table:
            names = _names(files_with(files_in(table, self.folder), ids))
            source = dataset(names, schema=schemas.EVENTS, format="parquet", filesystem=files_of(self.folder))
            return source.to_table(filter=wanted) if names else schemas.EVENTS.empty_table()

        found = self._read(read)
        return found.sort_by([(name, "ascending") for name in ("chain_id", "block_number", "log_index")])

    def compact(self, least: int = 2) -> int:
        """Puts the events of all files that hold every bucket's into one new file per bucket, in one commit.

        Args:
            least: how many such files there must be.

        Returns:
            How many files were replaced; none if another process has done it meanwhile. No row changes, and a reader of
            a pinned version reads the same.
        """
        table = self._table()
        files = pa.table(table.get_add_actions())
        sizes = dict(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))
        loose = [name for name in sizes if bucket_of_file(name) is None]
        if len(loose) < least:
            return 0
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            added(manifest, now, data_change=False)
            for bucket, events in self._in_buckets(loose).items()
            for manifest in write_bucket(self.folder, bucket, events)
        ]
        actions += [
            RemoveAction(path=name, data_change=False, deletion_timestamp=now, size=sizes[name]) for name in loose
        ]
        properties = CommitProperties(
            custom_metadata={"compacted": str(len(loose))}, app_transactions=[_rewriting(table)]
        )
        try:
            with explained(self.folder):
                table.create_write_transaction(
                    actions, mode="append", schema=schemas.EVENTS, commit_properties=properties
                )
        except CommitFailedError:
            log.info("not compacted: another process compacts or repairs the lake", lake=str(self.folder))
            return 0
        return len(loose)

    def _in_buckets(self, names: Sequence[str]) -> dict[int, pa.Table]:
        with explained(self.folder):
            return in_buckets(names, files_of(self.folder))

    def vacuum(self, keep_hours: int) -> list[str]:
        """Deletes files that no version of the last hours names: replaced ones, and those that a day did not see committed.

        Returns:
            Their names. Older versions can't be read any more.
        """
        table = self._table()
        with explained(self.folder):
            replaced = self._vacuumed(table, keep_hours, never_committed=False)
            return replaced + self._vacuumed(table, max(keep_hours, _BEING_WRITTEN), never_committed=True)

    def _vacuumed(self, table: DeltaTable, keep_hours: int, *, never_committed: bool) -> list[str]:
        named = table.vacuum(keep_hours, dry_run=True, enforce_retention_duration=False, full=never_committed)
        there = [found.path for found in files_of(self.folder).get_file_info(named) if found.type != FileType.NotFound]
        if there:
            table.vacuum(keep_hours, dry_run=False, enforce_retention_duration=False, full=never_committed)
        return there

    def events(self, chain: int, first: int, last: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The events of a range of blocks, in order, as `schemas.EVENTS` or only some of its columns."""
        names = schemas.EVENTS.names if columns is None else list(columns)
        needed = list(dict.fromkeys([*names, "block_number", "log_index"]))
        place = (
            (pc.field("chain_id") == chain) & (pc.field("block_number") >= first) & (pc.field("block_number") <= last)
        )
        found = self._read(lambda table: table.to_pyarrow_dataset().to_table(filter=place, columns=needed))
        fitting = found.cast(pa.schema([schemas.EVENTS.field(name) for name in needed]))
        return fitting.sort_by([("block_number", "ascending"), ("log_index", "ascending")]).select(names)

    @property
    def version(self) -> int:
        """The version that is read."""
        return self._table().version()

    def at(self, version: int) -> Lake:
        """The lake as it was at an earlier version."""
        return Lake(self.place, version)

    def chains(self) -> list[int]:
        """The chains of which events are in the lake."""

        def read(table: DeltaTable) -> set[int]:
            batches = table.to_pyarrow_dataset().to_batches(columns=["chain_id"])
            return {chain for batch in batches for chain in pc.unique(batch.column(0)).to_pylist()}

        return sorted(self._read(read))

    def reach(self, chains: Iterable[int]) -> Reach:
        """Which events of these chains are in the lake."""
        return Reach.of(self._table(), chains)

    def _read(self, read: Callable[[DeltaTable], Read]) -> Read:
        """If files are replaced and deleted meanwhile, there is a newer version with the same rows."""
        while True:
            table = self._table()
            try:
                with explained(self.folder):
                    return read(table)
            except LakeDamagedError:
                if self._table().version() == table.version():
                    raise

    def _table(self) -> DeltaTable:
        with explained(self.folder):
            return DeltaTable(self.folder.root, version=self._version, storage_options=self.folder.options)


def events_in(place: StorageLocation, since: int | None = None) -> int:
    """How many events the lake in that place has, as its commits say; none if there is no lake, or it can't be read.

    Args:
        place: the lake's.
        since: count only those in files that came after this version.
    """
    folder = place / "events"
    try:
        there = _counts(DeltaTable(folder.root, storage_options=folder.options))
    except (OSError, DeltaError):
        return 0
    try:
        before = {} if since is None else _counts(DeltaTable(folder.root, since, storage_options=folder.options))
    except DeltaError:  # that version's commits were cleaned away
        before = {}
    return sum(count for path, count in there.items() if path not in before)


def _counts(table: DeltaTable) -> dict[str, int]:
    """By file, how many rows it has."""
    files = pa.table(table.get_add_actions())
    return dict(zip(files["path"].to_pylist(), files["num_records"].to_pylist(), strict=True))


def _names(files: Sequence[str]) -> list[str]:
    return [PurePosixPath(path).name for path in files]


def _rewriting(table: DeltaTable) -> Transaction:
    return Transaction(_REWRITTEN, (table.transaction_version(_REWRITTEN) or 0) + 1)


def _correcting(table: DeltaTable) -> Transaction:
    return Transaction(_CORRECTED, (table.transaction_version(_CORRECTED) or 0) + 1)


def added(manifest: Mapping[str, Any], now: int, *, data_change: bool) -> AddAction:
    """The action of a commit that adds a file; `now` in Unix milliseconds."""
    return AddAction(
        path=manifest["path"],
        size=manifest["size"],
        partition_values={},
        modification_time=now,
        data_change=data_change,
        stats=manifest["stats"],
    )


def ensure_table(folder: StorageLocation, name: str, schema: pa.Schema) -> None:
    """Makes a table if it is not there, and adds the columns that an older Waybill's lacks: its rows have nulls there.

    Raises:
        LakeVersionError: a newer Waybill wrote it.
    """
    root, options = folder.root, folder.options
    if not DeltaTable.is_deltatable(root, options):
        DeltaTable.create(
            root,
            schema=described(name),
            mode="ignore",
            name=name,
            description=description(name),
            configuration=_CONFIGURATION,
            storage_options=options,
        )
    table = DeltaTable(root, storage_options=options)
    there = {field.name: field for field in table.schema().fields}
    if unknown := sorted(there.keys() - set(schema.names)):
        raise LakeVersionError(
            f"the lake at {table.table_uri} has columns that this Waybill does not know ({', '.join(unknown)}): a newer one "
            "wrote it; use that one, or another folder"
        )
    ours = Schema.from_arrow(schema).fields
    if missing := [field for field in ours if field.name not in there]:
        table.alter.add_columns(missing)
