"""Which messages are stalled, decided in Spark's state: for a cluster, whose executors keep the messages that wait.

A stream's rows pass a stateful operator. Messages are spread over buckets, each of which keeps the events of its messages,
a timer for each, and the clocks of all chains, which are rows of the stream themselves. A timer is a time by the
destination's clock: when a block has passed it, the message is judged, with the SQL by which the store would. The state is
made new at each start, of the events in lake and store.
"""

from __future__ import annotations

import pickle
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues
from sqlalchemy import Engine, text

from indexer.lake.history import History
from indexer.lake.lake import Lake
from indexer.model import schemas
from indexer.model.errors import IndexerError, SettingsError
from indexer.model.settings import IndexSettings, StallPolicy
from indexer.model.spark_types import spark_schema
from indexer.spark.session import is_here
from indexer.spark.tables import events_of
from indexer.store.judge import Judge, Verdict
from indexer.transforms.queries import RULES

STATE_STORE: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Spark's settings for a stateful stream."""

_PACKAGES: Final = {"protobuf": "google.protobuf", "pandas": "pandas"}
"""What PySpark's stateful operators need beside PySpark, and the module of each."""

_ENDED: Final = ("EXECUTED", "EXPIRED", "CANCELLED")
_LOOK_AGAIN: Final = (
    60  # seconds by the destination's clock until an ended message is looked at again: is its end final?
)
_INPUT: Final = (*schemas.EVENTS.names, "range_first", "final_block", "now")

# Messages that may still change: those that have not ended, and those to which something happened above the final blocks.
_KEPT: Final = text(
    f"""
    select message_id from messages where status not in {_ENDED}
    union
    select e.message_id from events e join chains c on c.chain_id = e.chain_id
    where e.block_number > c.final_block and e.message_id is not null
    """  # noqa: S608  our own texts
)
_CLOCKS: Final = text("select chain_id, block, block_time, final_block from chains")


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


def with_overdue(rows: DataFrame, engine: Engine, lake: Lake, policy: StallPolicy) -> DataFrame:
    """A stream's rows, and with them those of `schemas.OVERDUE`.

    Args:
        rows: `schemas.SOURCE`, from where the store's positions are.
        engine: the store's, for reading what is known now.
        lake: the lake.
        policy: what stalled means.
    """
    spark = rows.sparkSession
    for name, value in STATE_STORE.items():
        spark.conf.set(name, value)
    known = in_buckets(known_rows(spark, engine, lake)).groupBy("bucket")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        found = (
            in_buckets(rows)
            .groupBy("bucket")
            .transformWithState(Overdue(policy), spark_schema(schemas.OVERDUE), "append", "none", initialState=known)
        )
    return rows.unionByName(found, allowMissingColumns=True)


def known_rows(spark: SparkSession, engine: Engine, lake: Lake) -> DataFrame:
    """What the state begins with: events that count of messages that may still change, and about routers, and the clocks."""
    with engine.connect() as connection:
        kept = [(one,) for one in connection.scalars(_KEPT)]
        clocks = [dict(row) for row in connection.execute(_CLOCKS).mappings()]
    events = events_of(spark, History(engine, lake).bronze())
    of_messages = events.join(spark.createDataFrame(kept, "message_id binary"), "message_id", "left_semi")
    marks = [(one["chain_id"], one["block"], one["block_time"], one["block"] + 1, one["final_block"]) for one in clocks]
    columns = "chain_id bigint, block_number bigint, block_time bigint, range_first bigint, final_block bigint"
    return (
        of_messages.unionByName(events.where(RULES))
        .unionByName(spark.createDataFrame(marks, columns), allowMissingColumns=True)
        .withColumn("halted", sql.lit(None).cast("string"))
    )


