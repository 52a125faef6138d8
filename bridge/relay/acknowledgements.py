"""The edge at which the outbox learns how claims ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from bridge.ports import Clock, TransientError
from bridge.records.outbox import Claim, Outbox, Outcome

_log = structlog.get_logger(__name__)

_PAUSE = 1.0  # seconds before a store that could not be written is tried again


class Acknowledgements:
    """What ends at the same moment is committed together: one disk write for many deliveries."""

    def __init__(self, outbox: Outbox, clock: Clock, written: Callable[[], None]) -> None:
        """`written` is called after each commit."""
        self._outbox = outbox
        self._clock = clock
        self._written = written
        self._outcomes: list[Outcome] = []
        self._writer: asyncio.Task[None] | None = None

    @property
    def claims(self) -> list[Claim]:
        """Claims whose end is not written yet: their leases must last."""
        return [outcome.claim for outcome in self._outcomes]

    def add(self, outcome: Outcome) -> None:
        """Has an outcome written soon."""
        self._outcomes.append(outcome)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write_all())

    def flush(self) -> None:
        """Writes everything now.

        Raises:
            TransientError: the store can't be written; the outcomes are kept.
        """
        outcomes = self._outcomes
        if not outcomes:
            return
        lost = self._outbox.finish(outcomes, self._clock.now())
        self._outcomes = []
        for claim in lost:
            _log.info("claim lost before its end was written", entry=claim.event_id, worker=claim.worker)
        self._written()

    async def _write_all(self) -> None:
        await asyncio.sleep(0)  # lets what ends at the same moment get into the same commit
        while self._outcomes:
            try:
                self.flush()
            except TransientError as error:
                _log.warning("outcomes not written, will be repeated", outcomes=len(self._outcomes), error=str(error))
                await self._clock.sleep(_PAUSE)
