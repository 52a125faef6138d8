"""Pauses of lanes, derived from the routers' events.

A pause extends the deadline after which a message counts as stalled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from indexer.model import schemas

PAUSE_EVENTS: Final = ("LanePauseSet",)


def pauses(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Derives the pauses of lanes.

    Args:
        events: `LanePauseSet` events of any number of chains, each chain's in chain order. Other events are ignored.

    Returns:
        Rows of `schemas.PAUSES`. Pauses of the same lane never overlap.
    """
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        if event["event"] not in PAUSE_EVENTS or event["error"] is not None:
            continue
        intervals = lanes[event["chain_id"], event["chain"]]
        if intervals and intervals[-1][1] >= event["block_time"]:
            # The current pause now ends at another time.
            intervals[-1] = (intervals[-1][0], event["until"])
        else:
            intervals.append((event["block_time"], event["until"]))
    return [
        dict(zip(schemas.PAUSES.names, (chain, other, "lane", begins, ends), strict=True))
        for (chain, other), intervals in sorted(lanes.items())
        for begins, ends in intervals
        if begins < ends
    ]
