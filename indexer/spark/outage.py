"""Restarts Spark after an outage.

In an outage, its JVM was killed, or a busy machine started its Python workers too slowly.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from bridge.protocol.backoff import backoff
from indexer.model.errors import IndexerError

log = structlog.get_logger(__name__)

SPARK_ERRORS: Final = (Py4JError, PySparkException, ConnectionError)
"""Errors raised when Spark is gone or broken; `ConnectionError` comes from py4j's socket to a killed JVM."""

_FIRST_WAIT: Final = 1.0  # seconds
_LONGEST_WAIT: Final = 60.0  # seconds
_LONGEST_REASON: Final = 300  # characters
_TRACEBACK: Final = "Traceback (most recent call last):"
_MODULES: Final = re.compile(r"^(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_]\w*(?::|$))")  # text before an error's class

# A machine that is too busy to start a process in time is not a fault of the index, however often it happens.
_SLOW_START: Final = re.compile(
    r"failed to connect back|reading the port number|[Tt]imed out.*(worker|accept)|CANNOT_OPEN_SOCKET|crashed \(EOF\)"
)


class SparkOutage:
    """Counts consecutive failures, and determines when to restart.

    The first restart comes after one second; each further wait is twice as long, up to a minute.
    """

    def __init__(self, most: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts without failures.

        Args:
            most: maximum number of consecutive failures, not counting those caused by a busy machine; None
                means no limit.
            clock: monotonic clock in seconds.
        """
        self._most = most
        self._clock = clock
        self._began: float | None = None
        self._failures = 0
        self._counted = 0
        self._next_try = 0.0

    @property
    def wait(self) -> float:
        """Returns the seconds until the restart, or 0 if it is due or Spark works."""
        return max(0.0, self._next_try - self._clock()) if self._began is not None else 0.0

    def failed(self, error: BaseException) -> None:
        """Counts a failure. Logs only the first one of an outage.

        Raises:
            IndexerError: there were too many consecutive failures.
        """
        reason = reason_of(error)
        self._failures += 1
        self._counted += 0 if _SLOW_START.search(str(error)) else 1
        if self._most is not None and self._counted > self._most:
            raise IndexerError(f"Spark failed {self._failures} times in a row; the last error: {reason}") from error
        pause = backoff(_FIRST_WAIT, self._failures - 1, cap=_LONGEST_WAIT)
        self._next_try = self._clock() + pause
        if self._began is None:
            self._began = self._clock()
            log.warning(
                "stream failed, restarting",
                reason=reason,
                seconds=pause,
            )
        log.debug("Spark error", error=str(error))

    def over(self) -> None:
        """Ends the outage."""
        if self._began is not None:
            log.info("stream recovered", failures=self._failures, seconds=round(self._clock() - self._began))
        self._began, self._failures, self._counted = None, 0, 0


def reason_of(error: BaseException) -> str:
    """Returns an error's text on one line, without the stack traces of Java and Python."""
    _, stack, frames = str(error).rpartition(_TRACEBACK)
    # In a traceback, everything but the error itself is indented.
    lines = [line.strip() for line in frames.splitlines() if line.strip() and not (stack and line[0].isspace())]
    said = lines[0] if lines else type(error).__name__
    return (_MODULES.sub("", said) if stack else said)[:_LONGEST_REASON]
