"""Brings the silver and gold tables up to date with bronze.

bronze.logs ── stream, decode ──▶ silver.events ──▶ silver.messages, receipts, attempts   merged by key

silver.* ────────────────────────────────────────▶ gold.duplicates, lanes, redundancy     overwritten
silver.* and the index's store ──────────────────▶ gold.divergences                       overwritten
silver.* and the relayer's store ────────────────▶ gold.latencies, costs                  overwritten
"""

from __future__ import annotations

import hashlib
import pickle
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from importlib.resources import files as resources
from typing import Final

import deltalake
import pyarrow as pa
import structlog
from pyspark.sql import DataFrame, SparkSession

from indexer.model import schemas
from indexer.model.dictionary import TABLES
from indexer.model.settings import StallPolicy
from indexer.model.storage_location import StorageLocation
from indexer.pipeline import bronze, gold, silver
from indexer.pipeline.bronze import BronzeState, Lake, ensure_table
from indexer.pipeline.reading import AsOf, as_of, state_as_of
from indexer.pipeline.tables import Tables
from indexer.spark.session import LONG_HISTORY

log = structlog.get_logger(__name__)

_OF_MESSAGES: Final[dict[str, Callable[[DataFrame], DataFrame]]] = {
    "silver.messages": silver.messages,
    "silver.receipts": silver.receipts,
    "silver.attempts": silver.attempts,
}
_MADE_BY: Final = "waybill.madeBy"  # table properties of silver.events
_CHECKPOINT: Final = "waybill.checkpoint"
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """Inputs of the gold tables that are in no event.

    Attributes:
        policy: stall policy, which determines when a message counts as silent; from the index's store.
        limits: rows of `schemas.LIMITS`, from the index's store.
        divergences: rows of `schemas.DIVERGENCES` that do not follow from messages and receipts; from the
            index's store.
        attested: rows of `schemas.ATTESTED`, from the relayer's store; None if there is no relayer here.
        paid: rows of `schemas.PAID`, from the relayer's store; None if there is no relayer here.
        chain_names: chain names by EIP-155 id, from the deployments file.
    """

    policy: StallPolicy = field(default_factory=StallPolicy)
    limits: pa.Table = field(default_factory=schemas.LIMITS.empty_table)
    divergences: pa.Table = field(default_factory=schemas.DIVERGENCES.empty_table)
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
    """Brings the silver and gold tables up to date with bronze. Can be killed at any point, and repeated.

    Args:
        spark: session from `indexer.spark.session.batch_session`.
        lake: the lake.
        facts: inputs that are in no log.
        full: whether to recompute everything from bronze. This also happens after a repair of bronze, and with
            a different version of the code.
        keep_hours: number of hours for which earlier versions of the tables stay readable.
        clock: returns Unix seconds.

    Returns:
        The new state of the tables.
    """
    before, state = as_of(lake.place), lake.state()
    inputs = _inputs(lake, state, facts)
    for name in TABLES:
        ensure_table(lake.place, name)
    is_here = (spark.conf.get("spark.master", None) or "").startswith("local")
    is_short = is_here and lake.rows() < LONG_HISTORY
    tables = Tables(spark, lake.place, is_short=is_short)
    if is_short:  # to compute it again takes less time than to find what is new
        decoded = tables.once(silver.events(tables.read("bronze.logs")))
        tables.overwrite("silver.events", decoded)
        _make_messages(tables, decoded)
    else:
        _refresh_silver(spark, lake.place, tables, _checkpoint(tables, lake, state, full=full))
    _refresh_gold(tables, facts)
    now = AsOf(blocks=state.blocks, refreshed_at=int(clock()), inputs=inputs)
    state_as_of(lake.place, now)
    if before is not None and not _is_same_day(before, now):
        for name in TABLES:
            tables.maintain(name, keep_hours)
    return now


def unchanged(lake: Lake, facts: StoreFacts, *, clock: Callable[[], float] = time.time) -> AsOf | None:
    """Returns the state of the tables if a refresh would compute the same rows, and records that it is still current.

    Returns None if a refresh is needed, or if no refresh has done the tables' maintenance today.
    """
    before, state = as_of(lake.place), lake.state()
    if before is None or before.inputs != _inputs(lake, state, facts):
        return None
    now = replace(before, blocks=state.blocks, refreshed_at=int(clock()))
    if not _is_same_day(before, now):
        return None
    state_as_of(lake.place, now)
    return now


def _inputs(lake: Lake, state: BronzeState, facts: StoreFacts) -> str:
    """Returns a hash of all inputs of the tables."""
    # Bronze is append-only except for corrections. The names of its files change when they are compacted.
    return hashlib.sha256(pickle.dumps((lake.rows(), state.corrections, facts, _code()))).hexdigest()


