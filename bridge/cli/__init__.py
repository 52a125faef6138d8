"""The `waybill` command: one module per group of commands."""

from __future__ import annotations

import signal
from typing import Never

from bridge.cli.extras import explained


def main() -> Never:
    """Runs the command.

    If a package is missing, states the extra that installs it. Exits with status 130 after Ctrl-C.
    """
    try:
        with explained():
            from bridge.cli.app import main as run  # takes a second to import

            run()
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None


__all__ = ["main"]
