"""Computes a lane's totals from events.

These are the count and the sum that its routers keep (`contracts/types/MessageRecords.sol`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

COLUMNS: Final = ("event", "block_number", "message_id", "source_chain", "destination_chain", "error")
"""The columns of `schemas.EVENTS` that `lane_totals` reads."""

_LIMBS: Final = 6  # of 32 bits: their sums do not leave 64 bits before the four-thousand-millionth message


class Direction(StrEnum):
    """The direction of a total: a router keeps two totals for each lane."""

    SENT = "sent"
    EXECUTED = "executed"


LaneEnd = tuple[Direction, int]
"""A router's end of a lane: the direction that is counted, and the lane's other chain."""


SUM_BITS: Final = {Direction.SENT: 32, Direction.EXECUTED: 192}
"""Number of bits of the sum of ids that a router keeps."""


@dataclass(frozen=True, slots=True)
class LaneTotal:
    """Number of messages in one direction of a lane, and the sum of their ids mod 2^192 or less."""

    count: int = 0
    sum: int = 0

    def __add__(self, other: LaneTotal) -> LaneTotal:
        return LaneTotal(self.count + other.count, self.sum + other.sum)

    def __sub__(self, other: LaneTotal) -> LaneTotal:
        return LaneTotal(self.count - other.count, self.sum - other.sum)

    def kept(self, direction: Direction) -> LaneTotal:
        """Returns the total as a router keeps it."""
        return LaneTotal(self.count, self.sum % (1 << SUM_BITS[direction]))

    def __str__(self) -> str:
        return f"{self.count} messages, sum 0x{self.sum:x}"


def lane_totals(parts: Iterable[pa.Table]) -> dict[LaneEnd, LaneTotal]:
    """Returns the totals of the messages that were created and executed according to one chain's events, by lane.

    A `MessageIdCreated` counts a message as sent; the destination is in the `MessageRouted` or
    `MessageUnfunded` with the same id. Each `MessageExecuted` counts a message as executed. Duplicates are not
    removed, so that repeated logs are detected.

    Args:
        parts: events of one chain, with the columns `COLUMNS`, consumed one part at a time. All events of a
            block are in the same part.
    """
    found: dict[LaneEnd, LaneTotal] = {}
    for part in parts:
        sound = part.filter(pc.is_null(part["error"]))
        executed = sound.filter(pc.equal(sound["event"], "MessageExecuted"))
        for direction, ids, others in (
            (Direction.SENT, *_sent(sound)),
            (Direction.EXECUTED, executed["message_id"], executed["source_chain"]),
        ):
            for other in pc.unique(others).to_pylist():
                total = _total(ids.filter(pc.equal(others, other)))
                found[direction, other] = found.get((direction, other), LaneTotal()) + total
    return found


def _sent(events: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Returns the ids of the messages that were created, and their destinations."""
    created = events.filter(pc.equal(events["event"], "MessageIdCreated")).select(["message_id"])
    described = events.filter(pc.is_in(events["event"], pa.array(["MessageRouted", "MessageUnfunded"])))
    lanes = (
        described.select(["message_id", "destination_chain"])
        .group_by("message_id")
        .aggregate([("destination_chain", "max")])
    )
    sent = created.join(lanes, "message_id", join_type="inner")
    return sent["message_id"], sent["destination_chain_max"]


def _total(ids: pa.ChunkedArray) -> LaneTotal:
    fixed = pa.concat_arrays(ids.cast(pa.binary(32)).chunks)
    raw = np.frombuffer(fixed.buffers()[1] or b"", np.uint8)
    words = raw[32 * fixed.offset : 32 * (fixed.offset + len(fixed))].reshape(-1, 32)
    limbs = np.ascontiguousarray(words[:, 8:]).view(">u4").astype(np.uint64).sum(axis=0).tolist()
    total = sum(limb << (32 * (_LIMBS - 1 - position)) for position, limb in enumerate(limbs))
    return LaneTotal(len(fixed), total % (1 << 32 * _LIMBS))
