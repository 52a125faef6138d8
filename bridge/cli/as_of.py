"""As of when the lake's tables are, for every command that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridge.protocol.times import iso, utc

if TYPE_CHECKING:
    from indexer.lake.reading import AsOf


def as_of_text(tables: AsOf | None) -> str:
    """In words."""
    if tables is None:
        return "were never refreshed: run `waybill index refresh`"
    return f"as of {utc(tables.refreshed_at)} UTC"


def as_of_value(tables: AsOf | None) -> dict[str, Any] | None:
    """For `--json`."""
    if tables is None:
        return None
    return {
        "refreshedAt": iso(tables.refreshed_at),
        "blocks": {str(chain): block for chain, block in tables.blocks.items()},
    }
