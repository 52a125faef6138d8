"""Named sets of settings for common needs; everything else goes over them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

# A profile sets the pace of the relayer. It never changes how often a kind of message is tried: those rows are the document's.
PROFILES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "default": MappingProxyType({}),
        "low-latency": MappingProxyType(
            {
                "poll": 0.2,
                "rebroadcast": 8.0,
                "replace": 24.0,
                "in_flight": 32,
                "hedge_after": 0.25,
                "commit": "message",
            }
        ),
        "high-throughput": MappingProxyType(
            {
                "poll": 2.0,
                "in_flight": 512,
                "block_range": 10_000,
                "send_batch": 500,
                "share": 20,
                "lease": 30.0,
                "commit_interval": 1_000,
            }
        ),
    }
)
