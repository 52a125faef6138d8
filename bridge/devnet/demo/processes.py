"""The demonstration's own `waybill` processes: started, watched, and never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

_GRACE_SECONDS = 20


class ProcessFailedError(Exception):
    """One of the processes ended although nobody stopped it."""


class Service:
    """A `waybill` command that runs until it is stopped, with its output in a file."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        """Starts the command in a process group of its own, so that stopping it reaches what it started.

        Args:
            arguments: the command without `waybill`.
            log: gets its output.
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
            )

    @property
    def pid(self) -> int:
        """The process id, which is also that of its group."""
        return self._process.pid

    def check(self) -> None:
        """Does nothing while the process runs.

        Raises:
            ProcessFailedError: it has ended; the text carries the end of its log.
        """
        code = self._process.poll()
        if code is not None:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])
            raise ProcessFailedError(f"`waybill {self._name}` ended with code {code}; the end of {self._log}:\n{tail}")

    def stop(self) -> None:
        """Asks the process to end, and ends its whole group if it does not, or if Ctrl-C does not wait for it."""
        try:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(_GRACE_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """Ends the whole group at once, as a crash would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Self:
        """The running service."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stops it."""
        self.stop()
