"""Asks the server for processes."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO

ENDS = 20  # seconds


class Running:
    """A process that runs the command."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = b""
        self._code: int | None = None
        self.pid = self._number(ENDS)

    def poll(self) -> int | None:
        """Its exit code, negative for the signal that killed it; None while it runs."""
        with contextlib.suppress(TimeoutError):
            self.wait(0.001)
        return self._code

    def wait(self, seconds: float = ENDS) -> int:
        """Its exit code, once it has ended.

        Raises:
            TimeoutError: it has not.
        """
        if self._code is None:
            self._code = self._number(seconds)
            self._connection.close()
        return self._code

    def _number(self, seconds: float) -> int:
        """The next line of the server."""
        self._connection.settimeout(seconds)
        while b"\n" not in self._received:
            more = self._connection.recv(64)
            assert more, "whoever ran the command was killed"
            self._received += more
        line, _, self._received = self._received.partition(b"\n")
        return int(line)

    def send_signal(self, number: signal.Signals) -> None:
        """Sends it a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills it, if it still runs."""
        self.send_signal(signal.SIGKILL)
        self.wait()


def start(*arguments: str, output: IO[bytes], errors: IO[bytes], environment: Mapping[str, str]) -> Running:
    """Runs the command, with this environment and no other."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(_server())
    request = json.dumps({"arguments": arguments, "environment": dict(environment)}).encode() + b"\n"
    sent = socket.send_fds(connection, [request], [output.fileno(), errors.fileno()])
    connection.sendall(request[sent:])
    return Running(connection)


@cache
def _server() -> str:
    """The path of its socket; it runs until this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="waybill-run-"))
    path = str(folder / "socket")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.anvil.running.server", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def end() -> None:
        with process:  # closes its standard input, and waits
            pass
        shutil.rmtree(folder)

    atexit.register(end)
    assert process.stdout.readline() == b"ready\n", "the command can't be imported"
    return path
