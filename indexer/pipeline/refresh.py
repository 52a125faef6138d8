"""Brings silver and gold up to date with bronze.

bronze.logs ── stream, decode ──▶ silver.events ──▶ silver.messages, receipts, attempts    merged by key
└───────────────────┴──▶ gold.duplicates, lanes, latencies, redundancy,
the index's store (limits, final times, marks) ─────────────▶         divergences          overwritten
the relayer's store (fees paid, attestation times) ─────────▶    gold.costs, latencies
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.resources import files as resources
from typing import Final, TypeVar

import deltalake
import pyarrow as pa
import structlog
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from indexer.model import schemas
from indexer.model.dictionary import TABLES
from indexer.model.settings import StallPolicy
from indexer.model.storage_location import StorageLocation
from indexer.pipeline import bronze, gold, silver
from indexer.pipeline.bronze import BronzeState, Lake, ensure_table
from indexer.pipeline.reading import AsOf, as_of, state_as_of
from indexer.spark.session import LONG_HISTORY

log = structlog.get_logger(__name__)

_OF_MESSAGES: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "silver.messages": silver.messages,
    "silver.receipts": silver.receipts,
    "silver.attempts": silver.attempts,
}
_KEYS: Final = {
    "silver.events": ("chain_id", "block_number", "log_index"),
    "silver.messages": ("message_id",),
    "silver.receipts": ("message_id", "gmp"),
    "silver.attempts": ("message_id", "attempt"),
}
_MADE_BY: Final = "waybill.madeBy"  # table properties of silver.events
_CHECKPOINT: Final = "waybill.checkpoint"
_DAY: Final = 86_400

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """Facts that are in no event.

    Attributes:
        policy: when a message counts as silent; from the index's store.
        limits: `schemas.LIMITS`, from the same.
        divergences: `schemas.DIVERGENCES` that do not follow from messages and receipts; from the same.
        final_times: `schemas.FINAL_TIMES`, from the same.
        attested: `schemas.ATTESTED`, from the relayer's store; None if there is none here.
        paid: `schemas.PAID`, from the same; None if there is none here.
        chain_names: the chains' names by EIP-155 id; from the deployments file.
    """

    policy: StallPolicy = field(default_factory=StallPolicy)
    limits: pa.Table = field(default_factory=schemas.LIMITS.empty_table)
    divergences: pa.Table = field(default_factory=schemas.DIVERGENCES.empty_table)
    final_times: pa.Table = field(default_factory=schemas.FINAL_TIMES.empty_table)
    attested: pa.Table | None = None
    paid: pa.Table | None = None
    chain_names: Mapping[int, str] = field(default_factory=dict[int, str])


def refresh(
    spark: SparkSession,
    lake: Lake,
    facts: StoreFacts,
    *,
    full: bool = False,
    keep_hours: int = 168,
    clock: Callable[[], float] = time.time,
) -> AsOf:
    """Brings silver and gold up to date with bronze. It may be killed at any point, and repeated.

    Args:
        spark: a session of `indexer.spark.session.batch_session`.
        lake: the lake.
        facts: the inputs that are in no log.
        full: compute everything again from bronze; a repair of bronze and another version of the code do the same.
        keep_hours: hours for which earlier versions of the tables can be read.
        clock: Unix seconds.

    Returns:
        The new state of the tables.
    """
    before, state = as_of(lake.place), lake.state()
    for name in TABLES:
        ensure_table(lake.place, name)
    _refresh_silver(spark, lake.place, _checkpoint(spark, lake, state, full=full))
    now = AsOf(blocks=state.blocks, refreshed_at=int(clock()))
    _refresh_gold(spark, lake, facts, now)
    if before is not None and before.refreshed_at // _DAY != now.refreshed_at // _DAY:
        _maintain(spark, lake.place, keep_hours)
    return now


def _checkpoint(spark: SparkSession, lake: Lake, state: BronzeState, *, full: bool) -> str:
    """Returns the name of the stream's checkpoint; a new one if silver has to be recomputed from the first log."""
    folder = lake.place.table("silver.events")
    events = deltalake.DeltaTable(folder.root, storage_options=folder.options)
    made_by = f"{state.corrections}-{_code()}"
    properties = events.metadata().configuration
    if not full and properties.get(_MADE_BY) == made_by:
        return str(properties[_CHECKPOINT])
    name = uuid.uuid4().hex
    log.info("recomputing all tables")
    if not lake.rows():  # then the stream has no batch
        for table in _KEYS:
            current = spark.read.format("delta").load(lake.place.table(table).uri)
            _overwrite(current.limit(0), lake.place.table(table))
    events.alter.set_table_properties({_MADE_BY: made_by, _CHECKPOINT: name}, raise_if_not_exists=False)
    return name


def _code() -> str:
    """Returns a hash of the code that computes silver. Rows of different versions must not be mixed."""
    pipeline = resources("indexer.pipeline")
    found = [pipeline / "silver.py", pipeline / "queries.py"]
    for folder in (pipeline / "sql", resources("indexer.decode")):
        found += [part for part in folder.iterdir() if part.name.endswith((".py", ".sql"))]
    texts = b"".join(part.read_bytes() for part in sorted(found, key=lambda part: part.name))
    return hashlib.sha256(texts).hexdigest()[:16]


