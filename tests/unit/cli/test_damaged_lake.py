"""A file of the lake that is lost or damaged: each command says which, and what to do; what the store knows is still told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.cli.command import Command
from tests.unit.cli.test_index_commands import SENT, Network, network, waybill
from tests.unit.indexer.world import executed

__all__ = ["network", "waybill"]  # fixtures

COMMANDS = [
    ("index", "rebuild"),
    ("index", "divergence"),
    ("index", "tables"),
    ("index", "verify"),
    ("index", "as-of", "--time", "4000000000"),
]


def newest(lake: Path, pattern: str) -> Path:
    return max(lake.glob(pattern))


def cut_commit(lake: Path) -> Path:
    file = newest(lake, "events/_delta_log/*.json")
    file.write_bytes(file.read_bytes()[:-40])
    return file


def emptied_commit(lake: Path) -> Path:
    """As a power cut leaves a file whose content was not written yet. Its readers take it for a commit of no rows."""
    file = newest(lake, "events/_delta_log/*.json")
    file.write_bytes(b"")
    return file


def lost_file(lake: Path) -> Path:
    file = newest(lake, "events/*.parquet")
    file.unlink()
    return file


def cut_file(lake: Path) -> Path:
    file = newest(lake, "events/*.parquet")
    file.write_bytes(file.read_bytes()[:-30])
    return file


def overwritten_file(lake: Path) -> Path:
    file = newest(lake, "events/*.parquet")
    file.write_bytes(b"not parquet" * 50)
    return file


DAMAGES = [cut_commit, emptied_commit, lost_file, cut_file, overwritten_file]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_damaged_lake_is_named_with_its_file_and_what_to_do(
    network: Network, waybill: Command, damage: Callable[[Path], Path], command: tuple[str, ...]
) -> None:
    network.index()
    file = damage(Path(network.workspace.lake.root))
    ended = waybill(*command, "--json")
    assert ended.code == 1
    assert "Traceback" not in ended.err
    told = ended.err
    assert file.name in told, told
    assert "waybill index run" in told


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_the_store_alone_can_tell_is_told(
    network: Network, waybill: Command, damage: Callable[[Path], Path]
) -> None:
    network.beta.mine(executed(SENT))
    network.index()
    damage(Path(network.workspace.lake.root))
    ended = waybill("index", "divergence", "--json")
    assert ended.code == 1
    value = json.loads(ended.out)
    assert value["damage"]
    assert {item["message_id"] for item in value["divergences"]} == {"0x" + SENT.id.hex()}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_report_over_a_damaged_lake_does_not_end_as_if_it_were_whole(
    network: Network, waybill: Command, damage: Callable[[Path], Path]
) -> None:
    network.index()
    damage(Path(network.workspace.lake.root))
    ended = waybill("report", "--json")
    assert "Traceback" not in ended.err
    assert ended.code == 1
