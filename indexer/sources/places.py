"""How many requests an endpoint is asked at once, whichever processes ask."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from indexer.errors import SettingsError

_LOOK_AGAIN: Final = 0.01  # seconds between two looks for a place that has become free


class Places:
    """Places at one endpoint, as many as it takes requests at once, for all processes of one user on one machine.

    Spark reads the chains in processes of its own, and commands ask beside the running index. A place is a lock on a file,
    which the system takes back from a process that ends, however it does.
    """

    def __init__(self, url: str, number: int | None) -> None:
        """Makes nothing yet; without a number, there is always room."""
        self._url = url
        self._number = number

    @contextmanager
    def one(self) -> Iterator[None]:
        """Holds a place, once there is one.

        Raises:
            SettingsError: somebody else owns the folder of the places.
        """
        if self._number is None:
            yield
            return
        files = [
            os.open(_folder() / f"{self._name()}-{place}", os.O_RDWR | os.O_CREAT, 0o600)
            for place in range(self._number)
        ]
        try:
            while not any(map(_locked, files)):
                time.sleep(_LOOK_AGAIN)
            yield
        finally:
            for file in files:
                os.close(file)

    def _name(self) -> str:
        return hashlib.sha256(self._url.encode()).hexdigest()[:32]  # URLs hold keys


def _locked(file: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"waybill-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise SettingsError(
            f"{folder} belongs to somebody else; set TMPDIR to a folder of yours, or leave concurrency out"
        )
    return folder
