"""The lake's tables, refreshed by Spark and compared with plain Python over the chains' own logs."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bridge.protocol.gmps import Gmp
from indexer.jobs.report import read_report
from indexer.jobs.store_facts import read_facts
from indexer.model import schemas
from indexer.model.dictionary import TABLES
from indexer.pipeline import refresh as pipeline
from indexer.pipeline.bronze import FinalBlocks, Lake
from indexer.pipeline.catalog import register
from indexer.pipeline.reading import as_of, rows_of
from indexer.pipeline.refresh import StoreFacts, refresh, unchanged
from indexer.pipeline.tables import Tables
from indexer.pipeline.user_queries import answer
from indexer.spark.session import batch_session
from indexer.store.reader import IndexReader
from tests.spark.history import SeededHistory, seeded_history
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import contents

Row = Mapping[str, Any]

BY_CLOCK = {
    *("SILENT", "RECEIPT_WITHOUT_CREATION", "RECEIPT_OVER_UNUSED_GMP", "END_WITHOUT_CREATION", "NEVER_SENT"),
    *("CANCELLED_WITHOUT_REQUEST", "OUTCOME_DIFFERS"),
}
"""Kinds that depend on how far chains were read: gold knows of blocks with logs alone."""


@pytest.fixture(scope="module")
def batch(spark: SparkSession) -> Iterator[SparkSession]:  # noqa: ARG001  it is the one that is active
    with batch_session() as session:
        yield session


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def tables_of(lake: Lake) -> dict[str, list[str]]:
    return {name: sorted_rows(rows_of(lake.place, name)) for name in TABLES}


def paid_for(made: SeededHistory) -> pa.Table:
    ids = [row["message_id"] for row in messages_of(made)]
    rows = [{"message_id": one, "gmp": gmp, "gwei": 7 * gmp + one[0]} for one in ids for gmp in (1, 2, 3)]
    return pa.Table.from_pylist(rows, schema=schemas.PAID)


def messages_of(made: SeededHistory) -> list[Row]:
    return [dict(zip(schemas.MESSAGES.names, row, strict=True)) for row in contents(made.store)["messages"]]


def nearest_rank(values: Sequence[int], share: int) -> int | None:
    """The least value that at least `share` percent of the values are not above."""
    ordered = sorted(values)
    return ordered[math.ceil(len(ordered) * share / 100) - 1] if ordered else None


class Oracle:
    """What the tables must say, from logs that were decoded one by one, in plain Python."""

    def __init__(self, events: Sequence[Row]) -> None:
        self.events = [one for one in events if one["error"] is None]
        self.of_message: dict[bytes, list[Row]] = defaultdict(list)
        for one in self.events:
            if one["message_id"] is not None:
                self.of_message[one["message_id"]].append(one)
        self.created = {
            message_id: creation
            for message_id in self.of_message
            if (creation := self.first(message_id, "MessageRouted") or self.first(message_id, "MessageUnfunded"))
        }

    def first(self, message_id: bytes, event: str) -> Row | None:
        found = [one for one in self.of_message[message_id] if one["event"] == event]
        return min(found, key=_place, default=None)

    def count(self, message_id: bytes, *events: str) -> int:
        return sum(one["event"] in events for one in self.of_message[message_id])

    def first_receipts(self, message_id: bytes) -> dict[int, Row]:
        """By GMP, its first receipt, in the order of their coming."""
        found: dict[int, Row] = {}
        for one in sorted(self.of_message[message_id], key=_place):
            if one["event"] == "MessageReceived":
                found.setdefault(one["gmp"], one)
        return dict(sorted(found.items(), key=lambda item: (item[1]["block_time"], item[0])))

    def is_late(self, message_id: bytes, receipt: Row) -> bool:
        execution = self.first(message_id, "MessageExecuted")
        return execution is not None and _place(receipt) > _place(execution)

    def redundancy(self) -> dict[int, tuple[int, int, float | None, int]]:
        """By GMP: receipts, those that came first, the median lead, and late ones."""
        receipts, first, late = defaultdict[int, int](int), defaultdict[int, int](int), defaultdict[int, int](int)
        leads = defaultdict[int, list[int]](list)
        for message_id in self.created:
            found = self.first_receipts(message_id)
            times = [one["block_time"] for one in found.values()]
            for position, (gmp, receipt) in enumerate(found.items()):
                receipts[gmp] += 1
                late[gmp] += self.is_late(message_id, receipt)
                if position == 0:
                    first[gmp] += 1
                    leads[gmp] += [later - times[0] for later in times[1:2]]
        return {
            gmp: (number, first[gmp], statistics.median(leads[gmp]) if leads[gmp] else None, late[gmp])
            for gmp, number in receipts.items()
        }

    def latencies(self) -> dict[tuple[int, int, str], tuple[int, int | None, int | None]]:
        """By lane and stage: messages, and the seconds' median and 95th percentile."""
        found = defaultdict[tuple[int, int, str], list[int]](list)
        for message_id, creation in self.created.items():
            lane = creation["source_chain"], creation["destination_chain"]
            receipts = list(self.first_receipts(message_id).values())
            if receipts:
                found[*lane, "delivered"].append(receipts[0]["block_time"] - creation["block_time"])
            if (execution := self.first(message_id, "MessageExecuted")) is not None:
                found[*lane, "executed"].append(execution["block_time"] - creation["block_time"])
        return {key: (len(values), nearest_rank(values, 50), nearest_rank(values, 95)) for key, values in found.items()}

    def totals(self) -> dict[str, int]:
        """Counts over all messages that were created, by the names that the report gives them."""
        executions = {message_id: self.count(message_id, "MessageExecuted") for message_id in self.created}
        return {
            "messages": len(self.created),
            "executed": sum(number > 0 for number in executions.values()),
            "executed_twice": sum(number > 1 for number in executions.values()),
            "duplicates_absorbed": sum(self.count(message_id, "DuplicateAbsorbed") for message_id in self.created),
            "late_receipts": sum(
                self.is_late(message_id, one)
                for message_id in self.created
                for one in self.first_receipts(message_id).values()
            ),
        }

    def received(self) -> dict[int, int]:
        """By GMP, how many messages it delivered, created or not."""
        return Counter(gmp for message_id in self.of_message for gmp in self.first_receipts(message_id))

    def lanes(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """By lane: messages, executed ones, receipts, late ones, failures and duplicates."""
        found = defaultdict[tuple[int, int], list[int]](lambda: [0] * 6)
        for message_id, creation in self.created.items():
            receipts = self.first_receipts(message_id)
            values = (
                1,
                int(self.count(message_id, "MessageExecuted") > 0),
                len(receipts),
                sum(self.is_late(message_id, one) for one in receipts.values()),
                self.count(message_id, "ExecutionFailed", "ExecutionDeferred"),
                self.count(message_id, "DuplicateAbsorbed"),
            )
            lane = found[creation["source_chain"], creation["destination_chain"]]
            lane[:] = [old + new for old, new in zip(lane, values, strict=True)]
        return {lane: tuple(values) for lane, values in found.items()}


def _place(event: Row) -> tuple[int, int]:
    return event["block_number"], event["log_index"]


def expect_what_the_logs_say(made: SeededHistory, paid: pa.Table) -> None:
    """Silver equals the live store's rows, the events of the chains, and gold what plain Python makes of them."""
    place, oracle = made.lake.place, Oracle(made.events())
    assert sorted_rows(rows_of(place, "silver.events")) == sorted(map(repr, made.events()))
    stored = contents(made.store)
    for name in ("messages", "receipts"):
        rows = sorted(tuple(row.values()) for row in rows_of(place, f"silver.{name}").to_pylist())
        assert rows == stored[name], name
    attempts = rows_of(place, "silver.attempts").to_pylist()
    refused = {(one["message_id"], one["attempt"]) for one in oracle.events if one["event"] == "DispatchFailed"}
    assert {(row["message_id"], row["attempt"]) for row in attempts if row["refused"]} == refused
    duplicates = [one for one in oracle.events if one["event"] == "DuplicateAbsorbed"]
    assert len(rows_of(place, "gold.duplicates")) == len(duplicates)
    redundancy = {
        row["gmp"]: (row["receipts"], row["came_first"], row["lead_p50"], row["late_receipts"])
        for row in rows_of(place, "gold.redundancy").to_pylist()
    }
    assert redundancy == oracle.redundancy()
    latencies = {
        (row["source_chain"], row["destination_chain"], row["stage"]): (row["messages"], row["p50"], row["p95"])
        for row in rows_of(place, "gold.latencies").to_pylist()
        if row["stage"] in ("delivered", "executed")
    }
    assert latencies == oracle.latencies()
    names = ("messages", "executed", "receipts", "late_receipts", "failures", "duplicates")
    lanes: dict[tuple[int, int], tuple[int, ...]] = {}
    for row in rows_of(place, "gold.lanes").to_pylist():
        lane, values = (row["source_chain"], row["destination_chain"]), tuple(row[name] for name in names)
        lanes[lane] = tuple(old + new for old, new in zip(lanes.get(lane, (0,) * len(names)), values, strict=True))
    assert lanes == oracle.lanes()
    report = read_report(place)
    assert {name: report.totals[name] for name in oracle.totals()} == oracle.totals()
    assert {row["gmp"]: row["received"] for row in report.gmps if row["received"]} == oracle.received()
    assert sum(row["duplicates"] for row in report.duplicates) == sum(
        one["message_id"] in oracle.of_message for one in duplicates
    )
    costs = sum(row["gwei"] for row in rows_of(place, "gold.costs").to_pylist())
    assert costs == sum(paid["gwei"].to_pylist())
    with IndexReader(str(made.store.engine.url)) as reader:
        live = {(one.kind, one.message_id) for one in reader.divergences() if one.kind not in BY_CLOCK}
    gold = {(row["kind"], row["message_id"]) for row in rows_of(place, "gold.divergences").to_pylist()}
    assert {one for one in gold if one[0] not in BY_CLOCK} == live


def history_with_increments(batch: SparkSession, seed: int, folder: Path, increments: int) -> SeededHistory:
    """A history during which the tables were refreshed `increments` times."""
    left = increments

    def refreshed(made: SeededHistory, _: Random) -> None:
        nonlocal left
        if left:
            left -= 1
            refresh(batch, made.lake, StoreFacts())

    return seeded_history(seed, folder, refreshed)


def killed_at(step: str, call: int, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """A refresh that ends before that call of a step, as if the process had been killed."""
    owner = pipeline if hasattr(pipeline, step) else Tables
    calls, original = count(1), getattr(owner, step)

    def cut(*arguments: Any) -> None:
        if next(calls) == call:
            raise RuntimeError("killed")
        original(*arguments)

    def refreshed(*arguments: Any) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(owner, step, cut)
            with pytest.raises(Exception, match="killed"):
                refresh(*arguments)

    return refreshed


@pytest.fixture
def by_increments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every history counts as long: its refreshes merge what is new, and Spark reads and writes the tables."""
    monkeypatch.setattr(pipeline, "LONG_HISTORY", 0)


@pytest.mark.usefixtures("by_increments")
def test_tables_equal_plain_python_and_open_everywhere(
    batch: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a refresh in between, one that was killed between silver and gold, and the one after that."""
    made = history_with_increments(batch, 0, tmp_path, 1)
    paid = paid_for(made)
    facts = read_facts(made.store.engine, paid=paid, chain_names={ALPHA: "alpha"})
    killed_at("_refresh_gold", 1, monkeypatch)(batch, made.lake, facts)
    stated = refresh(batch, made.lake, facts)
    assert as_of(made.lake.place) == stated
    assert stated.blocks == {chain.chain_id: chain.head for chain in made.chains}
    expect_what_the_logs_say(made, paid)
    expect_every_reader_to_open(batch, made.lake)
    expect_names_beside_numbers(made.lake)
    expect_the_page_for_analysts_to_run(made.lake, tmp_path, monkeypatch)
    made.store.close()


def expect_every_reader_to_open(batch: SparkSession, lake: Lake) -> None:
    """Each table has its rows in Spark, pandas, polars and DuckDB, and its comments."""
    register(batch, lake.place)
    for name in TABLES:
        folder = lake.place.table(name).root
        rows = len(rows_of(lake.place, name))
        assert rows
        assert batch.table(name).count() == rows
        assert len(DeltaTable(folder).to_pandas()) == rows
        assert pl.read_delta(folder).height == rows
        files = DeltaTable(folder).file_uris()
        assert duckdb.execute("select count(*) from read_parquet(?)", [files]).fetchall() == [(rows,)]
    assert all(field.metadata["comment"] for field in batch.table("gold.lanes").schema)


def expect_the_page_for_analysts_to_run(lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python opens the tables of the network in this folder, and each of its questions has an answer."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "analysts.md").read_text()
    (folder / ".waybill" / "devnet").mkdir(parents=True)
    (folder / ".waybill" / "devnet" / "lake").symlink_to(lake.place.root)
    monkeypatch.chdir(folder)
    scripts = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(scripts) == 4
    for script in scripts:
        exec(script, {})  # noqa: S102  what a reader pastes
    questions = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    assert len(questions) == 5
    for question in questions:
        rows, _ = answer(lake.place, question, 100, 60)
        assert len(rows), question


def expect_names_beside_numbers(lake: Lake) -> None:
    """Chains have the names of the deployments file; one that is not in it has its number."""
    named = {ALPHA: "alpha", BETA: str(BETA)}
    for row in rows_of(lake.place, "gold.costs").to_pylist():
        assert (row["source_name"], row["destination_name"]) == (
            named[row["source_chain"]],
            named[row["destination_chain"]],
        )
        assert row["gmp_name"] == Gmp(row["gmp"]).label


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.usefixtures("by_increments")
def test_any_increments_equal_a_full_refresh(batch: SparkSession, seed: int, tmp_path: Path) -> None:
    made = history_with_increments(batch, seed, tmp_path, 4)
    paid = paid_for(made)
    facts = read_facts(made.store.engine, paid=paid)
    refresh(batch, made.lake, facts)
    increments = tables_of(made.lake)
    expect_what_the_logs_say(made, paid)
    refresh(batch, made.lake, facts, full=True)
    assert tables_of(made.lake) == increments
    made.store.close()


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("step", "call"), [("overwrite", 2), ("overwrite", 6), ("merge", 2)])
@pytest.mark.usefixtures("by_increments")
def test_refresh_killed_between_steps_is_finished_by_the_next(
    batch: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, call: int
) -> None:
    made = history_with_increments(batch, 2, tmp_path, 1 if step == "merge" else 0)
    paid = paid_for(made)
    facts = read_facts(made.store.engine, paid=paid)
    killed_at(step, call, monkeypatch)(batch, made.lake, facts)
    refresh(batch, made.lake, facts)
    expect_what_the_logs_say(made, paid)
    made.store.close()


def test_short_history_equals_plain_python_and_is_not_repeated(batch: SparkSession, tmp_path: Path) -> None:
    """Until there are new logs or new facts, another refresh would compute the same rows."""
    made = history_with_increments(batch, 4, tmp_path, 1)
    paid = paid_for(made)
    assert unchanged(made.lake, read_facts(made.store.engine, paid=paid)) is None
    stated = refresh(batch, made.lake, read_facts(made.store.engine, paid=paid), clock=lambda: 86_400)
    expect_what_the_logs_say(made, paid)
    facts = read_facts(made.store.engine, paid=paid)
    assert unchanged(made.lake, facts, clock=lambda: 86_500) == replace(stated, refreshed_at=86_500)
    assert unchanged(made.lake, replace(facts, paid=paid.slice(1)), clock=lambda: 86_500) is None
    made.store.close()


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.usefixtures("by_increments")
def test_a_repair_of_bronze_makes_all_tables_again(batch: SparkSession, tmp_path: Path) -> None:
    made = history_with_increments(batch, 3, tmp_path, 0)
    refresh(batch, made.lake, StoreFacts())
    alpha, _ = made.chains
    back = FinalBlocks(6, 5, alpha.blocks[5].hash)
    made.lake.take_back(ALPHA, back, "the chain took them back")
    refresh(batch, made.lake, StoreFacts())
    kept = [one for one in made.events() if one["chain_id"] == BETA or one["block_number"] <= 5]
    assert sorted_rows(rows_of(made.lake.place, "silver.events")) == sorted(map(repr, kept))
    made.store.close()