def in_buckets(rows: DataFrame) -> DataFrame:
    """Rows as the state takes them: a message's in its bucket, those about chains and routers in each."""
    buckets = int(str(rows.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    of_message = sql.array(sql.pmod(sql.hash("message_id"), sql.lit(buckets)))
    every = sql.sequence(sql.lit(0), sql.lit(buckets - 1))
    return (
        rows.where("halted is null and (message_id is not null or range_first is not null or " + f"({RULES}))")
        .withColumn("now", sql.unix_timestamp())
        .select(
            sql.explode(sql.when(sql.col("message_id").isNotNull(), of_message).otherwise(every)).alias("bucket"),
            *_INPUT,
        )
    )


@dataclass(slots=True)
class _Clock:
    """How far a chain was read."""

    block: int
    time: int
    final: int


@dataclass(slots=True)
class _Shared:
    """What a bucket knows of chains and routers; not `judged`: it was loaded, and no message was looked at yet."""

    clocks: dict[int, _Clock] = field(default_factory=dict[int, _Clock])
    about_routers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    judged: bool = False


class Overdue(StatefulProcessor):
    """The state of one bucket. Gives `schemas.OVERDUE`, again with each batch as long as a message is overdue."""

    def __init__(self, policy: StallPolicy) -> None:
        """Judges by `policy`."""
        self._policy = policy

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declares what is kept."""
        self._events = handle.getMapState("events", "message_id binary", "rows binary")
        self._timers = handle.getMapState("timers", "message_id binary", "chain_id bigint, due bigint")
        self._kept = handle.getValueState("shared", "shared binary")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: TimerValues) -> None:  # noqa: ARG002, N802, N803  Spark's interface
        """Takes one row of `known_rows`."""
        row, shared = _values(initialState), self._shared()
        if row["range_first"] is not None:
            shared.clocks[row["chain_id"]] = _clock(row)
        elif row["message_id"] is None:
            shared.about_routers.append(_event(row))
        else:
            self._save(row["message_id"], [*self._of(row["message_id"]), _event(row)])
            return
        self._kept.update((pickle.dumps(shared),))

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:  # noqa: ARG002, N802, N803  Spark's interface
        """Takes a batch, and judges what it touched and what is due."""
        batch, shared = [_values(row) for row in rows], self._shared()
        ranges = [row for row in batch if row["range_first"] is not None]
        events = [_event(row) for row in batch if row["range_first"] is None]
        about_routers = [event for event in events if event["message_id"] is None]
        touched = {event["message_id"]: list[dict[str, Any]]() for event in events if event["message_id"] is not None}
        for event in events:
            if event["message_id"] is not None:
                touched[event["message_id"]].append(event)

        all_again = self._take_back(ranges, shared) or bool(about_routers) or not shared.judged
        shared.about_routers += about_routers
        shared.clocks |= {row["chain_id"]: _clock(row) for row in ranges}
        shared.judged = True
        self._kept.update((pickle.dumps(shared),))
        for message_id, new in touched.items():
            self._save(message_id, [*self._of(message_id), *new])

        chosen = [one for (one,), _ in self._events.iterator()] if all_again else [*touched, *self._due(shared.clocks)]
        yield from self._judge({bytes(one) for one in chosen}, shared, int(batch[0]["now"]))

    def _take_back(self, ranges: Sequence[Mapping[str, Any]], shared: _Shared) -> bool:
        """Forgets what ranges replace; whether they replace anything, and so any message may have another deadline."""
        first = {
            row["chain_id"]: row["range_first"]
            for row in ranges
            if row["chain_id"] in shared.clocks and row["range_first"] <= shared.clocks[row["chain_id"]].block
        }
        if not first:
            return False

        def stays(event: Mapping[str, Any]) -> bool:
            return bool(event["block_number"] < first.get(event["chain_id"], event["block_number"] + 1))

        shared.about_routers = [event for event in shared.about_routers if stays(event)]
        for (message_id,), (rows,) in list(self._events.iterator()):
            kept = _loaded(rows)
            left = [event for event in kept if stays(event)]
            if len(left) < len(kept):
                self._save(bytes(message_id), left)
        return True

    def _due(self, clocks: Mapping[int, _Clock]) -> list[bytes]:
        return [
            bytes(message_id)
            for (message_id,), (chain, due) in self._timers.iterator()
            if chain in clocks and clocks[chain].time >= due
        ]

    def _judge(self, chosen: set[bytes], shared: _Shared, now: int) -> Iterator[Row]:
        if not chosen:
            return
        events = {message_id: self._of(message_id) for message_id in sorted(chosen)}
        clocks = {chain: clock.time for chain, clock in shared.clocks.items()}
        rows = [event for kept in events.values() for event in kept] + shared.about_routers
        for verdict in _judge().verdicts(self._policy, rows, clocks, now):
            self._keep(verdict, events[verdict.message_id], shared.clocks)
            if verdict.is_overdue:
                assert verdict.attempts is not None
                yield Row(
                    message_id=verdict.message_id,
                    source_chain=verdict.source_chain,
                    destination_chain=verdict.destination_chain,
                    attempt=verdict.attempts + 1,
                    overdue_since=verdict.deadline,
                )

    def _keep(self, verdict: Verdict, events: Sequence[Mapping[str, Any]], clocks: Mapping[int, _Clock]) -> None:
        """Sets a message's timer, or forgets the message if it has ended for good."""
        key, chain, due = (verdict.message_id,), verdict.destination_chain, verdict.deadline
        if verdict.status in _ENDED:
            if all(event["block_number"] <= clocks[event["chain_id"]].final for event in events):
                self._events.removeKey(key)
                self._timers.removeKey(key)
                return
            due = clocks[chain].time + _LOOK_AGAIN if chain is not None and chain in clocks else None
        elif not verdict.retriable or verdict.effective_status == "EXPIRED":
            due = None
        if chain is None or due is None:
            self._timers.removeKey(key)
        else:
            self._timers.updateValue(key, (chain, due))

    def _shared(self) -> _Shared:
        kept = self._kept.get()
        return _loaded(kept[0]) if kept is not None else _Shared()

    def _of(self, message_id: bytes) -> list[dict[str, Any]]:
        kept = self._events.getValue((message_id,))
        return _loaded(kept[0]) if kept is not None else []

    def _save(self, message_id: bytes, events: list[dict[str, Any]]) -> None:
        if events:
            self._events.updateValue((message_id,), (pickle.dumps(events),))
        else:
            self._events.removeKey((message_id,))
            self._timers.removeKey((message_id,))


@cache
def _judge() -> Judge:
    """One for each of Spark's Python processes, which work on many batches."""
    return Judge()


def _loaded(kept: bytes) -> Any:
    return pickle.loads(kept)  # noqa: S301  what this run's own tasks have put into the state


def _values(row: Row) -> dict[str, Any]:
    return {name: bytes(one) if isinstance(one, bytearray) else one for name, one in row.asDict().items()}


def _event(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in schemas.EVENTS.names}


def _clock(row: Mapping[str, Any]) -> _Clock:
    return _Clock(block=row["block_number"], time=row["block_time"], final=row["final_block"])
