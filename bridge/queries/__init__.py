"""What the CLI, the API and the explorer say about a message, computed once."""

from bridge.queries.advice import (
    Act,
    Circumstances,
    Offer,
    Role,
    Standing,
    circumstances_of,
    lane_pause,
    next_action,
    offers,
)

__all__ = [
    "Act",
    "Circumstances",
    "Offer",
    "Role",
    "Standing",
    "circumstances_of",
    "lane_pause",
    "next_action",
    "offers",
]
