"""SIGKILL at any system call that changes the disk: the next run loses nothing and doubles nothing."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

POINTS = [
    *(f"pwrite64:{number}" for number in range(1, 381)),  # SQLite's pages
    *(f"write:{number}" for number in range(1, 101)),  # Parquet and Delta's commits
    *(f"fdatasync:{number}" for number in range(1, 7)),
    *(f"fsync:{number}" for number in range(1, 9)),
]
"""Somewhat fewer than a run makes that nobody kills."""

ROOT = Path(__file__).resolve().parents[2]


def commit() -> str:
    """What seeds the sample: another commit tries other points."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def sweep(folder: Path, points: Sequence[str]) -> None:
    command = [sys.executable, "-m", "tests.unit.index_sink_sweep", str(folder), *points]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert [one for one in found if one["wrong"]] == []
    assert sum(one["killed"] for one in found) > len(found) * 0.6, found


def test_an_index_killed_before_some_system_call_goes_on_with_nothing_lost_and_nothing_twice(tmp_path: Path) -> None:
    sweep(tmp_path, random.Random(commit()).sample(POINTS, 3))


@pytest.mark.sweep
@pytest.mark.timeout(7200)
def test_an_index_killed_before_each_of_two_hundred_system_calls_goes_on(tmp_path: Path) -> None:
    sweep(tmp_path, random.Random(0).sample(POINTS, 200))
