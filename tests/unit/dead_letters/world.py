"""Dead letters for tests: an outbox with an entry that fails, an dead_letter_queue that takes it in, and somebody who signs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount

from bridge.dead_letters.queue import DeadLetterQueue
from bridge.dead_letters.settings import DeadLetterSettings
from bridge.dead_letters.signing import KeySealer
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.records.dead_letters import Draft, LogRecord, RecordKind, Sealer
from bridge.records.outbox import OutboxEntry, Outcome
from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog
from tests.builders import BETA, block, message, observed_range
from tests.support.stores import IN_MEMORY, memory_dead_letters, memory_store

SEALER: LocalAccount = Account.from_key("0x" + "44" * 32)
OPERATOR: LocalAccount = Account.from_key("0x" + "55" * 32)
STRANGER: LocalAccount = Account.from_key("0x" + "66" * 32)

PLACE = (31337, "0x0101010101010101010101010101010101010101")
"""The chain and the contract that say who may decide."""
DAY = 86_400


class StillClock:
    """A clock that moves when somebody sleeps, or when a test says so."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.time = now
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


class FailingLog(DeadLetterLog):
    """A log whose first `failures` writes fail."""

    def __init__(self, failures: int) -> None:
        super().__init__(IN_MEMORY)
        self.failures = failures
        self.tried = 0

    def append(self, draft: Draft, sealer: Sealer) -> LogRecord | None:
        self.tried += 1
        if self.tried <= self.failures:
            raise OSError("read-only file system")
        return super().append(draft, sealer)


@dataclass
class DeadLetterService:
    """A store with claimed entries, and the dead_letter_queue beside it."""

    store: Store = field(default_factory=memory_store)
    dead_letters: DeadLetterLog = field(default_factory=memory_dead_letters)
    clock: StillClock = field(default_factory=StillClock)
    settings: DeadLetterSettings = field(default_factory=DeadLetterSettings)
    height: int = 0

    def __post_init__(self) -> None:
        self.dead_letter_queue = DeadLetterQueue(
            self.dead_letters, self.store, KeySealer(SEALER), self.clock, self.settings
        )

    def observe(self, *messages: Message, gmps: tuple[Gmp, ...] = (Gmp.HYPERLANE,)) -> None:
        previous = block(self.height) if self.height else None
        self.height += 1
        now = self.clock.now()
        self.store.observations.record(
            observed_range(*messages, previous=previous, position=block(self.height), gmps=gmps, now=now)
        )

    def claim(self, limit: int = 1, gmps: frozenset[Gmp] = frozenset(Gmp)) -> list[OutboxEntry]:
        return self.store.outbox.claim(
            worker="worker", destination_chain=BETA, gmps=gmps, limit=limit, now=self.clock.now(), lease=15
        )

    async def die(self, sent: Message | None = None, *, error: str = "no proof", code: str = "TransientError") -> str:
        """A message is seen, claimed, and its tries are spent; the event id of its delivery."""
        self.observe(sent or message())
        (entry,) = self.claim()
        await self.mark_dead(entry, error=error, code=code)
        return entry.event_id

    async def mark_dead(self, entry: OutboxEntry, *, error: str = "no proof", code: str = "TransientError") -> Outcome:
        failure = Failure(at=self.clock.now(), kind=FailureKind.TRANSIENT, code=code, message=error)
        outcome = await self.dead_letter_queue.mark_dead(entry, entry.current_claim, failure, "MAX_RETRIES_EXCEEDED")
        self.store.outbox.finish([outcome], self.clock.now())
        return outcome


def entered(event_id: str, at: float = 100.0, **changes: Any) -> Draft:
    """The draft of a letter with few words."""
    document = {
        "messageId": "0x" + "ab" * 32,
        "messageType": "PLAIN",
        "sourceChainId": 31337,
        "destinationChainId": 31338,
        "gmp": "hyperlane",
        "failureHistory": [{"errorCode": "TransientError", "errorMessage": "no proof"}],
        "retentionUntilSeconds": at + 30 * DAY,
        **changes,
    }
    return Draft(key=f"entered/{event_id}", kind=RecordKind.ENTERED, event_id=event_id, at=at, document=document)


def happened(event_id: str, kind: RecordKind, number: int, **document: Any) -> Draft:
    """Something that happens to a letter."""
    return Draft(key=f"{kind}/{event_id}/{number}", kind=kind, event_id=event_id, at=200.0, document=document)
