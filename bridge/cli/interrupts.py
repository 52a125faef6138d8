"""How Ctrl-C ends a command: with a word on what is so now. It imports nothing that takes time."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

NOTHING_SENT: Final = "nothing was sent; the same command starts again"


@contextmanager
def if_interrupted(said: str | Callable[[], str]) -> Iterator[None]:
    """Ends the process with 130 after Ctrl-C in the block, and says what is so then."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"interrupted\n{said if isinstance(said, str) else said()}", file=sys.stderr)
        raise SystemExit(128 + signal.SIGINT) from None
