"""The Python package as a user gets it: built once for all tests of a run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def build_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the wheel's file. Whichever worker comes first builds it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "the wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
            done = subprocess.run(build, cwd=ROOT, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        (file,) = folder.glob("*.whl")
    return file
