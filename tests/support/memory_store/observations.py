"""Observations in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bridge.domain.errors import CursorMovedError, StoreMismatchError
from bridge.domain.observations import (
    ANCESTORS_KEPT,
    BlockRef,
    Cursor,
    NumberedDispatch,
    ObservedAttempt,
    ObservedMessage,
    ObservedRange,
    Rewound,
)
from bridge.domain.outbox import OutboxEntry, event_id_of
from tests.support.memory_store.outbox import MemoryOutbox
from tests.support.memory_store.payments import MemoryPayments
from tests.support.memory_store.transactions import MemoryTransactionLedger


class MemoryObservations:
    """See `bridge.domain.observations.Observations`."""

    def __init__(self, outbox: MemoryOutbox, transactions: MemoryTransactionLedger, payments: MemoryPayments) -> None:
        self._outbox = outbox
        self._transactions = transactions
        self._payments = payments
        self._genesis: dict[int, bytes] = {}
        self._cursors: dict[int, Cursor] = {}
        self._messages: dict[bytes, ObservedMessage] = {}  # in the order of their appearance
        self._attempts: dict[tuple[bytes, int], ObservedAttempt] = {}
        self._when_rewound: list[Callable[[int, int, float], None]] = []

    def when_rewound(self, then: Callable[[int, int, float], None]) -> None:
        """Has something more done with each reorg, given the chain, the highest block that stands, and the time."""
        self._when_rewound.append(then)

    def identify(self, chain_id: int, genesis: bytes) -> None:
        known = self._genesis.setdefault(chain_id, genesis)
        if known != genesis:
            raise StoreMismatchError(
                f"the store knows chain {chain_id} by block 0x{known.hex()}, not 0x{genesis.hex()}"
            )

    def cursor(self, chain_id: int) -> Cursor | None:
        return self._cursors.get(chain_id)

    def record(self, observed: ObservedRange) -> set[str]:
        cursor = self._cursors.get(observed.chain_id)
        position = cursor.position if cursor else None
        if position != observed.previous:
            raise CursorMovedError(
                f"the cursor of chain {observed.chain_id} is at {position}, not at {observed.previous}"
            )
        messages = {seen.message_id: seen for seen in observed.messages} | self._messages
        missing = [one.dispatch for one in observed.dispatches if one.dispatch.message_id not in messages]
        if missing:
            raise ValueError(f"message 0x{missing[0].message_id.hex()} was dispatched but not observed")
        ancestors = cursor.ancestors if cursor else ()
        if cursor and cursor.position != observed.position:
            ancestors = (cursor.position, *ancestors)[:ANCESTORS_KEPT]
        self._cursors[observed.chain_id] = Cursor(
            chain_id=observed.chain_id, position=observed.position, ancestors=ancestors, watched=observed.watched
        )
        for message in observed.messages:
            known = self._messages.setdefault(message.message_id, message)
            if known.created_in is None:
                self._messages[message.message_id] = replace(known, created_in=message.created_in)
        for attempt in observed.attempts:
            self._attempts[attempt.message_id, attempt.attempt] = attempt
        self._payments.record(observed.vault_events, observed.observed_at)
        put = (self._put(numbered, observed.observed_at) for numbered in observed.dispatches)
        return {event_id for event_id in put if event_id is not None}

    def rewind(self, chain_id: int, ancestor: BlockRef | None, now: float) -> Rewound:
        last_good = ancestor.number if ancestor is not None else -1
        dropped = orphaned = 0
        for entry in self._outbox.fallen(chain_id, last_good):
            if entry.fence == 0:  # no worker ever took it
                self._outbox.drop(entry.event_id)
                dropped += 1
            elif entry.orphaned_at is None:
                self._outbox.put(replace(entry, orphaned_at=now))
                orphaned += 1
        unconfirmed = self._outbox.unconfirm(chain_id, last_good)
        self._transactions.unfinalise(chain_id, last_good)
        self._payments.rewind(chain_id, last_good)
        for then in self._when_rewound:
            then(chain_id, last_good, now)
        self._attempts = {
            key: attempt
            for key, attempt in self._attempts.items()
            if attempt.source_chain != chain_id or attempt.block.number <= last_good
        }
        for message_id, seen in self._messages.items():
            if seen.message.source_chain == chain_id and (seen.created_in or 0) > last_good:
                self._messages[message_id] = replace(seen, created_in=None)
        cursor = self._cursors.get(chain_id)
        if ancestor is None or cursor is None:
            self._cursors.pop(chain_id, None)
        else:
            kept = tuple(block for block in cursor.ancestors if block.number < ancestor.number)
            self._cursors[chain_id] = replace(cursor, position=ancestor, ancestors=kept)
        return Rewound(dropped, orphaned, unconfirmed)

    def reread(self, chain_id: int) -> None:
        self._cursors.pop(chain_id, None)

    def final_height(self, chain_id: int) -> int:
        cursor = self._cursors.get(chain_id)
        return cursor.position.number if cursor else -1

    def final_block(self, chain_id: int) -> BlockRef | None:
        cursor = self._cursors.get(chain_id)
        return cursor.position if cursor else None

    def has_passed(self, chain_id: int, block: BlockRef) -> bool:
        cursor = self._cursors.get(chain_id)
        return cursor is not None and block in (cursor.position, *cursor.ancestors)

    def message(self, message_id: bytes) -> ObservedMessage | None:
        return self._messages.get(message_id)

    def created_on(self, source_chain: int, destination_chain: int) -> int:
        lane = (source_chain, destination_chain)
        return sum(
            seen.created_in is not None and (seen.message.source_chain, seen.message.destination_chain) == lane
            for seen in self._messages.values()
        )

    def attempts(self, message_id: bytes) -> list[ObservedAttempt]:
        found = [attempt for attempt in self._attempts.values() if attempt.message_id == message_id]
        return sorted(found, key=lambda attempt: attempt.attempt)

    def messages(self, *, limit: int, source_chain: int | None = None) -> list[ObservedMessage]:
        newest_first = reversed(self._messages.values())
        found = [seen for seen in newest_first if source_chain is None or seen.message.source_chain == source_chain]
        return found[:limit]

    def _put(self, numbered: NumberedDispatch, now: float) -> str | None:
        """Adds or moves an entry; its id if it is new."""
        dispatch = numbered.dispatch
        known = self._outbox.entry(event_id_of(dispatch.message_id, dispatch.gmp, numbered.attempt))
        if known is not None:
            self._outbox.put(known.moved(dispatch))
            return None
        kind = self._messages[dispatch.message_id].message.kind
        entry = OutboxEntry.new(dispatch, numbered.attempt, kind, now)
        self._outbox.new(entry)
        return entry.event_id
