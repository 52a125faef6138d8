"""The outbox: one entry per (message, GMP, attempt) to deliver.

States and transitions follow the Open Outbox specification, and are pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from eth_utils import decode_hex

from bridge.protocol.backoff import backoff
from bridge.protocol.failures import DeliverySnapshot, Failure, FailureKind, SnapshotLine
from bridge.protocol.gmps import Gmp
from bridge.protocol.lanes import Lane
from bridge.protocol.message import Kind
from bridge.protocol.ports import Dispatch
from bridge.protocol.text import visible
from bridge.records.observations import BlockRef


class OutboxState(StrEnum):
    """The states of an entry."""

    PENDING = "PENDING"
    CLAIMED = "CLAIMED"
    DELIVERED = "DELIVERED"
    DEAD = "DEAD"


TRANSITIONS: Final = frozenset(
    {
        (OutboxState.PENDING, OutboxState.CLAIMED),
        (OutboxState.CLAIMED, OutboxState.DELIVERED),
        (OutboxState.CLAIMED, OutboxState.PENDING),
        (OutboxState.CLAIMED, OutboxState.DEAD),
        (OutboxState.DELIVERED, OutboxState.PENDING),  # replay
        (OutboxState.DEAD, OutboxState.PENDING),  # replay
    }
)
"""The allowed transitions between states."""


STUCK_AFTER: Final = 20
"""Number of setbacks after which an entry counts as stuck: operators are alerted, and retries are rare."""

STUCK_PAUSE: Final = 600.0
"""Seconds between two tries of a stuck entry."""

_LONGEST_PAUSE: Final = 60.0  # seconds before a reorged delivery is repeated


@dataclass(frozen=True, slots=True)
class LiveTrafficQuota:
    """The number of places reserved for live traffic; see `OutboxEntry.is_fresh`."""

    places: int
    since: float  # Unix seconds


class ForbiddenTransitionError(Exception):
    """The outbox does not allow this transition."""

    def __init__(self, event_id: str, before: OutboxState, after: OutboxState) -> None:
        super().__init__(f"outbox entry {event_id} is {before}, which can't become {after}")


class StaleClaimError(Exception):
    """The worker lost its claim.

    The lease expired and another worker may hold the entry, or a reorg removed the entry's source.
    """

    def __init__(self, claim: Claim) -> None:
        super().__init__(f"worker {claim.worker} no longer holds outbox entry {claim.event_id} (fence {claim.fence})")


@dataclass(frozen=True, slots=True)
class Claim:
    """A worker's exclusive right to work on an entry, until another worker claims it."""

    event_id: str
    worker: str
    fence: int  # grows with each claim of the entry


@dataclass(frozen=True, slots=True)
class ObservedDelivery:
    """The block in which a GMP's delivery was observed on the destination."""

    block: BlockRef  # block of the transaction, or the block at whose end the delivery was seen
    transaction_hash: bytes | None  # None: another account delivered


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A dispatch and the progress of its delivery.

    Attributes:
        event_id: `0x<message>/<gmp>/<attempt>`. The nonce ledger uses it as the transaction's key, and the log as `entry`.
        failed_tries: Number of tries that ended without a delivery.
        setbacks: Number of times the entry returned to PENDING for reasons unrelated to the message. These do not
            count as tries.
        lease_until: Unix seconds after which another worker may claim the entry.
        orphaned_at: Unix seconds when a reorg removed the source block. The entry is not claimed until its
            dispatch returns.
        confirmed_at: Unix seconds when the delivery became final on the destination.
    """

    # Never change, but for the position of the dispatch when a reorg moved it.
    event_id: str
    attempt_number: int
    kind: Kind
    ordering_key: str
    created_at: float
    dispatch: Dispatch = field(repr=False)

    state: OutboxState
    available_at: float
    failed_tries: int = 0
    setbacks: int = 0
    last_error: str | None = None
    fence: int = 0
    claimed_at: float | None = None
    claimed_by: str | None = None
    lease_until: float | None = None
    delivered_at: float | None = None
    delivery: ObservedDelivery | None = None
    confirmed_at: float | None = None
    orphaned_at: float | None = None

    @classmethod
    def new(cls, dispatch: Dispatch, attempt: int, kind: Kind, now: float) -> OutboxEntry:
        """Builds the entry of a newly observed dispatch."""
        return cls(
            event_id=event_id_of(dispatch.message_id, dispatch.gmp, attempt),
            attempt_number=attempt,
            kind=kind,
            ordering_key=ordering_key_of(dispatch),
            created_at=now,
            dispatch=dispatch,
            state=OutboxState.PENDING,
            available_at=now,
        )

    @property
    def lane(self) -> Lane:
        """Returns the entry's lane."""
        return Lane(self.dispatch.source_chain, self.dispatch.destination_chain)

    @property
    def current_claim(self) -> Claim:
        """Returns the claim that holds the entry."""
        if self.claimed_by is None:
            raise ValueError(f"outbox entry {self.event_id} is {self.state}, so no worker holds it")
        return Claim(self.event_id, self.claimed_by, self.fence)

    def is_fresh(self, since: float) -> bool:
        """Whether the entry is live traffic.

        Live traffic became due at or after `since` (Unix seconds), and had no claim before the current one.
        """
        return self.fence <= (1 if self.state is OutboxState.CLAIMED else 0) and self.available_at >= since

    def after(self, outcome: Undelivered) -> OutboxEntry:
        """Returns a CLAIMED entry after its claim ended without a delivery.

        The entry is PENDING again, or DEAD, from which it is never retried automatically.
        """
        released = replace(self, state=OutboxState.PENDING, claimed_at=None, claimed_by=None, lease_until=None)
        if isinstance(outcome, Postponed):
            return replace(released, last_error=visible(outcome.why), available_at=outcome.available_at)
        counts = outcome.failure.kind.costs_a_try
        failed = replace(
            released,
            failed_tries=self.failed_tries + counts,
            setbacks=self.setbacks + (not counts),
            last_error=outcome.failure.message,
        )
        if isinstance(outcome, Dead):
            return replace(failed, state=OutboxState.DEAD)
        return replace(failed, available_at=outcome.available_at)

    def replayed(self, reason: str, now: float) -> OutboxEntry:
        """Moves a DELIVERED or DEAD entry back to PENDING, and resets its tries."""
        if self.state not in (OutboxState.DELIVERED, OutboxState.DEAD):
            raise ForbiddenTransitionError(self.event_id, self.state, OutboxState.PENDING)
        return replace(
            self,
            state=OutboxState.PENDING,
            available_at=now,
            failed_tries=0,
            setbacks=0,
            last_error=reason,
            delivered_at=None,
            delivery=None,
            confirmed_at=None,
        )

    def reopened(self, failure: Failure, now: float) -> OutboxEntry:
        """Moves a DELIVERED entry back to PENDING, since the delivery is missing on chain."""
        if self.state is not OutboxState.DELIVERED:
            raise ForbiddenTransitionError(self.event_id, self.state, OutboxState.PENDING)
        pause = 0.0 if self.setbacks == 0 else backoff(1.0, self.setbacks, cap=_LONGEST_PAUSE)
        return replace(
            self,
            state=OutboxState.PENDING,
            available_at=now + (STUCK_PAUSE if self.setbacks + 1 >= STUCK_AFTER else pause),
            failed_tries=self.failed_tries + failure.kind.costs_a_try,
            setbacks=self.setbacks + 1,
            last_error=failure.message,
            delivered_at=None,
            delivery=None,
            confirmed_at=None,
        )


