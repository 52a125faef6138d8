"""Which messages are stalled, decided in Spark's state: for a cluster, whose executors keep the messages that wait.

A stream's rows pass a stateful operator. Messages are spread over buckets, each of which keeps the events of its messages,
a timer for each, and the clocks of all chains, which are rows of the stream themselves (`indexer.jobs.stateful_task`). The
state is made new at each start, of the events in the store.
"""

from __future__ import annotations

import pickle
import tempfile
import warnings
import zlib
from collections import defaultdict
from importlib.util import find_spec
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from sqlalchemy import Engine, select, text

from indexer.jobs.stateful_task import ENDED, INPUT, Clock, Overdue, Shared, slot_of
from indexer.model import schemas
from indexer.model.errors import IndexerError, SettingsError
from indexer.model.settings import IndexSettings, StallPolicy
from indexer.model.spark_types import spark_schema
from indexer.spark.session import is_here
from indexer.store import tables
from indexer.transforms.queries import ABOUT_ROUTERS

STATE_STORE: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # PySpark hands a bucket its rows in pieces of this many. In pieces, the events of a range could come before the row that
    # says from which block on earlier ones no longer count.
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(2**31 - 1),
}
"""Spark's settings for a stateful stream."""

_MANY: Final = 1 << 16
"""Rows: more than any cluster has cores."""

_PACKAGES: Final = {"protobuf": "google.protobuf", "pandas": "pandas"}
"""What PySpark's stateful operators need beside PySpark, and the module of each."""

# Messages that may still change: those that have not ended, and those to which something happened above the final blocks.
# The store has all events of them.
_KNOWN: Final = select(tables.events).where(
    text(
        f"""
        events.message_id in (select message_id from messages where status not in {ENDED})
        or events.message_id in (
          select e.message_id from events e join chains c on c.chain_id = e.chain_id
          where e.block_number > c.final_block and e.message_id is not null
        )
        or {ABOUT_ROUTERS}
        """  # noqa: S608  our own texts
    )
)
_KNOWN_SCHEMA: Final = pa.schema([("bucket", pa.int32()), ("slot", pa.int32()), ("kept", pa.binary())])


def check_stateful(settings: IndexSettings, master: str | None) -> None:
    """Looks whether a state can be kept, before Spark takes its time to start.

    Args:
        settings: of the run.
        master: of a Spark cluster; see `spark_session`.

    Raises:
        SettingsError: these settings do not go together.
        IndexerError: a package is missing, or the state's folder can't be written.
    """
    missing = [package for package, module in _PACKAGES.items() if not _is_installed(module)]
    if missing:
        raise IndexerError(
            f"--stateful needs {' and '.join(missing)}, which an installation leaves out: pip install 'waybill[stateful]'"
        )
    if settings.stall.learn:
        raise SettingsError(
            "--stateful does not go with deadlines that are learned: a task does not see the lanes' latencies. Leave out "
            "--learn-deadlines and the setting index.learn_deadlines"
        )
    folder = settings.folder.state
    if not is_here(master) and folder == settings.folder.checkpoint:
        raise SettingsError(
            "--stateful on a cluster keeps its state in a folder that driver and executors reach by the same name: set "
            f"index_lake to such a folder; it is {settings.folder.lake} now"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise IndexerError(
            f"the state can't be written to {folder}: {error.strerror}. Make it writable, or run without --stateful"
        ) from error


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False


def with_overdue(rows: DataFrame, engine: Engine, policy: StallPolicy) -> DataFrame:
    """A stream's rows, and with them those of `schemas.OVERDUE`.

    Args:
        rows: `schemas.SOURCE`, from where the store's positions are.
        engine: the store's, for reading what is known now.
        policy: what stalled means.
    """
    spark = rows.sparkSession
    for name, value in STATE_STORE.items():
        spark.conf.set(name, value)
    buckets = _buckets(spark)
    spark.conf.set("spark.sql.shuffle.partitions", buckets)
    # An Arrow table: of a list, Spark would make a job that starts a Python process more.
    known = spark.createDataFrame(known_state(engine, buckets)).groupBy("bucket")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        found = (
            in_buckets(rows, buckets)
            .groupBy("bucket")
            .transformWithState(Overdue(policy), spark_schema(schemas.OVERDUE), "append", "none", initialState=known)
        )
    return rows.unionByName(found, allowMissingColumns=True)


def _buckets(spark: SparkSession) -> int:
    """One for each core of a cluster. On one machine one: a second worker only takes time to start and memory."""
    if str(spark.conf.get("spark.master")).startswith("local"):
        return 1
    # Spark splits a range by its cores; nothing else that a DataFrame tells says how many there are.
    return spark.range(_MANY).select(sql.spark_partition_id()).distinct().count()


def known_state(engine: Engine, buckets: int) -> pa.Table:
    """What the state begins with: by bucket and slot the messages that may still change, and in no slot what all share.

    Args:
        engine: the store's.
        buckets: over which messages are spread.
    """
    with engine.connect() as connection:
        slots = defaultdict[tuple[int, int], dict[bytes, list[dict[str, Any]]]](dict)
        shared = Shared(
            clocks={
                row.chain_id: Clock(row.block, row.block_time, row.final_block)
                for row in connection.execute(select(tables.chains))
            }
        )
        for row in connection.execute(_KNOWN).mappings():
            event, message_id = {name: row[name] for name in schemas.EVENTS.names}, row["message_id"]
            if message_id is None:
                shared.about_routers.append(event)
            else:
                slot = slots[bucket_of(message_id, buckets), slot_of(message_id)]
                slot.setdefault(message_id, []).append(event)
    kept = [{"bucket": bucket, "slot": slot, "kept": pickle.dumps(slots[bucket, slot])} for bucket, slot in slots]
    kept += [{"bucket": bucket, "slot": None, "kept": pickle.dumps(shared)} for bucket in range(buckets)]
    return pa.Table.from_pylist(kept, _KNOWN_SCHEMA)


def bucket_of(message_id: bytes, buckets: int) -> int:
    """The bucket that has a message; see `in_buckets`."""
    return zlib.crc32(message_id) % buckets


def in_buckets(rows: DataFrame, buckets: int) -> DataFrame:
    """A stream's rows as the state takes them: a message's in its bucket, those about chains and routers in each."""
    of_message = sql.array(sql.pmod(sql.crc32("message_id"), sql.lit(buckets)).cast("int"))
    every = sql.sequence(sql.lit(0), sql.lit(buckets - 1))
    return (
        rows.where(f"halted is null and (message_id is not null or range_first is not null or ({ABOUT_ROUTERS}))")
        .withColumn("now", sql.unix_timestamp())
        .select(
            sql.explode(sql.when(sql.col("message_id").isNotNull(), of_message).otherwise(every)).alias("bucket"),
            *INPUT,
        )
    )
