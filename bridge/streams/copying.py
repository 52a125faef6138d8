"""Copies new dead letters and divergences to the streams."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from bridge.evm.supervision import run_forever
from bridge.protocol.indexed import DivergenceRecord, IndexSource
from bridge.records.streams import Change, Stream
from bridge.store.dead_letters import DeadLetterLog
from bridge.store.streams import Streams

_BATCH_SIZE: Final = 100  # records of the dead-letter log


class Copier:
    """Adds those records to the streams that no trigger of the store captures."""

    def __init__(
        self, streams: Streams, *, dead_letters: DeadLetterLog, index: IndexSource | None, divergence_interval: float
    ) -> None:
        """Creates a copier.

        Args:
            streams: Queue of records, shared by all sinks.
            dead_letters: The dead-letter log, which may be in a separate database.
            index: Opens the index. If None, no divergences are copied.
            divergence_interval: Seconds between reads of the index.
        """
        self._streams = streams
        self._dead_letters = dead_letters
        self._index = index
        self._interval = divergence_interval
        self._compared_at = -divergence_interval

    async def run(self, every: float) -> None:
        """Copies until cancelled, polling every `every` seconds."""

        async def step() -> bool:
            return await asyncio.to_thread(self.copy)

        await run_forever("copy to streams", step, every=every)

    def copy(self) -> bool:
        """Copies new dead letters and, periodically, new divergences.

        Returns whether more dead letters may be waiting.
        """
        records = self._dead_letters.records(after=self._streams.cursor(), limit=_BATCH_SIZE)
        if records:
            self._streams.copy(records)
        if self._index is not None and time.monotonic() - self._compared_at >= self._interval:
            self._compared_at = time.monotonic()
            with self._index() as index:
                if index is not None:
                    self._streams.compare(dict(map(_change_of, index.divergences())))
        return len(records) == _BATCH_SIZE


def _change_of(record: DivergenceRecord) -> tuple[str, Change]:
    """Returns a divergence's identity and its change. The identity excludes the evidence, which may vary."""
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
