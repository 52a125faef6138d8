"""What can be set about the explorer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerSettings:
    """How the explorer serves."""

    public_rpc: Mapping[int, str] = field(default_factory=dict)
    """By chain id, the URL that visitors' browsers may use; a chain without one can be read here, but not acted on."""

    block_explorers: Mapping[int, str] = field(default_factory=dict)
    """By chain id, the URL of a site that has a page for each transaction under ``/tx/HASH``."""

    read_only: bool = False
    """Offer nothing that changes state, not even through the visitor's own wallet."""

    requests_per_minute: int = 600  # of one client
    streams_per_client: int = 12  # live updates open at once
    streams: int = 200  # of everybody
    poll: float = 1.0  # seconds between two looks at the stores for live updates
