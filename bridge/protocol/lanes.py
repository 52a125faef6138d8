"""The state of a lane: running, paused by an operator, or halted because continuing could lose messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LaneState(StrEnum):
    """The state of a lane, which determines how its outbox entries are treated.

    In every state, entries are observed and kept.
    """

    RUNNING = "RUNNING"  # entries are delivered
    PAUSED = "PAUSED"  # entries wait, by an operator's decision
    HALTED = "HALTED"  # entries wait, because continuing could lose messages


@dataclass(frozen=True, slots=True, order=True)
class Lane:
    """A source and a destination chain, given by their EIP-155 ids."""

    source_chain: int
    destination_chain: int

    def __str__(self) -> str:
        return f"{self.source_chain}>{self.destination_chain}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneChange:
    """A change of a lane's state."""

    lane: Lane
    state: LaneState
    reason: str  # for people; for a halt, what to repair before `waybill lane resume`
    by: str  # an operator's name, or the worker
    at: float  # Unix seconds


def takes_effect(before: LaneState, after: LaneState) -> bool:
    """Whether a lane in the state `before` may change to the state `after`; see `Lanes.change`."""
    return before is not after and not (before is LaneState.HALTED and after is LaneState.PAUSED)
