"""Runs the demonstration's `waybill` processes, and stops them reliably."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

_GRACE_SECONDS = 20


class ProcessFailedError(Exception):
    """A process exited unexpectedly."""


class Service:
    """A long-running `waybill` command with its output in a file."""

    def __init__(self, arguments: list[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        """Starts the command in its own process group, so that stopping it reaches its children.

        Args:
            arguments: Command line without `waybill`.
            log: File for the output.
            environment: Variables to set in addition to those of this process.
        """
        self._name = " ".join(arguments)
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bridge.cli", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        """The process id, which is also the group id."""
        return self._process.pid

    def check(self) -> None:
        """Checks that the process runs.

        Raises:
            ProcessFailedError: the process exited; the message contains the end of its log.
        """
        code = self._process.poll()
        if code is not None:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])
            raise ProcessFailedError(f"`waybill {self._name}` exited with status {code}; end of {self._log}:\n{tail}")

    def stop(self) -> None:
        """Stops the process with SIGTERM, then kills the rest of its group."""
        try:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_GRACE_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kills the whole process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Self:
        """Returns the running service."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stops the service."""
        self.stop()
