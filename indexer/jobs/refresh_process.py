"""Refreshes the tables in a separate process, so that the index stays small and keeps running."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Final

import structlog

log = structlog.get_logger(__name__)

_PATIENCE: Final = 5.0  # seconds that a terminated process may take to exit


class RefreshProcess:
    """Runs at most one refresh at a time. Use it from one thread."""

    def __init__(self, command: Sequence[str]) -> None:
        """Takes the command that refreshes the tables. An empty command disables refreshes."""
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Starts a refresh unless one is running."""
        if not self._command or self.is_running():
            return
        log.info("refreshing the tables")
        self._process = subprocess.Popen(
            self._command,
            env={name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C goes to the index, which terminates this process
        )

    def run(self) -> None:
        """Runs a refresh, and waits until it has ended."""
        self.start()
        if self._process is not None:
            _, errors = self._process.communicate()
            self._report(errors)

    def is_running(self) -> bool:
        """Returns whether a refresh is running. If the last refresh failed, logs the reason."""
        if self._process is None:
            return False
        if self._process.poll() is None:
            return True
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            self._report(stderr.read())
        return False

    def _report(self, errors: str) -> None:
        process, self._process = self._process, None
        assert process is not None
        if process.returncode:
            lines = errors.strip().splitlines()
            log.warning("refresh failed", reason=lines[-1] if lines else f"exit code {process.returncode}")

    def close(self) -> None:
        """Terminates a running refresh. The next one resumes where it stopped."""
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
