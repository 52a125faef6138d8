"""The tables that `waybill index tables` writes beside the events: what they say, and that anybody can read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from indexer.jobs.tables import write_tables
from indexer.jobs.verify import LaneCheck, Verdict, keep
from indexer.lake.lake import Lake
from indexer.lake.promotion import promote
from indexer.model import schemas
from indexer.model.tables import GOLD, SCHEMAS, SILVER
from indexer.store.analytics import percentile
from indexer.store.reader import IndexReader
from indexer.store.store import Store
from indexer.transforms.lanes import Direction, LaneTotal
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import (
    START,
    Event,
    absorbed,
    apply,
    contents,
    executed,
    new_world,
    received,
    retried,
    routed,
    sent_message,
)

TABLES = (*SILVER, *GOLD)
SENT = [sent_message(nonce, quorum=1) for nonce in range(1, 31)]


def dispatch_failed(number: int, gmp: int, attempt: int) -> Event:
    return "DispatchFailed", {"message_id": SENT[number].id, "gmp": gmp, "attempt": attempt, "reason": b"no"}


CHECK = LaneCheck(
    chain_id=BETA,
    direction=Direction.EXECUTED,
    other_chain=ALPHA,
    block=3,
    block_hash=bytes(32),
    indexed=LaneTotal(1, 1),
    router=LaneTotal(2, 2),
    verdict=Verdict.DIFFERENT,
    reason="logs are missing",
)


@dataclass
class World:
    folder: Path
    store: Store
    written: dict[str, int]  # rows by table

    def read(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = DeltaTable(f"{self.folder}/lake/{name}").to_pyarrow_table().to_pylist()
        return rows


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Thirty messages on three days: the first fails to go over GMP 3 and is retried, the last is executed twice."""
    folder = tmp_path_factory.mktemp("tables")
    lake, store = Lake(folder / "lake"), Store(f"sqlite:///{folder / 'index.db'}")
    alpha, beta = new_world()
    for number, sent in enumerate(SENT):
        sent_at = START + number * 7_200
        failed = [dispatch_failed(number, 3, 0)] if number == 0 else []
        alpha.mine(routed(sent, gmps=0b011), *failed, time=sent_at)
        if number == 0:
            alpha.mine(retried(sent, 1, gmps=0b100), dispatch_failed(0, 1, 1), time=sent_at + 60)
        repeated = [absorbed(sent, 1)] * (number % 3)
        beta.mine(received(sent, 1), *repeated, executed(sent), time=sent_at + 5 + number)
        beta.mine(received(sent, 2), *[executed(sent)] * (number == len(SENT) - 1), time=sent_at + 100)
    for chain in (alpha, beta):
        apply(store, chain, final=chain.head)
    promote(store, lake, {ALPHA: 0, BETA: 0})
    keep(store.engine, [CHECK], 0.0)
    paid = [{"message_id": sent.id, "gmp": 1, "gwei": 100 + number} for number, sent in enumerate(SENT)]
    paid += [{"message_id": sent.id, "gmp": 2, "gwei": 7} for sent in SENT[:10]]
    known = pa.Table.from_pylist(paid, schema=schemas.PAID)
    yield World(folder, store, {table.name: table.rows for table in write_tables(store.engine, lake, paid=known)})
    store.close()


def test_messages_receipts_attempts_and_duplicates_are_those_of_the_store(world: World) -> None:
    stored = contents(world.store)
    for name in ("messages", "receipts"):
        rows = sorted(tuple(row.values()) for row in world.read(name))
        assert rows == stored[name]
    assert world.written["attempts"] == len(SENT) + 1
    of_first = [row for row in world.read("attempts") if row["message_id"] == SENT[0].id]
    assert [
        (row["attempt"], row["dispatched"], row["refused"], row["block_time"])
        for row in sorted(of_first, key=lambda row: row["attempt"])
    ] == [(0, 0b011, 0b100, START), (1, 0b100, 0b001, START + 60)]
    assert {(row["source_chain"], row["destination_chain"]) for row in world.read("attempts")} == {(ALPHA, BETA)}
    with IndexReader(str(world.store.engine.url)) as reader:
        absorbed_ = [(one.message_id, one.gmp, one.block_number) for one in reader.duplicates()]
    assert sorted(absorbed_) == sorted(
        (row["message_id"], row["gmp"], row["block_number"]) for row in world.read("duplicates")
    )
    assert world.written["duplicates"] == sum(number % 3 for number in range(len(SENT)))


