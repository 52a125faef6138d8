"""Runs the indexer beside another benchmark, as users run it, with Spark, store and lake."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

PATIENCE: Final = 180  # seconds


@contextmanager
def indexing(home: Path, *, before: int, after: int) -> Iterator[None]:
    """Indexes a devnet for the duration of the context, which begins once the index has caught up.

    Args:
        home: Folder of the devnet.
        before: Number of messages that the index must have at the start.
        after: Number of messages that the index must reach at the end, which proves that it kept up.
    """
    log = home / "index.log"
    with log.open("wb") as output:
        indexer = subprocess.Popen(
            [sys.executable, "-m", "bridge.cli", "index", "run"],
            env=os.environ | {"WAYBILL_HOME": str(home)},
            stdout=output,
            stderr=output,
        )
    try:
        _wait_until_indexed(home, before, indexer, log)
        yield
        _wait_until_indexed(home, after, indexer, log)
    finally:
        indexer.send_signal(signal.SIGINT)
        indexer.wait(PATIENCE)


def _wait_until_indexed(home: Path, messages: int, indexer: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while _indexed(home / ".waybill" / "devnet" / "index.db") < messages:
        assert indexer.poll() is None, f"the indexer has ended: {log.read_text()[-2000:]}"
        assert time.monotonic() < deadline, f"the indexer has not caught up after {PATIENCE} s"
        time.sleep(0.2)


def _indexed(path: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as store:
            return int(store.execute("select count(*) from messages").fetchone()[0])
    except sqlite3.OperationalError:  # no file, or no table yet
        return 0
