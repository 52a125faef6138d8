"""The outbox: one entry per (message, GMP, attempt) that is to be delivered.

Its states and the ways between them are those of the Open Outbox specification. They live here, in pure functions, so
that every store allows the same ones.
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
    """Where an entry is."""

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
"""The only ways between states."""


STUCK_AFTER: Final = 20
"""Setbacks of an entry after which it is stuck: operators are alerted, and it is seldom looked at again."""

STUCK_PAUSE: Final = 600.0
"""Seconds between two looks at what is stuck."""

_LONGEST_PAUSE: Final = 60.0  # seconds before a delivery that was taken back is made again


@dataclass(frozen=True, slots=True)
class LiveTrafficQuota:
    """How many places live traffic is given before all others: see `OutboxEntry.is_fresh`."""

    places: int
    since: float  # Unix seconds


class ForbiddenTransitionError(Exception):
    """A change of state that the outbox does not know."""

    def __init__(self, event_id: str, before: OutboxState, after: OutboxState) -> None:
        super().__init__(f"outbox entry {event_id} is {before} and can't become {after}")


class StaleClaimError(Exception):
    """The worker lost its claim: the lease ran out and another worker may have the entry, or its source was reorged away."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(f"{claim.worker} no longer has outbox entry {claim.event_id} (fence {claim.fence})")


@dataclass(frozen=True, slots=True)
class Claim:
    """The right of one worker to work on one entry, until another one claims it."""

    event_id: str
    worker: str
    fence: int  # grows with each claim of the entry


@dataclass(frozen=True, slots=True)
class ObservedDelivery:
    """Where a GMP's delivery was seen on the destination."""

    block: BlockRef  # of the transaction, or, without one, the block at whose end it was seen
    transaction_hash: bytes | None  # None: another account delivered


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A dispatch, and how far its delivery is.

    Attributes:
        failed_tries: tries that ended without a delivery.
        setbacks: how often it went back to PENDING for what says nothing about the message, which costs no try.
        lease_until: Unix seconds; after it another worker may claim the entry.
        orphaned_at: when the source's block fell to a reorg; such an entry is not claimed, and comes back when its
            dispatch does.
        confirmed_at: when the delivery became final on the destination.
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
        """The entry for a dispatch that was just seen."""
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
        """The lane that it is on."""
        return Lane(self.dispatch.source_chain, self.dispatch.destination_chain)

    @property
    def current_claim(self) -> Claim:
        """The claim that the entry is under."""
        if self.claimed_by is None:
            raise ValueError(f"outbox entry {self.event_id} is {self.state}: no worker has it")
        return Claim(self.event_id, self.claimed_by, self.fence)

    def is_fresh(self, since: float) -> bool:
        """Whether it is live traffic: due since that moment (Unix seconds), and never given out before the claim it is under."""
        return self.fence <= (1 if self.state is OutboxState.CLAIMED else 0) and self.available_at >= since

    def is_claimed_by(self, claim: Claim) -> bool:
        """Whether that claim is still good."""
        return self.state is OutboxState.CLAIMED and self.claimed_by == claim.worker and self.fence == claim.fence

    def claimed(self, worker: str, now: float, lease: float) -> OutboxEntry:
        """PENDING → CLAIMED."""
        self._require(OutboxState.CLAIMED)
        return replace(
            self,
            state=OutboxState.CLAIMED,
            fence=self.fence + 1,
            claimed_at=now,
            claimed_by=worker,
            lease_until=now + lease,
        )

    def delivered(self, claim: Claim, delivery: ObservedDelivery | None, now: float) -> OutboxEntry:
        """CLAIMED → DELIVERED; without a delivery where losing is preferred to repeating: it is promised only.

        Raises:
            StaleClaimError: the claim is no longer good.
        """
        self._require_claim(claim, OutboxState.DELIVERED)
        return replace(
            self._released(), state=OutboxState.DELIVERED, delivered_at=now, delivery=delivery, confirmed_at=None
        )

    def to_try_again(self, claim: Claim, failure: Failure, available_at: float) -> OutboxEntry:
        """CLAIMED → PENDING: to be tried again at `available_at`.

        Raises:
            StaleClaimError: the claim is no longer good.
        """
        self._require_claim(claim, OutboxState.PENDING)
        return replace(self._failed(failure), state=OutboxState.PENDING, available_at=available_at)

    def postponed(self, claim: Claim, why: str, available_at: float) -> OutboxEntry:
        """CLAIMED → PENDING: nothing was tried, so its tries are as they were.

        Raises:
            StaleClaimError: the claim is no longer good.
        """
        self._require_claim(claim, OutboxState.PENDING)
        return replace(self._released(), state=OutboxState.PENDING, last_error=visible(why), available_at=available_at)

    def marked_dead(self, claim: Claim, failure: Failure) -> OutboxEntry:
        """CLAIMED → DEAD: never tried again by itself.

        Raises:
            StaleClaimError: the claim is no longer good.
        """
        self._require_claim(claim, OutboxState.DEAD)
        return replace(self._failed(failure), state=OutboxState.DEAD)

    def replayed(self, reason: str, now: float) -> OutboxEntry:
        """DELIVERED or DEAD → PENDING: all its tries are open again."""
        if self.state is OutboxState.CLAIMED:
            raise ForbiddenTransitionError(self.event_id, self.state, OutboxState.PENDING)
        self._require(OutboxState.PENDING)
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
        """DELIVERED → PENDING: the delivery is not there after all. Its tries stay as they are, and each time it waits longer."""
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

    def moved(self, dispatch: Dispatch) -> OutboxEntry:
        """The same entry with its dispatch seen at another place on the source chain, after a reorg."""
        return replace(self, dispatch=dispatch, orphaned_at=None)

    def _released(self) -> OutboxEntry:
        return replace(self, claimed_at=None, claimed_by=None, lease_until=None)

    def _failed(self, failure: Failure) -> OutboxEntry:
        counts = failure.kind.costs_a_try
        return replace(
            self._released(),
            failed_tries=self.failed_tries + counts,
            setbacks=self.setbacks + (not counts),
            last_error=failure.message,
        )

    def _require(self, after: OutboxState) -> None:
        if (self.state, after) not in TRANSITIONS:
            raise ForbiddenTransitionError(self.event_id, self.state, after)

    def _require_claim(self, claim: Claim, after: OutboxState) -> None:
        if not self.is_claimed_by(claim):
            raise StaleClaimError(claim)
        self._require(after)


