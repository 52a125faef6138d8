"""Bronze: the Delta table `bronze.logs` contains the raw logs of final blocks. It is append-only except for repairs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from indexer.decode.events import events_of_logs
from indexer.model import schemas
from indexer.model.dictionary import described, description
from indexer.model.errors import IndexerError, LakeVersionError, RangeGapError
from indexer.model.storage_location import StorageLocation
from indexer.pipeline import log_files
from indexer.pipeline.files import explained

if TYPE_CHECKING:  # readers without Spark import this module
    from pyspark.sql import DataFrame, SparkSession

TABLE: Final = "bronze.logs"

# Opening a table reads each commit after the last checkpoint, each in its own thread. By default there may be a hundred.
_CONFIGURATION: Final[Mapping[str, str | None]] = {"delta.checkpointInterval": "10"}
# Statistics of all columns would take half of the time of a write. These are the columns by which readers choose files.
_STATISTICS: Final[Mapping[str, str]] = {
    TABLE: "chain_id,block_number",
    "silver.events": "chain_id,block_number",
    "silver.messages": "source_time",
    "silver.receipts": "received_time",
    "silver.attempts": "message_id",
}
_CORRECTIONS: Final = "corrections"
"""A Delta transaction that counts repairs. Two at a time conflict, and what was computed before one is computed again."""
_IN_ORDER: Final = [("block_number", "ascending"), ("log_index", "ascending")]
_ALL_AT_ONCE: Final = 2**31 - 1
_RECENT: Final = 20  # commits that are searched for the hash of a chain's last block


@dataclass(frozen=True, slots=True)
class FinalBlocks:
    """Final blocks `first`…`last` of a chain. `last_hash` is the hash of block `last`."""

    first: int
    last: int
    last_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BronzeState:
    """The contents of the table.

    Attributes:
        blocks: last block in the table, by chain.
        corrections: number of repairs.
    """

    blocks: Mapping[int, int]
    corrections: int


class Lake:
    """The lake's raw logs. Delta's application transactions record each chain's last block in the table.

    A commit states its block ranges, which must directly follow those in the table. Repeated commits, and
    commits whose range leaves a gap, change nothing.
    """

    def __init__(self, place: StorageLocation | Path) -> None:
        """Opens the lake, and creates the table if it is missing.

        Args:
            place: a folder or a bucket.

        Attributes:
            place: the lake's location.
            folder: the table's location.

        Raises:
            LakeDamagedError: the table can't be read.
            LakeVersionError: a different version of Waybill wrote the table.
            LakeUnreachableError: its bucket does not exist, denies access, or does not respond.
        """
        self.place = StorageLocation.of(place) if isinstance(place, Path) else place
        self.folder = self.place.table(TABLE)
        ensure_table(self.place, TABLE)

    def last_block(self, chain: int) -> int | None:
        """Returns the chain's last block in the lake, or None if there is none."""
        return self._table().transaction_version(str(chain))

    def last_known(self, chain: int) -> tuple[int, bytes] | None:
        """Returns the number and hash of the chain's last block in the lake, or None if there is none.

        Falls back to the newest log's block when the commit that recorded the hash is not among the recent ones.
        """
        table = self._table()
        last = table.transaction_version(str(chain))
        if last is None:
            return None
        for commit in table.history(_RECENT):
            hashes = json.loads(commit.get("userMetadata") or "{}").get("hashes", {})
            if (found := hashes.get(str(chain))) is not None:
                return (last, bytes.fromhex(found)) if found else None
        return max(self.blocks(chain, 0, last), default=None)

    def check_follows(self, blocks: Mapping[int, FinalBlocks]) -> None:
        """Rejects blocks that do not follow those in the table.

        Raises:
            RangeGapError: a chain's blocks do not directly follow those in the lake.
        """
        table = self._table()
        for chain, range_ in blocks.items():
            there = table.transaction_version(str(chain))
            if there is not None and range_.first != there + 1:
                raise RangeGapError(
                    f"chain {chain}: the lake ends at block {there}, but the blocks to append begin at block {range_.first}"
                )

    def append(self, rows: pa.Table, blocks: Mapping[int, FinalBlocks]) -> None:
        """Appends logs in one commit.

        Args:
            rows: logs with the columns of `schemas.LOGS`; other columns are ignored.
            blocks: block range of these logs, by chain.

        Raises:
            RangeGapError: a chain's blocks do not directly follow those in the lake.
        """
        self.check_follows(blocks)
        with explained(self.folder):
            write_deltalake(self._table(), _raw(rows), mode="append", commit_properties=_commit(blocks))

    def add(self, files: pa.Table, chain: int, blocks: FinalBlocks) -> None:
        """Adds files with the logs of one chain in one commit.

        Args:
            files: files in the table's folder, as `log_files.FILES`.
            chain: chain id.
            blocks: block range of these logs.

        Raises:
            RangeGapError: the blocks do not directly follow those in the lake.
        """
        self.check_follows({chain: blocks})
        table = self._table()
        with explained(self.folder):
            table.create_write_transaction(
                log_files.actions(files), "append", table.schema(), commit_properties=_commit({chain: blocks})
            )

    def replace(self, chain: int, first: int, last: int, rows: pa.Table, reason: str) -> None:
        """Replaces the logs of a range of blocks, in one commit that states the reason.

        Raises:
            IndexerError: another process is repairing the lake.
        """
        table = self._table()
        properties = CommitProperties(
            custom_metadata={"userMetadata": json.dumps({"repair": reason})}, app_transactions=[_correction(table)]
        )
        with self._exclusively():
            write_deltalake(
                table,
                _raw(rows),
                mode="overwrite",
                predicate=f"chain_id = {chain} AND block_number >= {first} AND block_number <= {last}",
                commit_properties=properties,
            )

    def take_back(self, chain: int, back_to: FinalBlocks, reason: str) -> None:
        """Deletes logs that the chain no longer has, in one commit that states the reason.

        The next append starts after `back_to`.

        Raises:
            IndexerError: another process is repairing the lake.
        """
        table = self._table()
        metadata = {"repair": reason, "hashes": {str(chain): back_to.last_hash.hex()}}
        properties = CommitProperties(
            custom_metadata={"userMetadata": json.dumps(metadata)},
            app_transactions=[Transaction(str(chain), back_to.last), _correction(table)],
        )
        with self._exclusively():
            table.delete(f"chain_id = {chain} AND block_number > {back_to.last}", commit_properties=properties)

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        try:
            with explained(self.folder):
                yield
        except CommitFailedError as error:
            raise IndexerError(
                f"another process is repairing the lake at {self.folder}; try again once it has ended"
            ) from error

    def blocks(self, chain: int, first: int, last: int) -> set[tuple[int, bytes]]:
        """Returns the number and hash of each block with logs in a range."""
        batches = self._batches(chain, first, last, ["block_number", "block_hash"])
        parts = [batch.group_by(batch.column_names).aggregate([]) for batch in batches]
        return {(row["block_number"], row["block_hash"]) for part in parts for row in part.to_pylist()}

    def events(self, chain: int, first: int, last: int, columns: Sequence[str] = schemas.EVENTS.names) -> pa.Table:
        """Returns the given columns of the events in a range of blocks, in order. Decodes batch by batch."""
        places = [name for name, _ in _IN_ORDER]
        names = [*columns, *(name for name in places if name not in columns)]
        batches = self._batches(chain, first, last, schemas.LOGS.names)
        parts = [schemas.EVENTS.empty_table().select(names)]
        parts += [events_of_logs(batch).select(names) for batch in batches]
        return pa.concat_tables(parts).sort_by(_IN_ORDER).select(list(columns))

    def _batches(self, chain: int, first: int, last: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        place = (
            (pc.field("chain_id") == chain) & (pc.field("block_number") >= first) & (pc.field("block_number") <= last)
        )
        schema = pa.schema([schemas.LOGS.field(name) for name in columns])
        with explained(self.folder):
            for batch in self._table().to_pyarrow_dataset().to_batches(filter=place, columns=list(columns)):
                yield pa.Table.from_batches([batch]).cast(schema)

    @property
    def version(self) -> int:
        """Returns the table's latest version."""
        return self._table().version()

    def rows(self) -> int:
        """Returns the number of logs, from the table's statistics."""
        with explained(self.folder):
            return sum(pa.table(self._table().get_add_actions())["num_records"].to_pylist())

    def state(self, chains: Sequence[int] | None = None) -> BronzeState:
        """Returns the table's contents for the given chains, or for all chains."""
        table = self._table()
        known = self._chains(table) if chains is None else chains
        found = {chain: table.transaction_version(str(chain)) for chain in known}
        return BronzeState(
            blocks={chain: block for chain, block in found.items() if block is not None},
            corrections=table.transaction_version(_CORRECTIONS) or 0,
        )

    def _chains(self, table: DeltaTable) -> list[int]:
        with explained(self.folder):
            batches = table.to_pyarrow_dataset().to_batches(columns=["chain_id"])
            return sorted({chain for batch in batches for chain in pc.unique(batch.column(0)).to_pylist()})

    def _table(self) -> DeltaTable:
        with explained(self.folder):
            return DeltaTable(self.folder.root, storage_options=self.folder.options)


def _commit(blocks: Mapping[int, FinalBlocks]) -> CommitProperties:
    """Returns the properties of a commit that appends blocks. Its metadata has the hash of each chain's last block."""
    hashes = {str(chain): range_.last_hash.hex() for chain, range_ in blocks.items()}
    return CommitProperties(
        custom_metadata={"userMetadata": json.dumps({"hashes": hashes})},
        app_transactions=[Transaction(str(chain), range_.last) for chain, range_ in blocks.items()],
    )


def _raw(rows: pa.Table) -> pa.Table:
    return rows.select(schemas.LOGS.names).cast(schemas.LOGS)


def _correction(table: DeltaTable) -> Transaction:
    return Transaction(_CORRECTIONS, (table.transaction_version(_CORRECTIONS) or 0) + 1)


def _configuration(name: str) -> Mapping[str, str | None]:
    columns = _STATISTICS.get(name)
    return _CONFIGURATION if columns is None else {**_CONFIGURATION, "delta.dataSkippingStatsColumns": columns}


def ensure_table(place: StorageLocation, name: str) -> None:
    """Creates a table of the lake, including comments, if it does not exist.

    Raises:
        LakeVersionError: the table's columns differ from those of this version of Waybill.
    """
    folder = place.table(name)
    schema = described(name)
    with explained(folder):
        if not DeltaTable.is_deltatable(folder.root, folder.options):
            DeltaTable.create(
                folder.root,
                schema=schema,
                mode="ignore",
                name=name,
                description=description(name),
                configuration=_configuration(name),
                storage_options=folder.options,
            )
        table = DeltaTable(folder.root, storage_options=folder.options)
    if {field.name for field in table.schema().fields} != set(schema.names):
        raise LakeVersionError(
            f"the columns of the table at {folder} differ from those of this version of Waybill: use the version of Waybill that wrote it, or a different folder"
        )


def stream(spark: SparkSession, lake: StorageLocation) -> DataFrame:
    """Returns the table as a stream of its commits, with the schema `schemas.LOGS`.

    The first batch of a checkpoint contains all logs in the table. Repairs are skipped, because everything is
    recomputed after one.
    """
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", _ALL_AT_ONCE)
    return reader.option("skipChangeCommits", "true").load(lake.table(TABLE).uri)
