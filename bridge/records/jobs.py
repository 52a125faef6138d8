"""Jobs: work on a message that survives crashes, is shared by relayers, and is tried until it is done or given up.

Three queues use them. Each kind of job has its own states; how a job is found, leased, rescheduled and settled is the same for all.
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
from bridge.records.retries import RetryBudget


class Queue(StrEnum):
    """Which work a job is."""

    RETRY = "retry"  # send a message over more GMPs, since the index asks for it
    EXECUTE = "execute"  # execute a message that was delivered and not executed
    PROPAGATE = "propagate"  # follow a state change until it is applied


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as it is stored. Every change gives another record.

    A worker looks at a job that is due without telling the store. Before it spends anything it leases the job. That raises
    the fence, and the store refuses what other workers write with the fence that they have read.

    Attributes:
        state: how far it is, in the words of its queue.
        since: Unix seconds: when it began to wait.
        available_at: Unix seconds: nobody looks at it before.
        tries: what its queue counts: retries put off, or propagations.
        fence: grows with each lease, and with each change from outside that makes what a worker has read worthless.
        outcome: for people: why it waits, or how it ended.
        seen: the block at whose end the message was seen to need no more work; final or not.
        finished_at: Unix seconds: when it was settled; None while there is work left.
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
        """Tells it from other jobs of its queue and message."""
        return ""

    def leased(self, until: float, **changes: Any) -> Self:
        """For the worker that writes this first; others leave it alone until then (Unix seconds)."""
        return replace(self, fence=self.fence + 1, available_at=until, **changes)

    def rescheduled(self, outcome: str, at: float, **changes: Any) -> Self:
        """To be looked at again at that moment (Unix seconds)."""
        return replace(self, outcome=outcome, available_at=at, **changes)

    def settled(self, state: StrEnum, outcome: str, now: float, **changes: Any) -> Self:
        """Done with: nobody looks at it again, unless something from outside opens it."""
        return replace(self, state=state, outcome=outcome, finished_at=now, fence=self.fence + 1, **changes)


JobT = TypeVar("JobT", bound=Job)


class RetryState(StrEnum):
    """Where a retry is."""

    OPEN = "OPEN"  # to be done, or done again later
    SENDING = "SENDING"  # its transaction is under way
    SENT = "SENT"  # the router dispatched another attempt
    NOT_NEEDED = "NOT_NEEDED"  # the message was executed or retried meanwhile
    IMPOSSIBLE = "IMPOSSIBLE"  # the router will never take it
    DEAD = "DEAD"  # its message's own budget is spent; an operator may open it again


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryJob(Job):
    """A retry that the index or an operator asked for, and its progress."""

    QUEUE = Queue.RETRY

    request: RetryRequest
    state: RetryState = RetryState.OPEN
    blocked_by: RetryBudget | None = None  # what it was put off for, if that was a budget
    letter: bool | None = None  # of one that is DEAD: whether it has a dead letter
    gmps: frozenset[Gmp] = frozenset()  # chosen for it
    wanted: frozenset[Gmp] = frozenset()  # the GMPs that an operator named; empty: the best ones
    transaction_hash: bytes | None = None

    @classmethod
    def of(cls, request: RetryRequest, now: float) -> RetryJob:
        """The job for a request that was just copied."""
        lane = Lane(request.source_chain, request.destination_chain)
        return cls(request=request, message_id=request.message_id, lane=lane, since=now, available_at=now)

    @property
    def name(self) -> str:
        """Attempt and generation: the index may ask for an attempt again."""
        return f"{self.request.attempt}/{self.request.generation}"

    def start(self, gmps: frozenset[Gmp]) -> RetryJob:
        """OPEN → SENDING. It stays due: a worker that takes it up joins the transaction that the nonce ledger knows."""
        self._require(RetryState.OPEN)
        return self.leased(self.available_at, state=RetryState.SENDING, gmps=gmps, blocked_by=None)

    def reschedule(self, why: str, until: float, blocked_by: RetryBudget | None = None) -> RetryJob:
        """Back to OPEN: it can't be done now."""
        self._require(RetryState.OPEN, RetryState.SENDING)
        return self.rescheduled(why, until, state=RetryState.OPEN, tries=self.tries + 1, blocked_by=blocked_by)

    def ended(self, state: RetryState, outcome: str, now: float, transaction_hash: bytes | None = None) -> RetryJob:
        """SENT, NOT_NEEDED or IMPOSSIBLE, for good."""
        self._require(RetryState.OPEN, RetryState.SENDING)
        return self.settled(state, outcome, now, transaction_hash=transaction_hash, blocked_by=None)

    def died(self, outcome: str, now: float, *, letter: bool) -> RetryJob:
        """OPEN → DEAD, with a dead letter about that or without one."""
        self._require(RetryState.OPEN)
        return self.settled(RetryState.DEAD, outcome, now, letter=letter, blocked_by=None)

    def reopened(self, why: str, now: float) -> RetryJob:
        """DEAD → OPEN: an operator decided so."""
        self._require(RetryState.DEAD)
        return self.leased(now, state=RetryState.OPEN, outcome=why, tries=0, finished_at=None, letter=None)

    def _require(self, *states: RetryState) -> None:
        if self.state not in states:
            raise ValueError(f"a retry that is {self.state} is not {' or '.join(states)}")


