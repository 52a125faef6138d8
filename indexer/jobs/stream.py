"""The stream. Writes each micro-batch to the store and final blocks to the lake, and requests retries every second."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import orjson
import pyarrow as pa
import structlog
from deltalake.exceptions import CommitFailedError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from sqlalchemy.exc import OperationalError

from bridge.evm.rpc_answers import RpcError
from indexer.jobs.history import History
from indexer.jobs.periodic import Periodic
from indexer.jobs.promotion import kept_in_lake, promote
from indexer.jobs.refresh_process import RefreshProcess
from indexer.jobs.repair import find_violation, mark
from indexer.jobs.watch import Watch
from indexer.model.errors import (
    FinalityViolatedError,
    IndexerError,
    LakeDamagedError,
    LakeUnreachableError,
    RangeGapError,
)
from indexer.model.settings import IndexSettings
from indexer.pipeline.bronze import Lake
from indexer.sources import evm, options
from indexer.sources.chain import ChainConfig, ChainReader
from indexer.sources.position import ChainPosition
from indexer.spark.outage import SPARK_ERRORS, SparkOutage
from indexer.store.blocks import Batch
from indexer.store.limits import set_limits
from indexer.store.retention import prune
from indexer.store.retries import request_retries
from indexer.store.store import Store

log = structlog.get_logger(__name__)

_TICK: Final = 1  # seconds between two searches for overdue messages: Spark runs no batch while there are no events
_LANE: Final = ["chain_id", "source_chain", "destination_chain"]  # columns of an event that identify its lane
_STEADY: Final = 20.0  # seconds of running without a failure after which Spark counts as recovered
_LONGEST_OUTAGE: Final = 120.0  # seconds for which the store may be unreachable


class Stream:
    """One run of the stream."""

    def __init__(
        self,
        spark: SparkSession,
        chains: Sequence[ChainConfig],
        settings: IndexSettings,
        *,
        store: Store,
        lake: Lake,
        clock: Callable[[], float],
        outage: SparkOutage,
    ) -> None:
        """Prepares a run. `clock` returns Unix seconds; `outage` counts Spark's failures across sessions."""
        self._spark = spark
        self._outage = outage
        self._started_at = 0.0
        self._is_down = False
        self._chains = chains
        self._settings = settings
        self._store = store
        self._lake = lake
        self._clock = clock
        self._promotion = Periodic("promotion", settings.lake_interval, self._promote)
        self._lanes: set[tuple[object, ...]] = set()
        self._failure: IndexerError | None = None
        self._store_gone_since: float | None = None
        self._halted: dict[int, str] = {}
        self._unmarked: set[int] = set()
        self._refresh = RefreshProcess(settings.refresh_command)

    def follow(self, stop: threading.Event) -> None:
        """Runs until `stop` is set.

        Raises:
            IndexerError: the index can't continue.
            OperationalError: the store is unreachable at the start.
            SPARK_ERRORS: the session is gone; continue with a new one.
        """
        query = self._start()
        settings = self._settings
        watch = Watch(self._chains, settings, store=self._store, lake=self._lake, clock=self._clock)
        beside = (
            self._promotion,
            Periodic("verification", settings.verify_interval, watch.look),
            Periodic("maintenance", settings.refresh_interval, self._prune_and_refresh),
            Periodic("violations", _TICK, self._mark_violations),
        )
        try:
            while not stop.wait(_TICK):
                try:
                    request_retries(self._store.engine, settings.stall, self._clock())
                    for task in beside:
                        task.tick()
                    query = self._kept_alive(query)
                    self._store_gone_since = None
                except OperationalError as error:
                    self._wait_for_store(error)
        finally:
            with suppress(*SPARK_ERRORS):
                query.stop()
            for task in beside:
                task.close()
            self._refresh.close()

    def _wait_for_store(self, error: OperationalError) -> None:
        """Waits for a database that is locked or restarting, and gives up after two minutes."""
        now = time.monotonic()
        self._store_gone_since = self._store_gone_since or now
        reason = " ".join(str(error.orig).split())
        if now - self._store_gone_since > _LONGEST_OUTAGE:
            raise IndexerError(f"the index's store has not responded for {_LONGEST_OUTAGE:.0f} s: {reason}") from error
        log.warning("store unreachable, retrying", reason=reason)

    def run_to_heads(self) -> None:
        """Runs until the current heads have been read.

        Raises:
            FinalityViolatedError: a chain reverted a final block; all other chains have been read.
            IndexerError: a chain can't be read.
            SPARK_ERRORS: the session is gone; continue with a new one.
        """
        while True:
            query = self._start(once=True)
            try:
                while not query.awaitTermination(_TICK):
                    self._promotion.tick()
            except StreamingQueryException:
                self._note_failure(query)
                time.sleep(self._outage.wait)
            else:
                break
        self._promotion.close()
        self._mark_violations()
        if self._halted:
            raise FinalityViolatedError("\n".join(self._halted.values()))

    def _start(self, *, once: bool = False) -> StreamingQuery:
        """Starts the query at the store's positions. Spark's state from an earlier run is discarded."""
        checkpoint = self._settings.folder.checkpoint
        delete_checkpoint(checkpoint)
        set_limits(self._store.engine, self._settings.stall)
        positions = options.encode_positions(where_to_begin(self._chains, self._store))
        rows = (
            self._spark.readStream.format(evm.FORMAT)
            .option(evm.CHAINS, options.encode_chains(self._chains))
            .option(evm.LIMITS, options.encode_limits(self._settings.limits))
            .option(evm.POSITIONS, orjson.dumps(positions).decode())
            .load()
        )
        writer: DataStreamWriter = rows.writeStream.foreachBatch(self._apply).option(
            "checkpointLocation", str(checkpoint)
        )
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")
        self._started_at = time.monotonic()
        return writer.start()

    def _kept_alive(self, query: StreamingQuery) -> StreamingQuery:
        """Returns the query, or a new one if it failed and the back-off has passed."""
        if query.isActive:
            if time.monotonic() - self._started_at > _STEADY:
                self._outage.over()
            return query
        if not self._is_down:
            self._note_failure(query)
            self._is_down = True
        if self._outage.wait:
            return query
        self._store.positions()  # while the store is unreachable, no stream is started
        self._is_down = False
        return self._start()

    def _note_failure(self, query: StreamingQuery) -> None:
        """Raises the query's error if restarting from the store's offsets can't fix it."""
        failure = self._failure or _source_error(query.exception()) or query.exception()
        if isinstance(failure, IndexerError) and not isinstance(failure, RangeGapError):
            raise failure
        self._failure = None
        self._outage.failed(failure or IndexerError("the stream ended without an error"))

    def _apply(self, rows: DataFrame, _batch: int) -> None:
        try:
            batch = Batch.from_source(rows.toArrow())
            self._store.apply(batch.events, batch.ranges)
            self._set_limits_of_new_lanes(batch.events)
            if batch.halted:
                self._note_halts(batch.halted)
            request_retries(self._store.engine, self._settings.stall, self._clock())
        except IndexerError as error:
            self._failure = error
            raise
        self._outage.over()

    def _note_halts(self, halted: Mapping[int, str]) -> None:
        self._store.halt(halted)
        self._halted |= halted
        self._unmarked |= halted.keys()

    def _mark_violations(self) -> None:
        """Marks the messages whose final events were reverted.

        Runs outside the micro-batch, so as not to delay other chains.
        """
        for chain in [chain for chain in self._chains if chain.chain_id in self._unmarked]:
            self._unmarked.discard(chain.chain_id)
            try:
                with ChainReader(chain, self._settings.limits) as reader:
                    violation = find_violation(reader, History(self._store.engine, self._lake))
            except RpcError as error:  # a chain that does not answer must not stop the others
                log.warning(
                    "affected messages not marked yet; the next run marks them, or `waybill index verify --repair`",
                    chain=chain.chain_id,
                    reason=str(error),
                )
                continue
            if violation is not None:
                mark(self._store, violation, self._clock())

    def _set_limits_of_new_lanes(self, events: pa.Table) -> None:
        """Writes the limits of new lanes before the state of their first messages is determined."""
        lanes = {tuple(lane.values()) for lane in events.group_by(_LANE).aggregate([]).to_pylist()}
        if not lanes <= self._lanes:
            set_limits(self._store.engine, self._settings.stall)
            self._lanes |= lanes

    def _prune_and_refresh(self) -> None:
        """Prunes messages that ended long ago and are in the lake, and starts a refresh."""
        try:
            ended_before = int(self._clock()) - self._settings.keep_ended
            pruned = prune(self._store.engine, ended_before, kept_in_lake(self._store, self._lake))
            log.info("store pruned", messages=pruned)
        except (LakeUnreachableError, LakeDamagedError) as error:
            log.warning("store not pruned: the lake can't be read now", reason=str(error))
        self._refresh.start()

    def _promote(self) -> None:
        """Appends final blocks to the lake at intervals, not block by block, so that files are few and large."""
        try:
            promote(self._store, self._lake, {chain.chain_id: chain.start_block for chain in self._chains})
        except (LakeUnreachableError, LakeDamagedError, RangeGapError, CommitFailedError) as error:
            log.warning("final blocks not appended to the lake", reason=str(error))


