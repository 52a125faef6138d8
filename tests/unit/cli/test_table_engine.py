"""The engine of a command that computes tables: what is said where there can be none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.spark import session
from indexer.spark.java import JavaNotFoundError
from tests.unit.cli.command import Command
from tests.unit.cli.test_index_commands import Network


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    made = Network(tmp_path)
    made.index()
    yield made
    made.close()


@pytest.mark.usefixtures("network")
def test_without_java_a_command_says_that_duckdb_needs_none(waybill: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise JavaNotFoundError("no Java of version 17 or newer")

    monkeypatch.delenv("WAYBILL_INDEX_ENGINE")
    monkeypatch.setattr(session, "java_home", missing)
    ended = waybill("index", "tables", "--json")
    assert (ended.code, ended.out) == (1, "")
    assert ended.error["message"] == "Spark did not start: no Java of version 17 or newer"
    assert "--engine duckdb" in ended.error["next"]


@pytest.mark.usefixtures("network")
def test_a_cluster_for_duckdb_is_refused(waybill: Command) -> None:
    ended = waybill("index", "tables", "--engine", "duckdb", "--master", "spark://somewhere:7077", "--json")
    assert ended.code == 2
    assert "not on spark://somewhere:7077" in ended.error["message"]


@pytest.mark.usefixtures("network")
def test_duckdbs_plan_is_printed_beside_the_answer(waybill: Command) -> None:
    ended = waybill("index", "rebuild", "--engine", "duckdb", "--explain", "--json")
    assert ended.code == 0
    assert "plan of messages:" in ended.err
    assert "╭─ Projection" in ended.err