def event_id_of(message_id: bytes, gmp: Gmp, attempt: int) -> str:
    """Returns an entry's id, which is the same for every observation of its dispatch."""
    return f"0x{message_id.hex()}/{gmp.label}/{attempt}"


def delivery_of(event_id: str) -> tuple[bytes, Gmp]:
    """Parses an entry's id into message id and GMP."""
    message_id, label, _ = event_id.split("/")
    return decode_hex(message_id), Gmp.parse(label)


def ordering_key_of(dispatch: Dispatch) -> str:
    """Returns the lane and GMP as one key.

    A setting decides whether a failing entry blocks later entries with the same key; see `Outbox.claim`.
    """
    return f"{dispatch.source_chain}>{dispatch.destination_chain}/{dispatch.gmp.label}"


@dataclass(frozen=True, slots=True)
class Delivered:
    """Outcome of a claim: delivered, or, without `delivery`, committed before sending."""

    claim: Claim
    delivery: ObservedDelivery | None
    executed: bool = False  # whether its transaction is known to have executed the message as well


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Outcome of a claim: failed, to be retried at `available_at` (Unix seconds)."""

    claim: Claim
    failure: Failure
    available_at: float


@dataclass(frozen=True, slots=True)
class Dead:
    """Outcome of a claim: failed, not to be retried."""

    claim: Claim
    failure: Failure


@dataclass(frozen=True, slots=True)
class Postponed:
    """Outcome of a claim: postponed until `available_at` (Unix seconds). Does not count as a try."""

    claim: Claim
    why: str
    available_at: float


Undelivered = TryAgain | Dead | Postponed
Outcome = Delivered | Undelivered


def lease_expired(entry: OutboxEntry, now: float) -> TryAgain:
    """Returns the outcome of a claim whose lease has expired."""
    message = f"{entry.claimed_by} did not finish before its lease ran out"
    failure = Failure(at=now, kind=FailureKind.INTERRUPTED, code="LeaseExpired", message=message)
    return TryAgain(entry.current_claim, failure, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCount:
    """The number of entries of one lane and GMP in a state, and when the oldest of them began to wait."""

    source_chain: int
    destination_chain: int
    gmp: Gmp
    state: OutboxState
    count: int
    failing: int  # number of those that failed at least once
    stuck: int  # number of those with `STUCK_AFTER` setbacks that are not confirmed
    oldest: float  # Unix seconds: the smallest created_at


def snapshot_of(entries: Iterable[OutboxEntry]) -> DeliverySnapshot:
    """Summarises the state of a message's deliveries."""
    return tuple(
        SnapshotLine(
            event_id=one.event_id, state=one.state.value, failed_tries=one.failed_tries, last_error=one.last_error
        )
        for one in entries
    )


def shared_out(due: Sequence[OutboxEntry], fresh: Sequence[OutboxEntry], limit: int) -> list[OutboxEntry]:
    """Selects the entries to claim: all fresh ones, then the oldest ones for the remaining slots of `limit`.

    Args:
        due: Oldest entries, in the order in which they are due.
        fresh: Entries for the live-traffic share, in the same order; the first ones may also be in `due`.
        limit: Number of slots.
    """
    kept = {entry.event_id for entry in fresh}
    others = [entry.event_id for entry in due if entry.event_id not in kept]
    kept.update(others[: max(0, limit - len(fresh))])
    known = {entry.event_id for entry in due}
    return [entry for entry in due if entry.event_id in kept] + [one for one in fresh if one.event_id not in known]
