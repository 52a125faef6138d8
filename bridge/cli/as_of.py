"""As of when the lake's tables are, for every command that reads them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indexer.lake.reading import AsOf


def as_of_text(tables: AsOf | None) -> str:
    """In words."""
    if tables is None:
        return "were never refreshed: run `waybill index refresh`"
    at = datetime.fromtimestamp(tables.refreshed_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"as of {at} UTC"


def as_of_value(tables: AsOf | None) -> dict[str, Any] | None:
    """For `--json`."""
    if tables is None:
        return None
    return {
        "refreshed_at": tables.refreshed_at,
        "blocks": {str(chain): block for chain, block in tables.blocks.items()},
    }
