"""A file of the lake that is lost or damaged: each command says which, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.pipeline.bronze import Lake
from tests.unit.cli.command import Command
from tests.unit.cli.test_index_commands import Network, network, waybill
from tests.unit.indexer.lakes import write_table

__all__ = ["network", "waybill"]  # fixtures


def newest(lake: Path, pattern: str) -> Path:
    return max(lake.glob(pattern))


def cut_commit(lake: Path) -> Path:
    file = newest(lake, "bronze/logs/_delta_log/*.json")
    file.write_bytes(file.read_bytes()[:-40])
    return file


def lost_file(lake: Path) -> Path:
    file = newest(lake, "bronze/logs/*.parquet")
    file.unlink()
    return file


def cut_file(lake: Path) -> Path:
    file = newest(lake, "bronze/logs/*.parquet")
    file.write_bytes(file.read_bytes()[:-30])
    return file


def overwritten_file(lake: Path) -> Path:
    file = newest(lake, "bronze/logs/*.parquet")
    file.write_bytes(b"not parquet" * 50)
    return file


DAMAGES = [cut_commit, lost_file, cut_file, overwritten_file]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_lake_is_named_with_its_file_and_what_to_do(
    network: Network, waybill: Command, damage: Callable[[Path], Path]
) -> None:
    network.index()
    file = damage(Path(network.workspace.lake.root))
    ended = waybill("index", "verify", "--json")
    assert ended.code == 1
    assert "Traceback" not in ended.err
    assert file.name in ended.err, ended.err
    assert "waybill index run" in ended.err


def test_report_over_a_damaged_table_names_its_file(network: Network, waybill: Command) -> None:
    network.index()
    lake = Lake(network.workspace.lake)
    write_table(lake, "gold.divergences", [])
    write_table(lake, "gold.redundancy", [{"gmp": 1, "receipts": 3}])
    file = newest(Path(lake.place.root), "gold/redundancy/*.parquet")
    file.unlink()
    ended = waybill("report", "--json")
    assert (ended.code, file.name in ended.err) == (1, True)
