"""Live traffic first: how a claim is shared out between what is new and what waits the longest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridge.records.outbox import OutboxEntry


@dataclass(frozen=True, slots=True)
class FreshShare:
    """How many places live traffic is given before all others: see `OutboxEntry.is_fresh`."""

    places: int
    since: float  # Unix seconds


def shared_out(due: Sequence[OutboxEntry], fresh: Sequence[OutboxEntry], limit: int) -> list[OutboxEntry]:
    """What a claim gives out: all of the fresh entries, and of `limit` places what they leave to the oldest.

    Args:
        due: the oldest entries, in the order in which they are due.
        fresh: those that the fresh ones' share is for, in the same order; the first of them may be among the others.
        limit: how many places there are.
    """
    kept = {entry.event_id for entry in fresh}
    others = [entry.event_id for entry in due if entry.event_id not in kept]
    kept.update(others[: max(0, limit - len(fresh))])
    known = {entry.event_id for entry in due}
    return [entry for entry in due if entry.event_id in kept] + [one for one in fresh if one.event_id not in known]