def event_id_of(message_id: bytes, gmp: Gmp, attempt: int) -> str:
    """The name of an entry: the same dispatch gets the same one, however often it is seen."""
    return f"0x{message_id.hex()}/{gmp.label}/{attempt}"


def delivery_of(event_id: str) -> tuple[bytes, Gmp]:
    """The message and the GMP of the entry with that name."""
    message_id, label, _ = event_id.split("/")
    return decode_hex(message_id), Gmp.parse(label)


def ordering_key_of(dispatch: Dispatch) -> str:
    """Lane and GMP. Whether a failing entry blocks those behind it is a setting of the relay, see `Outbox.claim`."""
    return f"{dispatch.source_chain}>{dispatch.destination_chain}/{dispatch.gmp.label}"


@dataclass(frozen=True, slots=True)
class Delivered:
    """A claim ends: the delivery is there, or, without one, is committed before it is made."""

    claim: Claim
    delivery: ObservedDelivery | None
    executed: bool = False  # whether its transaction is known to have executed the message as well


@dataclass(frozen=True, slots=True)
class TryAgain:
    """A claim ends: it failed, and is tried again at `available_at` (Unix seconds)."""

    claim: Claim
    failure: Failure
    available_at: float


@dataclass(frozen=True, slots=True)
class Dead:
    """A claim ends: it failed, and is not tried again."""

    claim: Claim
    failure: Failure


@dataclass(frozen=True, slots=True)
class Postponed:
    """A claim ends: nothing was tried, and it is looked at again at `available_at` (Unix seconds). No try is used up."""

    claim: Claim
    why: str
    available_at: float


Outcome = Delivered | TryAgain | Dead | Postponed


def apply_outcome(entry: OutboxEntry, outcome: Outcome, now: float) -> OutboxEntry:
    """The entry after its claim ended that way.

    Raises:
        StaleClaimError: the claim is no longer good.
    """
    match outcome:
        case Delivered(claim=claim, delivery=delivery):
            return entry.delivered(claim, delivery, now)
        case TryAgain(claim, failure, available_at):
            return entry.to_try_again(claim, failure, available_at)
        case Dead(claim, failure):
            return entry.marked_dead(claim, failure)
        case Postponed(claim, why, available_at):
            return entry.postponed(claim, why, available_at)


def lease_expired(entry: OutboxEntry, now: float) -> TryAgain:
    """How the claim of a worker that no longer renews it ends."""
    message = f"{entry.claimed_by} did not finish before its lease ran out"
    failure = Failure(at=now, kind=FailureKind.INTERRUPTED, code="LeaseExpired", message=message)
    return TryAgain(entry.current_claim, failure, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCount:
    """How many entries of one lane and GMP are in a state, and since when the oldest waits."""

    source_chain: int
    destination_chain: int
    gmp: Gmp
    state: OutboxState
    count: int
    failing: int  # of those, how many failed at least once
    stuck: int  # of those, how many had `STUCK_AFTER` setbacks and are not confirmed
    oldest: float  # Unix seconds: the smallest created_at


def snapshot_of(entries: Iterable[OutboxEntry]) -> DeliverySnapshot:
    """Where a message's deliveries are now."""
    return tuple(
        SnapshotLine(
            event_id=one.event_id, state=one.state.value, failed_tries=one.failed_tries, last_error=one.last_error
        )
        for one in entries
    )


def shared_out(due: Sequence[OutboxEntry], fresh: Sequence[OutboxEntry], limit: int) -> list[OutboxEntry]:
    """What a claim gives out: all of the fresh entries, and of `limit` places what they leave to the oldest.

    Args:
        due: the oldest entries, in the order in which they are due.
        fresh: those that the fresh ones' share is for, in the same order; the first of them may be among the others.
        limit: how many places there are.
    """
    kept = {entry.event_id for entry in fresh}
    others = [entry.event_id for entry in due if entry.event_id not in kept]
    kept.update(others[: max(0, limit - len(fresh))])
    known = {entry.event_id for entry in due}
    return [entry for entry in due if entry.event_id in kept] + [one for one in fresh if one.event_id not in known]
