"""What an index of a lane adds up to: the same count and sum that its routers keep (`contracts/types/MessageRecords.sol`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

COLUMNS: Final = ("event", "block_number", "message_id", "source_chain", "destination_chain", "error")
"""The columns of `schemas.EVENTS` that `lanes_of` reads."""

_LIMBS: Final = 6  # of 32 bits: their sums do not leave 64 bits before the four-thousand-millionth message


class Direction(StrEnum):
    """Which of a router's two totals of a lane."""

    SENT = "sent"
    EXECUTED = "executed"


LaneEnd = tuple[Direction, int]
"""A lane as one router sees it: what is counted, and the lane's other chain."""


SUM_BITS: Final = {Direction.SENT: 32, Direction.EXECUTED: 192}
"""How much of the sum of ids a router keeps."""


@dataclass(frozen=True, slots=True)
class LaneTotal:
    """How many messages went one way over a lane, and the sum of their ids mod 2^192 or less."""

    count: int = 0
    sum: int = 0

    def __add__(self, other: LaneTotal) -> LaneTotal:
        return LaneTotal(self.count + other.count, self.sum + other.sum)

    def __sub__(self, other: LaneTotal) -> LaneTotal:
        return LaneTotal(self.count - other.count, self.sum - other.sum)

    def kept(self, direction: Direction) -> LaneTotal:
        """What a router would have of it."""
        return LaneTotal(self.count, self.sum % (1 << SUM_BITS[direction]))

    def __str__(self) -> str:
        return f"{self.count} messages, sum 0x{self.sum:x}"


class LaneIds:
    """The ids that went one way over a lane, with their blocks, ready to be added up over any range of blocks."""

    def __init__(self, blocks: NDArray[np.int64], ids: NDArray[np.uint8]) -> None:
        """Sorts them.

        Args:
            blocks: shape (messages).
            ids: shape (messages, 32).
        """
        order = np.argsort(blocks, kind="stable")
        self._blocks = blocks[order]
        limbs = np.ascontiguousarray(ids[order, 8:]).view(">u4").astype(np.uint64)
        self._sums = np.zeros((len(order) + 1, _LIMBS), np.uint64)
        np.cumsum(limbs, axis=0, out=self._sums[1:])

    def total(self, first: int, last: int) -> LaneTotal:
        """Over blocks `first`…`last`."""
        begin, end = np.searchsorted(self._blocks, [first, last + 1])
        if end <= begin:
            return LaneTotal()
        limbs = (self._sums[end] - self._sums[begin]).tolist()
        total = sum(limb << (32 * (_LIMBS - 1 - position)) for position, limb in enumerate(limbs))
        return LaneTotal(int(end - begin), total % (1 << 32 * _LIMBS))


NOTHING: Final = LaneIds(np.zeros(0, np.int64), np.zeros((0, 32), np.uint8))


def lanes_of(events: pa.Table) -> dict[LaneEnd, LaneIds]:
    """The messages that one chain's events say were created and executed, by lane.

    A message counts as sent with its `MessageIdCreated`, to the destination that the `MessageRouted` or `MessageUnfunded` of
    its id names; as executed with each `MessageExecuted`. Nothing is made distinct: a log that the index has twice must show.

    Args:
        events: of one chain, with `COLUMNS`; a creation's events are all among them or none is.
    """
    sound = events.filter(pc.is_null(events["error"]))
    created = sound.filter(pc.equal(sound["event"], "MessageIdCreated")).select(["message_id", "block_number"])
    described = sound.filter(pc.is_in(sound["event"], pa.array(["MessageRouted", "MessageUnfunded"])))
    lanes = (
        described.select(["message_id", "destination_chain"])
        .group_by("message_id")
        .aggregate([("destination_chain", "max")])
    )
    sent = created.join(lanes, "message_id", join_type="inner").rename_columns(["message_id", "block_number", "other"])
    executed = sound.filter(pc.equal(sound["event"], "MessageExecuted")).select(
        ["message_id", "block_number", "source_chain"]
    )
    found = _by_chain(sent, Direction.SENT)
    return found | _by_chain(executed.rename_columns(["message_id", "block_number", "other"]), Direction.EXECUTED)


def _by_chain(messages: pa.Table, direction: Direction) -> dict[LaneEnd, LaneIds]:
    found: dict[LaneEnd, LaneIds] = {}
    for other in pc.unique(messages["other"]).to_pylist():
        chosen = messages.filter(pc.equal(messages["other"], other))
        found[direction, other] = LaneIds(chosen["block_number"].to_numpy(), _words(chosen["message_id"]))
    return found


def _words(ids: pa.ChunkedArray) -> NDArray[np.uint8]:
    fixed = pa.concat_arrays(ids.cast(pa.binary(32)).chunks) if len(ids) else pa.array([], pa.binary(32))
    raw = np.frombuffer(fixed.buffers()[1] or b"", np.uint8)
    return raw[32 * fixed.offset : 32 * (fixed.offset + len(fixed))].reshape(-1, 32)