def _is_same_day(one: AsOf, other: AsOf) -> bool:
    return one.refreshed_at // _DAY == other.refreshed_at // _DAY


def _checkpoint(tables: Tables, lake: Lake, state: BronzeState, *, full: bool) -> str:
    """Returns the name of the stream's checkpoint. It is a new name if silver must be recomputed from the first log."""
    folder = lake.place.table("silver.events")
    events = deltalake.DeltaTable(folder.root, storage_options=folder.options)
    made_by = f"{state.corrections}-{_code()}"
    properties = events.metadata().configuration
    if not full and properties.get(_MADE_BY) == made_by:
        return str(properties[_CHECKPOINT])
    name = uuid.uuid4().hex
    log.info("recomputing all tables")
    if not lake.rows():  # then the stream has no batch
        for table in ("silver.events", *_OF_MESSAGES):
            tables.overwrite(table, tables.read(table).limit(0))
    events.alter.set_table_properties({_MADE_BY: made_by, _CHECKPOINT: name}, raise_if_not_exists=False)
    return name


def _code() -> str:
    """Returns a hash of the code that computes the tables. Rows computed by different versions must not be mixed."""
    pipeline = resources("indexer.pipeline")
    folders = (pipeline, pipeline / "sql", pipeline / "sql" / "divergences", resources("indexer.decode"))
    found = [part for folder in folders for part in folder.iterdir() if part.name.endswith((".py", ".sql"))]
    texts = b"".join(part.read_bytes() for part in sorted(found, key=lambda part: part.name))
    return hashlib.sha256(texts).hexdigest()[:16]


def _refresh_silver(spark: SparkSession, lake: StorageLocation, tables: Tables, checkpoint: str) -> None:
    """Streams the logs that the checkpoint has not seen into silver."""

    def add(logs: DataFrame, number: int) -> None:
        if number == 0:  # the first batch of a checkpoint has every log: too many to keep in memory
            tables.overwrite("silver.events", silver.events(logs))
            # Their windows and groups are all within a message, so one shuffle is enough for each table.
            _make_messages(tables, tables.read("silver.events").repartition("message_id"))
            return
        decoded = tables.once(silver.events(logs))
        try:
            _add_to_silver(tables, decoded)
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


def _make_messages(tables: Tables, events: DataFrame) -> None:
    """Overwrites the other silver tables, from every event."""
    _at_once(lambda name: tables.overwrite(name, _OF_MESSAGES[name](events)), _OF_MESSAGES)


def _add_to_silver(tables: Tables, decoded: DataFrame) -> None:
    """Merges new events, then recomputes the rows of their messages from all events of those messages."""
    tables.merge("silver.events", decoded)
    ids = decoded.where("message_id is not null").select("message_id").distinct()
    changed = tables.once(tables.read("silver.events").join(ids, "message_id", "left_semi"))
    try:
        _at_once(lambda name: tables.merge(name, _OF_MESSAGES[name](changed)), _OF_MESSAGES)
    finally:
        changed.unpersist()


def _refresh_gold(tables: Tables, facts: StoreFacts) -> None:
    """Overwrites gold from silver. Each table is replaced in one commit."""
    events, messages, receipts = map(tables.read, ("silver.events", "silver.messages", "silver.receipts"))
    rules = {name: tables.once(rows) for name, rows in gold.router_rules(events, messages).items()}
    deliveries, duplicates = tables.once(gold.deliveries(messages, receipts)), gold.duplicates(events)
    limits = gold.frame(facts.limits, messages)
    attested = None if facts.attested is None else gold.frame(facts.attested, messages)
    found = gold.divergences(messages, receipts, duplicates, rules, limits=limits, policy=facts.policy)
    made = {
        "gold.duplicates": duplicates,
        "gold.lanes": gold.lanes(messages, deliveries),
        "gold.latencies": gold.latencies(messages, deliveries, attested),
        "gold.redundancy": gold.redundancy(deliveries),
        "gold.divergences": found.unionByName(gold.frame(facts.divergences, messages)),
    }
    if facts.paid is not None:  # without a relayer's store, the table of costs stays as it is
        made = {"gold.costs": gold.costs(messages, receipts, gold.frame(facts.paid, messages)), **made}
    named = {name: gold.with_names(rows, facts.chain_names) for name, rows in made.items()}
    _at_once(lambda name: tables.overwrite(name, named[name]), named)
    for frame in (deliveries, *rules.values()):
        frame.unpersist()


def _at_once(make: Callable[[str], None], names: Iterable[str]) -> None:
    """Calls `make` for each table. Spark plans each query in a single thread, so several are planned in parallel."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(make, names))
