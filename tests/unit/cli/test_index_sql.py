"""`waybill index sql`: questions of a user's own, which reach the lake's tables and nothing else."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.cli.output import ExitCode
from indexer.pipeline.bronze import Lake
from tests.unit.cli.command import Command
from tests.unit.cli.test_index_commands import SENT, Network
from tests.unit.indexer.lakes import write_table

IDS = "select message_id, status from silver.messages"
ROW = {"message_id": f"0x{SENT.id.hex()}", "status": "EXECUTED"}


@pytest.fixture
def waybill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    network = Network(tmp_path)
    network.index()
    command = Command(monkeypatch, capsys)
    row = {"message_id": SENT.id, "status": "EXECUTED"}
    write_table(Lake(network.workspace.lake), "silver.messages", [row])
    yield command
    network.close()


def test_rows_come_in_every_format(waybill: Command) -> None:
    assert ROW["message_id"] in waybill("index", "sql", IDS).out
    assert json.loads(waybill("index", "sql", IDS, "--json").out) == [ROW]
    assert list(csv.DictReader(io.StringIO(waybill("index", "sql", IDS, "--csv").out))) == [ROW]


def test_rows_and_seconds_are_limited(waybill: Command) -> None:
    few = waybill("index", "sql", "select * from range(5000)", "--rows", "3", "--json")
    assert [list(row.values()) for row in json.loads(few.out)] == [[0], [1], [2]]
    assert "first 3 rows" in few.err
    slow = "select count(*) from range(10000000) a, range(10000000) b where a.range % 7 = b.range % 5"
    ended = waybill("index", "sql", slow, "--timeout", "0.5")
    assert (ended.code, "longer than 0.5 s" in ended.err) == (ExitCode.FAILED, True)


FORBIDDEN = (
    "select * from read_text('{file}')",
    "select * from read_csv('{file}')",
    "select * from '{file}'",
    "select * from glob('{file}')",
    "select * from lake",
    "copy silver.messages to '{file}.copy'",
    "export database '{file}.copy'",
    "attach '{file}.db'",
    "install httpfs",
    "load httpfs",
    "set memory_limit = '8GB'",
    "set enable_external_access = true",
    "create table mine (one int)",
    "drop view silver.messages",
    "select 1; select 2",
    "",
)


def test_a_query_reaches_no_file_and_changes_nothing(waybill: Command, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("secret\nword\n")
    for query in FORBIDDEN:
        ended = waybill("index", "sql", query.format(file=file))
        assert ended.code == ExitCode.FAILED, query
        assert "word" not in ended.out + ended.err
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("secret.csv.")]
