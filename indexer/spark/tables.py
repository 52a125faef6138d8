"""The tables, computed by Spark: on this machine or on a cluster, by DataFrames alone, so that Spark Connect can run them too.

Spark has no Delta Lake for this version of it. It reads the Parquet files that the Delta log lists, and writes the files that one
commit then names.
"""

from __future__ import annotations

import io
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from indexer.lake.files import check_there, damages, explained, files_of, manifest_of, new_file, new_name
from indexer.model import schemas
from indexer.model.errors import IndexerError, LakeDamagedError
from indexer.model.spark_types import spark_schema
from indexer.model.storage_location import StorageLocation
from indexer.model.tables import MADE_OF, SCHEMAS, Bronze, Explain, Noted, Tables
from indexer.spark.outage import SPARK_ERRORS, reason_of
from indexer.transforms.arrow import map_in_arrow
from indexer.transforms.pipeline import Pipeline

_MANIFEST: Final = "path string, size bigint, rows bigint, stats string"
_ROWS_AT_ONCE: Final = 65_536
_AT_ONCE: Final = 2  # tables


class SparkEngine:
    """Computes tables in a Spark session."""

    def __init__(self, spark: SparkSession, explain: Explain | None = None) -> None:
        """Uses a session, best one of `indexer.spark.session.batch_session`; `explain` gets each plan before it runs.

        Attributes:
            at_once: see `indexer.model.tables.TableEngine`. One thread plans a table, and its last tasks leave cores idle.
        """
        self._spark = spark
        self._explain = explain
        self.at_once = _AT_ONCE if explain is None else 1  # Spark prints plans: two threads would mix them up

    @contextmanager
    def tables(self, bronze: Bronze, noted: Noted) -> Iterator[Tables]:
        """The tables of these events.

        Raises:
            LakeDamagedError: a file that the lake's commits name is gone.
        """
        check_there(bronze.files, bronze.folder)
        with _plain_errors(bronze.folder):
            yield SparkTables(Pipeline(events_of(self._spark, bronze), noted), bronze.folder, self._explain)


class SparkTables:
    """The tables of some events."""

    def __init__(self, pipeline: Pipeline, folder: StorageLocation, explain: Explain | None) -> None:
        """Computes nothing yet; `folder` is the one of the events."""
        self._pipeline = pipeline
        self._folder = folder
        self._explain = explain
        self._made: set[str] = set()

    def rows(self, name: str) -> pa.Table:
        """See `indexer.model.tables.Tables`."""
        with _plain_errors(self._folder):
            for source in MADE_OF.get(name, ()):
                self._make(source)
            return self._planned(name).toArrow().cast(SCHEMAS[name])

    def write(self, name: str, target: StorageLocation, before: Sequence[str] = ()) -> list[dict[str, Any]]:
        """See `indexer.model.tables.Tables`."""
        schema = SCHEMAS[name]
        with _plain_errors(self._folder):
            if before:
                self._pipeline.before[name] = self._read(name, before, target)
            planned = self._planned(name)
            manifests = _write(planned, schema, target) or [_written([], schema, target)]
        self.use(name, [f"{target.root}/{manifest['path']}" for manifest in manifests], target)
        return manifests

    def use(self, name: str, files: Sequence[str], folder: StorageLocation, removed: Sequence[str] = ()) -> None:
        """See `indexer.model.tables.Tables`."""
        setattr(self._pipeline, name, self._read(name, files, folder))
        self._made.add(name)
        if removed:
            self._pipeline.removed[name] = self._read(name, removed, folder)

    def _read(self, name: str, files: Sequence[str], folder: StorageLocation) -> DataFrame:
        return read_files(self._pipeline.spark, files, folder, SCHEMAS[name])

    def _make(self, name: str) -> None:
        """Makes a table once, however many are made of it: the divergences alone name messages twenty times."""
        if name not in self._made:
            for source in MADE_OF.get(name, ()):
                self._make(source)
            setattr(self._pipeline, name, self._planned(name).localCheckpoint())
            self._made.add(name)

    def _planned(self, name: str) -> DataFrame:
        frame: DataFrame = getattr(self._pipeline, name)
        if self._explain is not None:
            plan = io.StringIO()
            with redirect_stdout(plan):
                frame.explain(mode="formatted")
            self._explain(name, plan.getvalue().strip())
        return frame


