"""Spark's Java classes in one file that a JVM maps into memory, which Java calls class data sharing.

Without it, a JVM finds each of some 15,000 classes in 280 jars, parses and verifies it. That is half of the processor time in which
a session starts. A JVM checks that the file was made by the same Java of the same jars. If
not, it starts without it.

`python -m indexer.spark.class_archive [FILE]` writes it, by default where `class_archive` looks for an installed package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pyspark

from bridge.protocol.environment import cache_folder
from indexer.spark.java import java_home

_NAME: Final = "spark-classes.jsa"
_OF_CHECKOUT: Final = Path(__file__).resolve().parents[2] / "build" / "tools" / _NAME
_PATIENCE: Final = 1_800  # seconds, of which a machine with nothing else to do takes 25

# What is used from the start of a session to its first batch. It runs in a process of its own, since a JVM notes its classes
# until it ends.
_TRAINING: Final = """
from indexer.spark.session import spark_session
with spark_session() as spark:
    spark.range(10).selectExpr("sum(id)").collect()
    stream = spark.readStream.format("rate").load().writeStream.foreachBatch(lambda rows, _: rows.collect()).start()
    stream.processAllAvailable()
    stream.stop()
"""


def class_archive() -> Path | None:
    """The file for this checkout or this account; None: it was not written."""
    return next((file for file in (_OF_CHECKOUT, cache_folder() / _NAME) if file.is_file()), None)


def jars() -> Path:
    """Where Spark's jars are."""
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"


def write_class_archive(archive: Path) -> None:
    """Writes the file in some 30 seconds of processor time; what was there stays until the new one is whole.

    Args:
        archive: the file, about 170 MB.

    Raises:
        JavaNotFoundError: there is no Java.
        SubprocessError: it failed, or took too long; the error has what it printed.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        classes, fresh = Path(folder, "classes"), Path(folder, _NAME)
        _run([sys.executable, "-c", _TRAINING], {"JAVA_TOOL_OPTIONS": f"'-XX:DumpLoadedClassList={classes}'"})
        # The collector and the jars are those of a session: a JVM with others would not take the file.
        java = [str(java_home() / "bin" / "java"), "-XX:+UseSerialGC", "-cp", f"{jars()}/*", "-Xlog:disable"]
        _run([*java, "-Xshare:dump", f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={fresh}"], {})
        with fresh.open("rb") as whole:
            os.fsync(whole.fileno())  # Java crashes on a file that was cut off
        fresh.replace(archive)


def _run(command: list[str], environment: dict[str, str]) -> None:
    subprocess.run(command, env=os.environ | environment, check=True, capture_output=True, timeout=_PATIENCE)


def main() -> None:
    """Writes it; without it Spark starts all the same, so that a failure is told and nothing else."""
    try:
        write_class_archive(Path(sys.argv[1]) if len(sys.argv) > 1 else cache_folder() / _NAME)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or b""
        print(
            f"  It could not be written, so Spark starts as slowly as before: {error}\n{said.decode(errors='replace')}"
        )


if __name__ == "__main__":
    main()