def _refresh_silver(spark: SparkSession, lake: StorageLocation, checkpoint: str) -> None:
    """Streams the logs that the checkpoint has not seen into silver."""

    def add(logs: DataFrame, number: int) -> None:
        decoded = silver.events(logs).persist()
        try:
            if number == 0:
                _make_silver(decoded, lake)
            else:
                _add_to_silver(decoded, lake)
        finally:
            decoded.unpersist()

    query = (
        bronze.stream(spark, lake)
        .writeStream.foreachBatch(add)
        .option("checkpointLocation", f"{(lake / 'checkpoints' / checkpoint).uri}")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _make_silver(decoded: DataFrame, lake: StorageLocation) -> None:
    """Overwrites silver with the first batch of a checkpoint, which has every log."""
    _overwrite(decoded, lake.table("silver.events"))
    _at_once(lambda name: _overwrite(_OF_MESSAGES[name](decoded), lake.table(name)), _OF_MESSAGES)


def _add_to_silver(decoded: DataFrame, lake: StorageLocation) -> None:
    """Merges new events, then recomputes the rows of their messages from all events of those messages."""
    _merge("silver.events", decoded, lake)
    ids = decoded.where("message_id is not null").select("message_id").distinct()
    events = decoded.sparkSession.read.format("delta").load(lake.table("silver.events").uri)
    changed = events.join(ids, "message_id", "left_semi").persist()
    try:
        _at_once(lambda name: _merge(name, _OF_MESSAGES[name](changed), lake), _OF_MESSAGES)
    finally:
        changed.unpersist()


def _merge(name: str, rows: DataFrame, lake: StorageLocation) -> None:
    target = DeltaTable.forPath(rows.sparkSession, lake.table(name).uri)
    same = " and ".join(f"old.{column} = new.{column}" for column in _KEYS[name])
    merge = target.alias("old").merge(rows.alias("new"), same)
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def _refresh_gold(spark: SparkSession, lake: Lake, facts: StoreFacts, now: AsOf) -> None:
    """Overwrites gold from silver. Each table is replaced in one commit."""
    names = ("silver.events", "silver.messages", "silver.receipts")
    events, messages, receipts = (spark.read.format("delta").load(lake.place.table(name).uri) for name in names)
    is_short = lake.rows() < LONG_HISTORY
    if is_short:
        # Delta runs a job for each scan of a table in a plan, and gold's plans have some twenty: most of a short history's time.
        events, messages, receipts = (frame.localCheckpoint() for frame in (events, messages, receipts))

    def once(rows: DataFrame) -> DataFrame:
        """Computes rows once that several tables need; those of a long history survive the loss of a worker."""
        return rows.localCheckpoint() if is_short else rows.persist()

    rules = {name: once(rows) for name, rows in gold.router_rules(events, messages).items()}
    deliveries, duplicates = once(gold.deliveries(messages, receipts)), gold.duplicates(events)
    limits = gold.frame(facts.limits, messages)
    attested = None if facts.attested is None else gold.frame(facts.attested, messages)
    final_times = gold.frame(facts.final_times, messages)
    found = gold.divergences(messages, receipts, duplicates, rules, limits=limits, policy=facts.policy)
    tables = {
        "gold.duplicates": duplicates,
        "gold.lanes": gold.lanes(messages, deliveries),
        "gold.latencies": gold.latencies(messages, deliveries, final_times, attested),
        "gold.redundancy": gold.redundancy(deliveries),
        "gold.divergences": found.unionByName(gold.frame(facts.divergences, messages)),
    }
    if facts.paid is not None:  # without a relayer's store, the table of costs stays as it is
        tables = {"gold.costs": gold.costs(messages, receipts, gold.frame(facts.paid, messages)), **tables}
    named = {name: gold.with_names(rows, facts.chain_names) for name, rows in tables.items()}
    _at_once(lambda name: _overwrite(named[name], lake.place.table(name)), named)
    state_as_of(lake.place, now)
    for frame in (deliveries, *rules.values()):
        frame.unpersist()


def _at_once(make: Callable[[str], Made], names: Iterable[str]) -> list[Made]:
    """Returns the result of `make` for each table. Spark plans a query in one thread, so several are planned in parallel."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(make, names))


def _overwrite(rows: DataFrame, folder: StorageLocation) -> None:
    """Replaces a table's rows in one commit."""
    rows.write.format("delta").mode("overwrite").save(folder.uri)


def _maintain(spark: SparkSession, lake: StorageLocation, keep_hours: int) -> None:
    """Compacts small files, and deletes files that no version of the last `keep_hours` refers to."""
    for name in TABLES:
        table = DeltaTable.forPath(spark, lake.table(name).uri)
        table.optimize().executeCompaction()
        table.vacuum(keep_hours)
