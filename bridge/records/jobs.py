"""Jobs: work on a message that survives crashes, is shared by relayers, and is retried until done or abandoned.

There are three queues. Each kind of job has its own states, but all jobs are found, leased, rescheduled and
settled in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, Self, TypeVar

from bridge.protocol.gmps import Gmp
from bridge.protocol.lanes import Lane
from bridge.protocol.retry_requests import RetryRequest
from bridge.records.finality_records import PrimaryRecord
from bridge.records.observations import BlockRef


class Queue(StrEnum):
    """The kinds of work."""

    RETRY = "retry"  # send a message over more GMPs, since the index asks for it
    EXECUTE = "execute"  # execute a message that was delivered and not executed
    PROPAGATE = "propagate"  # follow a state change until it is applied


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored job. Immutable: every change returns a new record.

    A worker examines a due job without writing to the store, and leases it before it spends anything. The lease
    raises the fence, and the store rejects writes by other workers, which have a stale fence.

    Attributes:
        state: Progress, one of the queue's states.
        since: Unix seconds when the job began to wait.
        available_at: Unix seconds when the job is due.
        tries: Number of postponed retries or of propagations, depending on the queue.
        fence: Fencing token, which grows with each lease and with each external change that invalidates what a
            worker has read.
        outcome: Human-readable reason why the job waits, or how it ended.
        seen: Block at which the message needed no more work, whether or not that block is final.
        finished_at: Unix seconds when the job was settled; None while it is open.
    """

    QUEUE: ClassVar[Queue]

    message_id: bytes
    lane: Lane
    state: StrEnum
    since: float
    available_at: float
    tries: int = 0
    fence: int = 0
    outcome: str = ""
    seen: BlockRef | None = None
    finished_at: float | None = None

    @property
    def name(self) -> str:
        """Returns the job's name, unique among the jobs of its queue and message."""
        return ""

    def leased(self, until: float, **changes: Any) -> Self:
        """Returns the job leased until `until` (Unix seconds) to the worker that writes it."""
        return replace(self, fence=self.fence + 1, available_at=until, **changes)

    def rescheduled(self, outcome: str, at: float, **changes: Any) -> Self:
        """Returns the job due again at `at` (Unix seconds)."""
        return replace(self, outcome=outcome, available_at=at, **changes)

    def settled(self, state: StrEnum, outcome: str, now: float, **changes: Any) -> Self:
        """Returns a copy of the job, marked finished. Only an external change can reopen it."""
        return replace(self, state=state, outcome=outcome, finished_at=now, fence=self.fence + 1, **changes)


JobT = TypeVar("JobT", bound=Job)


class RetryState(StrEnum):
    """The states of a retry."""

    OPEN = "OPEN"  # to be done, or done again later
    SENDING = "SENDING"  # its transaction is pending
    SENT = "SENT"  # the router dispatched another attempt
    NOT_NEEDED = "NOT_NEEDED"  # the message has been executed or retried since
    IMPOSSIBLE = "IMPOSSIBLE"  # the router will never accept it


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryJob(Job):
    """A retry requested by the index or an operator."""

    QUEUE = Queue.RETRY

    request: RetryRequest
    state: RetryState = RetryState.OPEN
    gmps: frozenset[Gmp] = frozenset()  # chosen for it
    wanted: frozenset[Gmp] = frozenset()  # the GMPs that an operator named; empty: the best ones
    transaction_hash: bytes | None = None

    @classmethod
    def of(cls, request: RetryRequest, now: float) -> RetryJob:
        """Builds the job of a newly copied request."""
        lane = Lane(request.source_chain, request.destination_chain)
        return cls(request=request, message_id=request.message_id, lane=lane, since=now, available_at=now)

    @property
    def name(self) -> str:
        """Returns the attempt and its generation, since the index may request the same attempt again."""
        return f"{self.request.attempt}/{self.request.generation}"

    def start(self, gmps: frozenset[Gmp]) -> RetryJob:
        """Moves an OPEN retry to SENDING.

        It stays due: a worker that takes it over joins the transaction in the nonce ledger.
        """
        return self.leased(self.available_at, state=RetryState.SENDING, gmps=gmps)

    def reschedule(self, why: str, until: float) -> RetryJob:
        """Moves the retry back to OPEN, since it is not possible now."""
        return self.rescheduled(why, until, state=RetryState.OPEN, tries=self.tries + 1)


