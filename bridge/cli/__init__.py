"""The `waybill` command: one module per group of commands."""

from __future__ import annotations

from typing import Never

from bridge.cli.extras import explained
from bridge.cli.interrupts import NOTHING_SENT, if_interrupted


def main() -> Never:
    """Runs the command; what it needs and this installation lacks ends with the name of the extra that brings it."""
    with explained():
        with if_interrupted(NOTHING_SENT):
            from bridge.cli.app import main as run  # the frame itself takes a second to import

        run()


__all__ = ["main"]
