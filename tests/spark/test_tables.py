"""The tables by Spark's pipeline: the same rows as DuckDB's and the store's, and the engine of each command that needs them."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from sqlalchemy import select

from indexer.jobs.tables import noted_in
from indexer.lake.derived import DerivedTable
from indexer.lake.lake import FinalBlocks, Lake
from indexer.lake.lake_tables import DUCKDB
from indexer.lake.promotion import promote
from indexer.model import schemas
from indexer.model.storage_location import StorageLocation
from indexer.model.tables import SCHEMAS, Bronze, Noted
from indexer.spark.session import batch_session
from indexer.spark.tables import SparkEngine
from indexer.store.reader import IndexReader
from indexer.store.store import Store
from indexer.store.tables import messages
from tests.s3 import CREDENTIALS, S3, running_s3
from tests.spark.history import rows_of, seeded_history
from tests.unit.cli.command import Command
from tests.unit.cli.test_index_commands import SENT, Network
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import (
    START,
    apply,
    contents,
    created,
    executed,
    new_world,
    received,
    routed,
    sent_message,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def batch(spark: SparkSession) -> Iterator[SparkSession]:  # noqa: ARG001  it is the one that is active
    with batch_session() as session:
        yield session


def test_a_session_for_tables_generates_code_and_adapts_its_plans(spark: SparkSession, batch: SparkSession) -> None:
    names = ("spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled")
    assert [[session.conf.get(name) for name in names] for session in (batch, spark)] == [["true"] * 2, ["false"] * 2]


@pytest.mark.parametrize("seed", range(2))
def test_spark_and_duckdb_make_the_same_rows_of_a_history_with_reorgs(
    batch: SparkSession, seed: int, tmp_path: Path
) -> None:
    made = seeded_history(seed, tmp_path)
    bronze = made.history.bronze()
    paid = [{"message_id": one, "gmp": gmp, "gwei": 9 * gmp} for one in ids_of(made.store) for gmp in (1, 2, 3)]
    noted = replace(noted_in(made.store.engine, with_chains=True), paid=pa.Table.from_pylist(paid, schema=schemas.PAID))
    assert bronze.files
    assert len(bronze.tail)
    with SparkEngine(batch).tables(bronze, noted) as ours, DUCKDB.tables(bronze, noted) as theirs:
        found = {name: ours.rows(name) for name in SCHEMAS}
        for name, rows in found.items():
            assert rows.schema.equals(SCHEMAS[name]), name
            assert rows_of(rows) == rows_of(theirs.rows(name)), name
        assert all(len(rows) for rows in found.values())
        folder = tmp_path / "written"
        folder.mkdir()
        written = ours.write("receipts", StorageLocation.of(folder))
        files = [pq.read_table(folder / one["path"]) for one in written]
        assert rows_of(found["receipts"]) == sorted(row for file in files for row in rows_of(file))
    stored = contents(made.store)
    for name in ("messages", "receipts"):
        assert sorted(tuple(row.values()) for row in found[name].to_pylist()) == stored[name]
    with IndexReader(str(made.store.engine.url)) as reader:
        expected = [(one.kind, one.message_id, one.evidence) for one in reader.divergences()]
    kinds = [(row["kind"], row["message_id"], row["evidence"]) for row in found["divergences"].to_pylist()]
    assert sorted(kinds, key=repr) == sorted(expected, key=repr)
    made.store.close()


def ids_of(store: Store) -> list[bytes]:
    with store.engine.connect() as connection:
        return list(connection.scalars(select(messages.c.message_id)))


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with running_s3(tmp_path / "s3.log") as server:
        yield server


def test_spark_reads_and_writes_the_tables_of_a_bucket(
    batch: SparkSession, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(batch.sparkContext.environment, name, value)  # tasks have credentials of their own
    lake = Lake(StorageLocation.of(s3.new_lake()))
    alpha, _ = new_world()
    alpha.mine(created(SENT), routed(SENT))
    for first, last in ((0, 0), (1, alpha.head)):
        blocks = FinalBlocks(first, last, alpha.blocks[last].hash)
        lake.append(alpha.events(first, last), {alpha.chain_id: blocks})
    bronze = Bronze(files=lake.files(), folder=lake.folder)
    table = DerivedTable(lake.place, "messages", SCHEMAS["messages"])
    with SparkEngine(batch).tables(bronze, Noted()) as ours, DUCKDB.tables(bronze, Noted()) as theirs:
        (manifest,) = ours.write("messages", table.folder)
        table.replace([manifest], lake.version, lake.reach(lake.chains()))
        assert rows_of(theirs.rows("messages")) == rows_of(ours.rows("messages"))
    assert manifest["rows"] == 1
    assert table.files()[0].endswith(manifest["path"])


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    made = Network(tmp_path)
    made.index()
    yield made
    made.close()


COMMANDS = {
    "report": ("report",),
    "divergence": ("index", "divergence"),
    "rebuild": ("index", "rebuild"),
    "as-of": ("index", "as-of", "--time", str(START + 1)),
    "tables": ("index", "tables", "--full"),
    "verify": ("index", "verify"),
}


def test_each_command_computes_with_spark_unless_told_otherwise_and_answers_the_same(
    spark: SparkSession,  # noqa: ARG001  each command takes a session in it
    network: Network,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    waybill = Command(monkeypatch, capsys)
    lake, written = network.workspace.lake, {}
    answers: dict[str, list[Any]] = {}
    for name, command in COMMANDS.items():
        for engine, operator in (((), "AdaptiveSparkPlan"), (("--engine", "duckdb"), "╭─ Projection")):
            ended = waybill(*command, *engine, "--explain", "--json")
            assert ended.code == 0, ended.err
            assert operator in ended.err, f"{name}: {ended.err}"
            answers.setdefault(name, []).append(_without_versions(json.loads(ended.out)))
            if name == "tables":
                written[engine] = {
                    table: rows_of(DeltaTable(f"{lake}/{table}").to_pyarrow_table()) for table in SCHEMAS
                }
        assert answers[name][0] == answers[name][1], name
    assert written[()] == written["--engine", "duckdb"]
    assert len(written[()]["messages"]) == 1
    assert SENT.id.hex() in str(answers["as-of"][0]) or answers["as-of"][0]["messages"]


def test_a_run_computes_the_messages_with_new_events_and_leaves_what_a_run_of_all_would(
    spark: SparkSession,  # noqa: ARG001  each command takes a session in it
    network: Network,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    waybill = Command(monkeypatch, capsys)
    others = [sent_message(nonce, quorum=1) for nonce in range(2, 6)]
    network.alpha.mine(*[routed(one) for one in others])
    store, lake = Store(network.workspace.index_url), Lake(network.workspace.lake)
    apply(store, network.alpha, network.alpha.head, final=network.alpha.head)
    promote(store, lake, {ALPHA: 0, BETA: 0})
    assert waybill("index", "tables").code == 0
    network.beta.mine(received(SENT, 2), received(others[0], 1), executed(others[0]))
    apply(store, network.beta, network.beta.head, final=network.beta.head)
    promote(store, lake, {ALPHA: 0, BETA: 0})
    store.close()
    ended = waybill("index", "tables", "--json")
    assert ended.code == 0, ended.err
    assert "2 messages with 3 new events" in ended.err
    computed = {one["name"]: (one["computed"], one["rows"]) for one in json.loads(ended.out)["tables"]}
    assert computed["messages"] == (2, 5)
    tables = {name: rows_of(DeltaTable(f"{lake.place.root}/{name}").to_pyarrow_table()) for name in SCHEMAS}
    assert waybill("index", "tables", "--full", "--engine", "duckdb").code == 0
    for name, rows in tables.items():
        assert rows_of(DeltaTable(f"{lake.place.root}/{name}").to_pyarrow_table()) == rows, name


def test_maintenance_has_spark_make_the_tables_of_what_it_prunes(
    spark: SparkSession,  # noqa: ARG001  the command takes a session in it
    network: Network,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    waybill = Command(monkeypatch, capsys)
    ended = waybill("index", "maintain", "--keep-days", "0", "--explain", "--json")
    assert (ended.code, json.loads(ended.out)["pruned"]) == (0, 1), ended.err
    assert "AdaptiveSparkPlan" in ended.err
    assert len(DeltaTable(f"{network.workspace.lake}/messages").to_pyarrow_table()) == 1


def _without_versions(value: Any) -> Any:
    """An answer without how far behind the index is, which a moment changes."""
    return {name: part for name, part in value.items() if name != "index"}


def test_the_index_is_made_of_dataframes_alone() -> None:
    """Spark Connect and serverless platforms have neither RDDs nor a JVM to call."""
    used = {
        node.attr
        for path in (ROOT / "indexer").rglob("*.py")
        if path.name != "session.py"  # which starts and ends the JVM of a session on this machine
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert {"sparkSession", "mapInArrow"} <= used
    assert not used & {"sparkContext", "rdd", "_jdf", "_jvm", "_sc", "_jsparkSession"}
