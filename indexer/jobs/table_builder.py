"""Makes the lake's tables in a process of its own, so that the running index goes on meanwhile.

The index's own session is set up for small batches, in a JVM that is too small for this (docs/decisions/0028).

`python -m indexer.jobs.table_builder` takes, as JSON on its standard input, the URL of the `store`, the `lake`, a
`StorageLocation`, and the `engine`, `spark` or `duckdb`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Final

import structlog

from indexer.jobs.tables import write_tables
from indexer.lake.increment import events_to_read
from indexer.lake.lake import Lake
from indexer.lake.lake_tables import DUCKDB
from indexer.model.settings import IndexFolder, TableEngineName
from indexer.model.storage_location import StorageLocation
from indexer.model.tables import TableEngine
from indexer.spark.session import batch_session
from indexer.spark.tables import SparkEngine
from indexer.store.engine import reading_engine

log = structlog.get_logger(__name__)

_PATIENCE: Final = 5.0  # seconds for a process that was told to end
_LOOK_EVERY: Final = 0.1  # seconds


class TablesAside:
    """At most one process at a time that makes the tables. Use it from one thread."""

    def __init__(self, folder: IndexFolder, engine: TableEngineName) -> None:
        """Starts nothing yet; `engine` is what computes them."""
        self._told = json.dumps({"store": folder.store_url, "lake": asdict(folder.lake), "engine": engine})
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Begins to make them, unless that is under way."""
        if self.is_running():
            return
        log.info("making the lake's tables, so that the store can prune what has ended")
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            env={name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the index, which ends it
        )
        assert self._process.stdin is not None
        with self._process.stdin as stdin:
            stdin.write(self._told)

    def make(self) -> None:
        """Makes them, and waits for it."""
        self.start()
        while self.is_running():
            time.sleep(_LOOK_EVERY)

    def is_running(self) -> bool:
        """Whether they are being made; says why, if that has just failed."""
        if self._process is None:
            return False
        if self._process.poll() is None:
            return True
        process, self._process = self._process, None
        assert process.stderr is not None
        with process.stderr as stderr:
            said = stderr.read().strip().splitlines()
        if process.returncode:
            reason = said[-1] if said else f"exit code {process.returncode}"
            log.warning("the lake's tables could not be made; the store keeps what they lack", reason=reason)
        return False

    def close(self) -> None:
        """Ends what is under way: it may be cut off anywhere, and is begun again another time."""
        if self._process is None:
            return
        process, self._process = self._process, None
        assert process.stderr is not None
        with process.stderr:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def main() -> None:
    """Makes the tables once."""
    told = json.load(sys.stdin)
    store, place = reading_engine(told["store"]), StorageLocation(**told["lake"])
    try:
        with _engine(told["engine"], place) as engine:
            write_tables(store, Lake(place), engine)
    finally:
        store.dispose()


@contextmanager
def _engine(name: TableEngineName, lake: StorageLocation) -> Iterator[TableEngine]:
    if name == TableEngineName.DUCKDB:
        yield DUCKDB
        return
    with batch_session(events=events_to_read(lake)) as spark:
        yield SparkEngine(spark)


if __name__ == "__main__":
    main()
