"""When to look at a chain again: once a block, soon after the block can be there, and seldom where nothing comes."""

from __future__ import annotations

import itertools
import statistics
from collections import deque
from typing import Final

from indexer.sources.position import Header

_WINDOW: Final = 32  # heads that the block time is taken from
_EARLIER: Final = 1 / 1024  # of a block time, by which each look that found a block comes before the last one's place
_LATER: Final = 1 / 16  # of a block time, by which a look that found none moves those after it
_ENOUGH: Final = 3  # times from block to block that tell a chain's block time
_SLOWEST: Final = 30.0  # seconds from block to block that are waited for in one piece
_SLOWER: Final = 1.05  # times as long, each wait for a block that may come at any time
_RAREST: Final = 12  # times the shortest wait, at most


class PollSchedule:
    """Times the looks at one chain.

    A chain with regular blocks gets one look for each: the looks come a little earlier each time until one finds no block, and
    then a little later. So a look follows its block closely, and the chain's clock and this machine's need not agree.
    """

    def __init__(self, shortest: float) -> None:
        """`shortest`: seconds between two looks at least."""
        self._shortest = shortest
        self._heads: deque[Header] = deque(maxlen=_WINDOW)
        self._unchanged = 0  # looks in a row that found no new block

    @property
    def block_time(self) -> float | None:
        """Seconds from block to block, by the blocks' own times; None until two heads are known."""
        gaps = self._gaps()
        if not gaps:
            return None
        median = statistics.median(gaps)
        if median >= 1:
            return median  # one that was missed leaves the others where they are
        first, last = self._heads[0], self._heads[-1]
        return (last.time - first.time) / (last.number - first.number)  # a block's time is a whole second

    def _gaps(self) -> list[float]:
        return [
            (after.time - before.time) / (after.number - before.number)
            for before, after in itertools.pairwise(self._heads)
        ]

    def _is_regular(self, block_time: float) -> bool:
        """Whether blocks come by the clock: those of a chain that makes one for each transaction do not."""
        gaps = self._gaps()
        return len(gaps) >= _ENOUGH and block_time <= _SLOWEST and max(gaps) <= 2 * block_time + 1

    def wait_after(self, head: Header) -> float:
        """Seconds until the next look, after one that found this head."""
        last = self._heads[-1] if self._heads else None
        if last is not None and head.hash == last.hash:
            self._unchanged += 1
        else:
            if last is not None and (head.number <= last.number or head.time < last.time):
                self._heads.clear()  # a reorg: what follows is timed by the new blocks
            self._heads.append(head)
            self._unchanged = 0
        block_time = self.block_time
        if block_time is None:
            return self._shortest * min(_RAREST, 1.5**self._unchanged)
        if not self._is_regular(block_time):
            return self._shortest * min(_RAREST, _SLOWER**self._unchanged)
        if not self._unchanged:
            return max(self._shortest, block_time * (1 - _EARLIER))
        wait = block_time * (1 + _LATER) * 1.25 ** (self._unchanged - 1)
        return max(self._shortest, min(wait, 2 * block_time))
