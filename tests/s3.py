"""A server of the S3 protocol of one's own, moto's, in a process that ends with the tests."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.waiting import PATIENCE

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "waybill", "AWS_SECRET_ACCESS_KEY": "not a secret"}
_FROM_OUTSIDE = ("AWS_", "MOTO_", "INITIAL_NO_AUTH", "WERKZEUG_")


@dataclass
class S3:
    """The server; `endpoint` is its URL."""

    endpoint: str
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def new_lake(self) -> str:
        """The URL of a lake in a new bucket, as an operator would give it."""
        bucket = f"lake-{next(self._numbers)}"
        httpx.put(f"{self.endpoint}/{bucket}", timeout=PATIENCE).raise_for_status()
        return f"{self.lake_in(bucket)}"

    def lake_in(self, bucket: str) -> str:
        """The URL of a lake in that bucket, which may not be there."""
        return f"s3://{bucket}/waybill/lake?endpoint={self.endpoint}&region=us-east-1"

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Checks credentials, of which it knows none, as long as the block lasts."""
        self._check_from(0)
        try:
            yield
        finally:
            self._check_from(10**12)

    def _check_from(self, request: int) -> None:
        url = f"{self.endpoint}/moto-api/reset-auth"
        headers = {"content-type": "text/plain"}
        httpx.post(url, content=str(request), headers=headers, timeout=PATIENCE).raise_for_status()


@contextmanager
def running_s3(log: Path) -> Iterator[S3]:
    """A server without buckets, and nothing of it afterwards; it writes to that log."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_FROM_OUTSIDE)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
            env=inherited | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield S3(_endpoint(process, log))
    finally:
        process.kill()  # it keeps everything in memory
        process.wait()


def _endpoint(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + PATIENCE
    while not (found := re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text(errors="replace"))):
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, "the S3 server did not start"
        time.sleep(0.05)
    return found[1]
