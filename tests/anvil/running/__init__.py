"""The `waybill` command in processes of its own, started as a shell would."""

from __future__ import annotations

from tests.anvil.running.client import Running, start

__all__ = ["Running", "start"]
