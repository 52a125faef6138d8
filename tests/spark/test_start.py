"""What makes Spark start quickly: classes from one file, and Python modules that are compiled already."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil
import py4j
import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from indexer.spark.class_archive import class_archive
from indexer.transforms.arrow import map_in_arrow

# Starts a session with the archive that is named, and says what it counts.
_COUNT = """
import sys
from pathlib import Path
from indexer.spark import session
session.class_archive = lambda: Path(sys.argv[1])
with session.spark_session() as spark:
    print(spark.range(7).count())
"""


def test_a_session_takes_its_classes_from_the_archive_of_set_up(spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    archive = class_archive()
    assert archive is not None, "`make setup` writes it"
    java = [child for child in psutil.Process().children(recursive=True) if child.name() == "java"]
    assert [str(archive) in {part.path for part in process.memory_maps()} for process in java] == [True]


@pytest.mark.parametrize("size", [0, 40], ids=["empty", "no header"])
def test_an_archive_that_does_not_fit_is_passed_over_without_a_word(size: int, tmp_path: Path) -> None:
    archive = class_archive()
    assert archive is not None
    damaged = tmp_path / "a damaged archive.jsa"
    with archive.open("rb") as whole:
        # With more of it, Java would fail: so a new file is flushed before it gets this name.
        damaged.write_bytes(whole.read(size))
    done = subprocess.run(
        [sys.executable, "-c", _COUNT, str(damaged)], capture_output=True, text=True, check=False, timeout=120
    )
    said = [
        line for line in done.stderr.splitlines() if line != "WARNING: Using incubator modules: jdk.incubator.vector"
    ]
    assert (done.returncode, done.stdout, said) == (0, "7\n", [])


def test_workers_import_modules_that_are_compiled_already(spark: SparkSession) -> None:
    def paths(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"path": [str(pyspark.__file__), str(py4j.__file__), *sys.path]})

    found = [row.path for row in map_in_arrow(spark.range(1), paths, "path string").collect()]
    assert len(found) > 2
    # Python names a zip file of its own library, which need not exist.
    zipped = {path for path in found if ".zip" in path or path.endswith(".jar")}
    assert zipped == {path for path in sys.path if ".zip" in path}
