"""How often one endpoint is asked."""

from __future__ import annotations

import threading
import time
from functools import cache


class Pace:
    """Spaces requests out evenly, for all threads of a process, and remembers until when the endpoint is to be left alone."""

    def __init__(self, requests_per_second: float | None) -> None:
        """Spaces nothing if the number is None."""
        self._interval = 0.0 if requests_per_second is None else 1 / requests_per_second
        self._next = 0.0
        self._lock = threading.Lock()
        self.closed_until = 0.0  # on the monotonic clock

    def wait(self, requests: int) -> None:
        """Waits for the next place in line, and takes as many places as there are requests."""
        if not self._interval:
            return
        with self._lock:
            now = time.monotonic()
            place = max(now, self._next)
            self._next = place + self._interval * requests
        time.sleep(place - now)

    def close_for(self, seconds: float) -> None:
        """The endpoint said that it wants to be left alone for so long."""
        self.closed_until = max(self.closed_until, time.monotonic() + seconds)


@cache
def pace_of(url: str, requests_per_second: float | None) -> Pace:  # noqa: ARG001  what the cache goes by
    """The one pace at which this process asks that URL, whoever asks."""
    return Pace(requests_per_second)
