"""Computes how far the index lags behind a chain, for every command and answer."""

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
        record: the chain in the index; None if the index has not read it.
        head: the chain's newest block; None if the chain does not answer.
    """

    name: str
    chain_id: int
    record: ChainRecord | None
    head: Block | None

    @property
    def blocks(self) -> int | None:
        """The number of blocks that the index has not read; None if unknown."""
        if self.record is None or self.head is None:
            return None
        return max(0, self.head.number - self.record.block)

    @property
    def seconds(self) -> int:
        """Seconds from the last block read to the chain's newest, or to now if the chain does not answer."""
        if self.record is None:
            return 0
        return max(0, self.head.timestamp - self.record.block_time if self.head else self.record.lag_seconds)

    @property
    def halted(self) -> str | None:
        """The reason why the index no longer reads the chain."""
        return self.record.halted if self.record else None

    def is_behind(self, max_lag: float) -> bool:
        """Whether the index may lag by more than `max_lag` seconds of block time: its answers are then unreliable."""
        if self.record is None:
            return True
        if self.head is None:
            return is_late(self.record, max_lag)
        return self.halted is not None or (self.blocks != 0 and self.seconds > max_lag)

    @property
    def text(self) -> str:
        """The lag in words."""
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
        """The lag for JSON."""
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
