"""Computes the index's lag behind a chain, for all commands and pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridge.protocol.indexed import ChainRecord
from bridge.protocol.ports import Block
from bridge.protocol.times import iso, utc
from bridge.queries.lanes import is_late


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLag:
    """The progress of the index on one chain, compared with the chain's head.

    Attributes:
        name: the chain's name.
        chain_id: the chain's id.
        record: the index's record of the chain; None if the index has not read the chain.
        head: the chain's newest block; None if the chain does not respond.
    """

    name: str
    chain_id: int
    record: ChainRecord | None
    head: Block | None

    @property
    def blocks(self) -> int | None:
        """Returns the number of blocks that the index has not read; None if unknown."""
        if self.record is None or self.head is None:
            return None
        return max(0, self.head.number - self.record.block)

    @property
    def seconds(self) -> int:
        """Returns the seconds from the last block read to the newest block, or to now if the chain does not respond."""
        if self.record is None:
            return 0
        return max(0, self.head.timestamp - self.record.block_time if self.head else self.record.lag_seconds)

    @property
    def halted(self) -> str | None:
        """Returns the reason why the index no longer reads the chain, or None."""
        return self.record.halted if self.record else None

    def is_behind(self, max_lag: float) -> bool:
        """Whether the index may lag by more than `max_lag` seconds of block time.

        If it does, its answers are unreliable.
        """
        if self.record is None:
            return True
        if self.head is None:
            return is_late(self.record, max_lag)
        return self.halted is not None or (self.blocks != 0 and self.seconds > max_lag)

    @property
    def text(self) -> str:
        """Describes the lag."""
        if self.record is None:
            return f"{self.name}: not read yet"
        if self.blocks is None:
            distance = f"head unknown, the chain does not answer; {self.seconds} s old"
        elif self.blocks:
            distance = f"{self.blocks} blocks ({self.seconds} s) behind"
        else:
            distance = "at the head"
        halted = f", halted: {self.halted}" if self.halted else ""
        return f"{self.name}: block {self.record.block} of {utc(self.record.block_time)} UTC, {distance}{halted}"

    def value(self, max_lag: float) -> dict[str, Any]:
        """Returns the lag for JSON."""
        return {
            "chain": self.name,
            "block": self.record and self.record.block,
            "blockTime": iso(self.record.block_time) if self.record else None,
            "head": self.head and self.head.number,
            "blocksBehind": self.blocks,
            "secondsBehind": self.seconds,
            "halted": self.halted,
            "behind": self.is_behind(max_lag),
        }