FIRST_LOOK: Final = 5.0
"""Seconds after a delivery until its message is checked: by then the next delivery has usually executed it."""

EXECUTION_KEYS: Final = "execute/"
"""Prefix of the transaction keys of all executions."""


class ExecutionState(StrEnum):
    """The state of a message's execution, as of the last check."""

    WAITING = "WAITING"  # not executable yet: there is no quorum, or a pause
    REFUSED = "REFUSED"  # the recipient rejects it
    REJECTED = "REJECTED"  # the recipient rejects it with a final error code; a new delivery reopens it
    BLOCKED = "BLOCKED"  # executable, but this relayer may not execute it or can't pay
    SENT = "SENT"  # the relayer's transaction is pending, or has executed it and is not final
    EXECUTED = "EXECUTED"  # executed by the relayer's transaction, in a final block
    ENDED = "ENDED"  # executed by another transaction, expired or cancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionJob(Job):
    """A delivered message that is not known to be executed.

    The router executes a message in the delivery that completes its quorum. If another event completes the
    quorum, such as the end of a GMP's pause or a lowered quorum, an account has to call `execute`.
    """

    QUEUE = Queue.EXECUTE

    state: ExecutionState = ExecutionState.WAITING
    round: int = 0  # incremented when it is no longer executable after a transaction was tried
    was_sent: bool = False  # whether a transaction was tried in this round; the nonce ledger has its outcome

    @property
    def transaction_key(self) -> str:
        """Returns the nonce ledger's key of this round's transaction, of which there is at most one."""
        return f"{EXECUTION_KEYS}0x{self.message_id.hex()}/{self.round}"

    def locked(self, until: float) -> ExecutionJob:
        """Returns the job leased until `until` (Unix seconds), while its transaction is sent."""
        return self.leased(until, state=ExecutionState.SENT, was_sent=True, seen=None)

    def in_next_round(self) -> ExecutionJob:
        """Returns the job in its next round, in which another transaction is allowed.

        A new round begins because the message was not executable for a time since the last transaction.
        """
        return replace(self, round=self.round + 1, was_sent=False)


class SyncState(StrEnum):
    """The progress of a state change on its destination."""

    PENDING = "PENDING"
    APPLIED = "APPLIED"  # executed in a final block
    ENDED = "ENDED"  # expired or cancelled: it will never be applied
    DIVERGED = "DIVERGED"  # repeatedly re-propagated without effect; still reconciled, and an operator should check


UNRESOLVED: Final = frozenset({SyncState.PENDING, SyncState.DIVERGED})


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncJob(Job):
    """A state change that is final on its source, and its progress. `tries` counts re-propagations."""

    QUEUE = Queue.PROPAGATE

    record: PrimaryRecord
    state: SyncState = SyncState.PENDING
    lock_until: float = 0.0  # Unix seconds until which the current lock holds

    @classmethod
    def of(cls, record: PrimaryRecord) -> SyncJob:
        """Builds the job that follows a record."""
        at = record.final_at
        return cls(record=record, message_id=record.message_id, lane=record.lane, since=at, available_at=at)

    def locked(self, now: float, lock_ttl: float, until: float) -> SyncJob:
        """Returns the job leased until `until`.

        The job keeps its lock while the lock is valid; otherwise it gets a new one with a higher fence.
        """
        if now < self.lock_until:
            return replace(self, available_at=until)
        return self.leased(until, lock_until=now + lock_ttl)

    def reopened(self, why: str, now: float) -> SyncJob:
        """Moves the job back to PENDING, since the destination no longer shows the change.

        The primary record stays valid.
        """
        return self.rescheduled(why, now, state=SyncState.PENDING, seen=None, finished_at=None)


def totals(counts: Mapping[Lane, Mapping[str, int]]) -> Mapping[str, int]:
    """Counts the jobs of all lanes by state."""
    found: Counter[str] = Counter()
    for by_state in counts.values():
        found.update(by_state)
    return found
