"""A process that buries one delivery and is killed by SIGKILL at a given step; run by `test_killed`.

python -m tests.unit.dead_letters.dying STORE_URL DLQ_URL NOW (before-letter | after-letter | never)
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from bridge.dead_letters.queue import DeadLetterQueue
from bridge.dead_letters.signing import KeySealer
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.records.dead_letters import Draft, LogRecord, Sealer
from bridge.store import open_store
from bridge.store.dead_letters import DeadLetterLog
from tests.builders import BETA
from tests.unit.dead_letters.world import SEALER, StillClock


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DyingLog(DeadLetterLog):
    """Takes its process down around a write."""

    def __init__(self, url: str, step: str) -> None:
        super().__init__(url)
        self._step = step

    def append(self, draft: Draft, sealer: Sealer) -> LogRecord | None:
        if self._step == "before-letter":
            die()
        written = super().append(draft, sealer)
        if self._step == "after-letter":
            die()
        return written


async def main(store_url: str, dlq_url: str, now: float, step: str) -> None:
    store, clock = open_store(store_url), StillClock(now)
    dead_letter_queue = DeadLetterQueue(DyingLog(dlq_url, step), store, KeySealer(SEALER), clock)
    for entry in store.outbox.claim(
        worker=f"worker {os.getpid()}", destination_chain=BETA, gmps=frozenset(Gmp), limit=10, now=now, lease=15
    ):
        failure = Failure(at=now, kind=FailureKind.TRANSIENT, code="TransientError", message="no proof")
        outcome = await dead_letter_queue.mark_dead(entry, entry.current_claim, failure, "MAX_RETRIES_EXCEEDED")
        store.outbox.finish([outcome], now)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]))
