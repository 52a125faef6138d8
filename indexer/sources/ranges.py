"""Reads the logs of a long range of blocks in pieces of the size that the endpoint likes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import Final, TypeVar

from indexer.sources.answers import RangeTooLargeError

Logs = TypeVar("Logs", bound=Sized)

_FIRST_STEP: Final = 100  # blocks
_TARGET: Final = 5_000  # logs in one answer


class AdaptiveRanges:
    """Remembers the size of range that worked last."""

    def __init__(self, first_step: int = _FIRST_STEP) -> None:
        """Begins with ranges of `first_step` blocks."""
        self._step = first_step

    @property
    def step(self) -> int:
        """Blocks in the next range."""
        return self._step

    def read(self, first: int, last: int, read: Callable[[int, int], Logs]) -> Iterator[tuple[int, Logs]]:
        """The logs of blocks `first`…`last`.

        Args:
            first: the first block.
            last: the last block, included.
            read: asks the endpoint for the logs of a range, both ends included.

        Yields:
            Up to which block the range has been read, and the logs since the last pair.

        Raises:
            RangeTooLargeError: the endpoint does not even take a single block.
        """
        while first <= last:
            end = min(first + self._step - 1, last)
            try:
                logs = read(first, end)
            except RangeTooLargeError as error:
                self._shrink(end - first + 1, error)
                continue
            yield end, logs
            self._grow(len(logs), end - first + 1)
            first = end + 1

    def _shrink(self, failed: int, error: RangeTooLargeError) -> None:
        if failed == 1:
            raise error
        half = failed // 2
        # Some providers suggest the very range that they have just refused.
        useful = error.hint is not None and 0 < error.hint < failed
        self._step = max(1, min(half, error.hint) if useful and error.hint else half)

    def _grow(self, logs: int, blocks: int) -> None:
        if logs > 2 * _TARGET:
            self._step = max(1, blocks * _TARGET // logs)
        elif logs < _TARGET and blocks == self._step:
            self._step *= 2