def test_lanes_add_up_each_day_of_a_lane_with_the_percentiles_of_the_report(world: World) -> None:
    lanes = sorted(world.read("lanes"), key=lambda row: row["day"])
    days: dict[date, list[int]] = {}
    for number in range(len(SENT)):
        days.setdefault(datetime.fromtimestamp(START + number * 7_200, UTC).date(), []).append(number)
    assert [row["day"] for row in lanes] == sorted(days)
    for row in lanes:
        numbers = days[row["day"]]
        seconds = [5 + number for number in numbers]
        assert (row["source_chain"], row["destination_chain"]) == (ALPHA, BETA)
        assert row["messages"] == row["executed"] == len(numbers)
        assert (row["receipts"], row["late_receipts"]) == (2 * len(numbers), len(numbers))
        assert row["duplicates"] == sum(number % 3 for number in numbers)
        assert (row["retried"], row["retries"]) == ((1, 1) if 0 in numbers else (0, 0))
        assert row["diverged"] == (1 if len(SENT) - 1 in numbers else 0)
        for share, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99")):
            assert row[f"delivered_{name}"] == row[f"executed_{name}"] == percentile(seconds, share)


def test_costs_are_those_of_each_lane_and_gmp_and_what_was_paid_for_late_receipts_is_told_apart(world: World) -> None:
    lane = {"source_chain": ALPHA, "destination_chain": BETA}
    of_first = {
        "gmp": 1,
        "messages": 30,
        "gwei": sum(range(100, 130)),
        "gwei_p50": 114,
        "gwei_p95": 128,
        "late_gwei": 0,
    }
    of_second = {"gmp": 2, "messages": 10, "gwei": 70, "gwei_p50": 7, "gwei_p95": 7, "late_gwei": 70}
    found = sorted(world.read("costs"), key=lambda row: row["gmp"])
    assert found == [lane | of_first, lane | of_second]


def test_divergences_hold_what_the_events_contradict_and_what_the_index_has_noted(world: World) -> None:
    with IndexReader(str(world.store.engine.url)) as reader:
        expected = [
            (one.kind, one.message_id, one.source_chain, one.destination_chain, one.evidence)
            for one in reader.divergences()
        ]
    found = [tuple(row.values()) for row in world.read("divergences")]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert [kind for kind, *_ in sorted(expected)] == ["EXECUTED_TWICE", "LANE_DIFFERS"]


def by_duckdb(folder: str) -> list[dict[str, Any]]:
    with duckdb.connect() as connection:
        files = DeltaTable(folder).file_uris()
        rows: list[dict[str, Any]] = (
            connection.sql("select * from read_parquet($files)", params={"files": files}).to_arrow_table().to_pylist()
        )
        return rows


def by_polars(folder: str) -> list[dict[str, Any]]:
    return pl.read_delta(folder).to_dicts()


def by_pandas(folder: str) -> list[dict[str, Any]]:
    frame: pd.DataFrame = DeltaTable(folder).to_pandas(types_mapper=pd.ArrowDtype)
    return [
        {name: None if value is pd.NA else value for name, value in row.items()} for row in frame.to_dict("records")
    ]


@pytest.mark.parametrize("opened", [by_duckdb, by_polars, by_pandas])
@pytest.mark.parametrize("name", ["events", *TABLES, "tallies"])
def test_every_table_of_the_lake_opens_with_the_same_rows(
    world: World, name: str, opened: Callable[[str], list[dict[str, Any]]]
) -> None:
    expected, found = world.read(name), opened(f"{world.folder}/lake/{name}")
    assert len(expected) > 0
    assert sorted(map(repr_of, found)) == sorted(map(repr_of, expected))


def repr_of(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))


def test_a_lake_without_events_has_the_tables_too(tmp_path: Path) -> None:
    lake, store = Lake(tmp_path / "lake"), Store(f"sqlite:///{tmp_path / 'index.db'}")
    assert {table.name: table.rows for table in write_tables(store.engine, lake)} == dict.fromkeys(SCHEMAS, 0)
    for name in SCHEMAS:
        read = DeltaTable(f"{tmp_path}/lake/{name}").to_pyarrow_table()
        assert read.num_rows == 0
        assert read.schema.names == SCHEMAS[name].names
    store.close()
