"""SIGKILL at any system call that changes the disk: the next run loses nothing and doubles nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import seeds

POINTS = [
    *(f"pwrite64:{number}" for number in range(1, 381)),  # SQLite's pages
    *(f"write:{number}" for number in range(1, 101)),  # Parquet and Delta's commits
    *(f"fdatasync:{number}" for number in range(1, 7)),
    *(f"fsync:{number}" for number in range(1, 9)),
]
"""Somewhat fewer than a run makes that nobody kills."""

ROOT = Path(__file__).resolve().parents[3]


def killed(folder: Path, points: Sequence[str]) -> int:
    """At how many of the points the index was killed; nothing is wrong after any of them."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.unit.indexer.sink_sweep", str(folder), *points]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert [one for one in found if one["wrong"]] == []
    return sum(one["killed"] for one in found)


def test_index_killed_before_some_system_call_loses_nothing(tmp_path: Path) -> None:
    assert killed(tmp_path, seeds.dice("index").sample(POINTS, 3)) >= 1


@pytest.mark.long
def test_index_killed_before_many_system_calls_loses_nothing(tmp_path: Path) -> None:
    assert killed(tmp_path, seeds.dice("many kills").sample(POINTS, 60)) >= 30
