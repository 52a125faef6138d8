"""Locks a file for work that only one process may do at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from indexer.model.errors import IndexerError


@contextmanager
def exclusive(path: Path, work: str, advice: str) -> Iterator[None]:
    """Holds the lock, and writes this process's id into the file.

    Args:
        path: the lock file; a missing folder is created.
        work: description of the work for the error, such as "an index".
        advice: next step for the error.

    Raises:
        IndexerError: another process holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            process = file.read().strip()
            raise IndexerError(f"{work} is already running in {path.parent} (process {process}): {advice}") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
