"""Copies to the streams what dead letters and index have that is new: for all sinks, once."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from bridge.evm.supervision import run_forever
from bridge.protocol.indexed import DivergenceRecord
from bridge.records.streams import Change, IndexSource, Stream
from bridge.store.dead_letters import DeadLetterLog
from bridge.store.streams import Streams

_COPIED_AT_ONCE: Final = 100  # records of the dead letters' log


class Copier:
    """Fills the streams with what no trigger of the store sees."""

    def __init__(
        self, streams: Streams, *, dead_letters: DeadLetterLog, index: IndexSource | None, divergence_interval: float
    ) -> None:
        """Reads nothing yet.

        Args:
            streams: where records wait, of any sink.
            dead_letters: the log, which may be in another database.
            index: opens the index; None: no divergences are copied.
            divergence_interval: seconds between two looks at the index.
        """
        self._streams = streams
        self._dead_letters = dead_letters
        self._index = index
        self._interval = divergence_interval
        self._looked_at = -divergence_interval

    async def run(self, every: float) -> None:
        """Copies until it is cancelled, with so many seconds between two looks."""

        async def step() -> bool:
            return await asyncio.to_thread(self.copy)

        await run_forever("copy to streams", step, every=every)

    def copy(self) -> bool:
        """Copies what is new in the dead letters' log and, now and then, among the index's divergences."""
        records = self._dead_letters.records(after=self._streams.cursor(), limit=_COPIED_AT_ONCE)
        if records:
            self._streams.copy(records)
        if self._index is not None and time.monotonic() - self._looked_at >= self._interval:
            self._looked_at = time.monotonic()
            with self._index() as index:
                if index is not None:
                    self._streams.compare(dict(map(_found, index.divergences())))
        return len(records) == _COPIED_AT_ONCE


def _found(record: DivergenceRecord) -> tuple[str, Change]:
    """A divergence as a change, with what tells it from others: evidence may change while a divergence lasts."""
    lane = f"{record.source_chain}>{record.destination_chain}"
    about = record.evidence if record.message_id is None else f"0x{record.message_id.hex()}"
    key = lane if record.message_id is None else about
    data: dict[str, Any] = {
        "kind": record.kind,
        "severity": record.severity,
        "sourceChainId": record.source_chain,
        "destinationChainId": record.destination_chain,
        "evidence": record.evidence,
        "next": record.next_action,
    }
    change = Change(stream=Stream.DIVERGENCES, key=key, event="FOUND", at=time.time(), data=data)
    return f"{record.kind} {lane} {about}", change