FIRST_LOOK: Final = 5.0
"""Seconds after a delivery until its message is looked at: by then the next delivery has mostly executed it."""

EXECUTION_KEYS: Final = "execute/"
"""How the transaction keys of all executions begin."""


class ExecutionState(StrEnum):
    """What was found when the message was last looked at."""

    WAITING = "WAITING"  # its router executes it not yet: the quorum is not there, or something is paused
    REFUSED = "REFUSED"  # its recipient refuses it
    REJECTED = (
        "REJECTED"  # its recipient refuses it by an error code that ends all tries; a new delivery opens it again
    )
    BLOCKED = "BLOCKED"  # it could be executed, and this relayer may not, or can't pay
    SENT = "SENT"  # a transaction of ours is under way, or has executed it and is not final
    EXECUTED = "EXECUTED"  # by a transaction of ours, and that is final
    ENDED = "ENDED"  # executed otherwise, expired or cancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionJob(Job):
    """A message that was delivered and is not known to be executed.

    The router executes a message with the delivery that completes its quorum. What completes it otherwise, such as the
    end of a GMP's pause or a quorum that is lowered, executes nothing: then an account has to call `execute`.
    """

    QUEUE = Queue.EXECUTE

    state: ExecutionState = ExecutionState.WAITING
    round: int = 0  # grows when it can't be executed any more after a transaction was tried
    was_sent: bool = False  # whether a transaction was tried in this round; the nonce ledger knows what became of it

    @property
    def transaction_key(self) -> str:
        """What the nonce ledger calls the transaction of this round: in each there is one at most."""
        return f"{EXECUTION_KEYS}0x{self.message_id.hex()}/{self.round}"

    def locked(self, until: float) -> ExecutionJob:
        """With a transaction of this round about to be sent; others leave it alone until then (Unix seconds)."""
        return self.leased(until, state=ExecutionState.SENT, was_sent=True, seen=None)

    def in_next_round(self) -> ExecutionJob:
        """Open for another transaction, since it could not be executed in between."""
        return replace(self, round=self.round + 1, was_sent=False)


class SyncState(StrEnum):
    """How far a state change is on its destination."""

    PENDING = "PENDING"
    APPLIED = "APPLIED"  # executed, and that is final
    ENDED = "ENDED"  # expired or cancelled: it will never be applied
    DIVERGED = "DIVERGED"  # re-propagated often and in vain; still brought into line, and an operator has to look


UNRESOLVED: Final = frozenset({SyncState.PENDING, SyncState.DIVERGED})


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncJob(Job):
    """A state change that is final on its source, and how far its application is. `tries` counts its re-propagations."""

    QUEUE = Queue.PROPAGATE

    record: PrimaryRecord
    state: SyncState = SyncState.PENDING
    lock_until: float = 0.0  # Unix seconds: until then it is re-propagated under the present lock

    @classmethod
    def of(cls, record: PrimaryRecord) -> SyncJob:
        """The job that follows a record."""
        at = record.final_at
        return cls(record=record, message_id=record.message_id, lane=record.lane, since=at, available_at=at)

    def locked(self, now: float, lock_ttl: float, until: float) -> SyncJob:
        """Leased until then: under its lock while that holds, else under a new one with a higher fencing number."""
        if now < self.lock_until:
            return replace(self, available_at=until)
        return self.leased(until, lock_until=now + lock_ttl)

    def reopened(self, why: str, now: float) -> SyncJob:
        """PENDING again: the destination does not show any more what it showed; the primary record stands."""
        return self.rescheduled(why, now, state=SyncState.PENDING, seen=None, finished_at=None)


def totals(counts: Mapping[Lane, Mapping[str, int]]) -> Mapping[str, int]:
    """How many jobs of all lanes are in each state."""
    found: Counter[str] = Counter()
    for by_state in counts.values():
        found.update(by_state)
    return found
