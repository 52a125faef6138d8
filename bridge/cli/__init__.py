"""The `waybill` command: one module per group of commands."""

from bridge.cli.app import main

__all__ = ["main"]