def delete_checkpoint(checkpoint: Path) -> None:
    """Deletes the checkpoint of an earlier run.

    Raises:
        IndexerError: the checkpoint can't be deleted.
    """
    shutil.rmtree(checkpoint, ignore_errors=True)  # of a query that has just failed, Spark may be deleting files too
    if os.path.lexists(checkpoint):
        raise IndexerError(
            f"Spark's checkpoint {checkpoint} can't be deleted: delete it by hand, a link too, and start again. Nothing in it "
            "is needed, and with it Spark would go on where it once was"
        )


def where_to_begin(chains: Sequence[ChainConfig], store: Store) -> dict[int, ChainPosition]:
    """Returns the store's position of each chain; a new chain starts at its router's first block."""
    start = {chain.chain_id: ChainPosition.before(chain.start_block) for chain in chains}
    return start | {chain: position for chain, position in store.positions().items() if chain in start}


def _source_error(error: StreamingQueryException | None) -> IndexerError | None:
    """Returns the index's own error that ended the data source's process, if any.

    Spark passes on only the traceback's text.
    """
    lines = re.findall(r"^(?:indexer|bridge\.evm)\.[\w.]+\.(\w+Error): (.*)$", str(error), re.MULTILINE)
    if not lines:
        return None
    name, text = lines[-1]
    return RangeGapError(text) if name == RangeGapError.__name__ else IndexerError(text)