def events_of(spark: SparkSession, bronze: Bronze) -> DataFrame:
    """The events to compute from, as `schemas.EVENTS`."""
    events = read_files(spark, bronze.files, bronze.folder, schemas.EVENTS)
    if (changes := bronze.changes) is not None:
        new = read_files(spark, changes.files, bronze.folder, schemas.EVENTS).where(f"not ({changes.is_old})")
        events = new.unionByName(events)
    if len(bronze.tail):
        events = events.unionByName(spark.createDataFrame(bronze.tail, spark_schema(schemas.EVENTS)))
    return events.where(bronze.condition)


def read_files(spark: SparkSession, files: Sequence[str], folder: StorageLocation, schema: pa.Schema) -> DataFrame:
    """Rows of Parquet files that a Delta log lists.

    Args:
        spark: the session.
        files: of one version of the table.
        folder: the table's.
        schema: its columns; where a file lacks one, its rows have nulls.
    """
    columns = spark_schema(schema)
    if not files:
        return spark.createDataFrame(schema.empty_table(), columns)
    if not folder.is_bucket:
        return spark.read.schema(columns).parquet(*files)
    # Spark's own S3 reader is a jar apart from its wheel: its tasks read by deltalake's client, a file each.
    names = spark.createDataFrame([(PurePosixPath(path).name,) for path in files], "name string")
    return map_in_arrow(names.repartition(len(files), "name"), _Reader(schema, folder), columns)


class _Reader:
    """What a task does that reads files of a bucket."""

    def __init__(self, schema: pa.Schema, folder: StorageLocation) -> None:
        self._schema = schema
        self._folder = folder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for name in batch.column(0).to_pylist():
                with explained(self._folder), files_of(self._folder).open_input_file(name) as file:
                    parquet = pq.ParquetFile(file)
                    for rows in parquet.iter_batches(_ROWS_AT_ONCE):
                        yield _fitted(rows, self._schema)


def _fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    there = set(rows.schema.names)
    columns = [
        rows.column(field.name).cast(field.type) if field.name in there else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _write(frame: DataFrame, schema: pa.Schema, target: StorageLocation) -> list[dict[str, Any]]:
    """Writes rows to new files, a task each; see `Tables.write`. A table without rows may get no file."""
    if target.is_bucket:  # as for reading, by deltalake's client
        return [row.asDict() for row in map_in_arrow(frame, _Writer(schema, target), _MANIFEST).collect()]
    # Spark's own writer: no Python process has to start, and no row leaves the JVM.
    written = Path(target.root) / f"new-{uuid.uuid4().hex}"
    frame.write.option("compression", "zstd").parquet(str(written))
    manifests = [_moved(path, Path(target.root)) for path in sorted(written.glob("*.parquet"))]
    shutil.rmtree(written)
    return manifests


def _moved(path: Path, folder: Path) -> dict[str, Any]:
    """Takes a file that Spark wrote into the table's folder, once its content outlasts a power cut."""
    with path.open("rb") as written:
        os.fsync(written.fileno())
    rows, size, name = pq.read_metadata(path).num_rows, path.stat().st_size, new_name()
    path.rename(folder / name)
    return manifest_of(name, size, rows)


class _Writer:
    """What a task does that writes rows: one new file of all that it has, or none if it has no rows."""

    def __init__(self, schema: pa.Schema, target: StorageLocation) -> None:
        self._schema = schema
        self._target = target

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is not None:
            manifest = _written(_with_rest(first, filled), self._schema, self._target)
            yield pa.RecordBatch.from_pylist([manifest])


def _with_rest(first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _written(batches: Iterable[pa.RecordBatch], schema: pa.Schema, target: StorageLocation) -> dict[str, Any]:
    """Writes rows to one new file; what the file is called, and what is in it."""
    name, rows = new_name(), 0
    with new_file(target, name) as stream:
        with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
            for batch in batches:
                rows += batch.num_rows
                writer.write_batch(batch.cast(schema))
        size = stream.tell()
    return manifest_of(name, size, rows)


@contextmanager
def _plain_errors(folder: StorageLocation) -> Iterator[None]:
    """Says which file is damaged, or what failed, instead of Java's and Python's stacks."""
    try:
        yield
    except SPARK_ERRORS as error:
        if found := "; ".join(damages(folder)):
            raise LakeDamagedError(f"the lake at {folder} is damaged: {found}") from error
        raise IndexerError(f"Spark failed: {reason_of(error)}") from error
