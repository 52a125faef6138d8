"""Derives the operations on a message that its routers would accept now. Does no I/O.

`tests/anvil/test_advice.py` checks against real routers that every offered operation succeeds, and that all
others fail.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import PausedThing, PauseRecord
from bridge.protocol.message import Kind
from bridge.protocol.status import Status
from bridge.protocol.times import utc


class Act(StrEnum):
    """An operation on a message, named after its command: `waybill message …`."""

    RETRY = "retry"
    CANCEL = "cancel"
    EXECUTE = "execute"
    FUND = "fund"
    EXPIRE = "expire"


class Role(StrEnum):
    """The accounts from which a router accepts a call."""

    ANYONE = "anyone"
    SENDER = "its sender"
    SENDER_OR_RETRIER = "its sender, or the retrier its sender appointed"


@dataclass(frozen=True, slots=True)
class Offer:
    """An operation that the router accepts now, and the accounts that may call it."""

    act: Act
    by: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Facts other than a message's state that determine which operations are possible.

    Times are Unix seconds. The default values mean that the fact is unknown.

    Attributes:
        retriable: whether the message was created as retriable; None if unknown.
        is_ended: whether the destination's router has marked the message executed, expired or cancelled.
        is_cancelling: whether the sender has requested a cancellation.
        cancellation: the id of the cancellation message, if known.
        source_expired: whether the source's router considers the message expired and rejects a retry.
        source_paused_until: the end of a pause of the lane on the source; None if there is none.
        destination_paused_until: the end of a pause of the lane on the destination; None if there is none.
        has_letter: whether the message has a dead letter.
        is_decided: whether an operator has decided about every dead letter.
        replaced_by: the id of the message that replaced an ORPHANED one.
    """

    retriable: bool | None = None
    is_ended: bool = False
    is_cancelling: bool = False
    cancellation: bytes | None = None
    source_expired: bool = False
    source_paused_until: int | None = None
    destination_paused_until: int | None = None
    has_letter: bool = False
    is_decided: bool = False
    replaced_by: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The parts of a message's state that determine which operations are possible.

    Attributes:
        status: the state shown.
        kind: the message's kind.
        has_quorum: whether enough receipts count.
        lacking: the number of GMPs that must still carry the message to reach the quorum.
        untried: GMPs of the lane that do not carry the message and are not paused.
        circumstances: the other facts.
    """

    status: Status
    kind: Kind
    has_quorum: bool = False
    lacking: int = 0
    untried: tuple[Gmp, ...] = ()
    circumstances: Circumstances = Circumstances()

    @property
    def retry_option(self) -> str:
        """Returns the `--gmps` option of a retry command, with as many untried GMPs as the quorum still needs."""
        chosen = self.untried[: max(1, self.lacking)]
        return f" --gmps {','.join(gmp.label for gmp in chosen)}" if chosen else ""


_UNDER_WAY: Final = frozenset({Status.ROUTED, Status.RECEIVED, Status.STALLED, Status.DEAD})
_REFUSED: Final = frozenset({Status.EXECUTION_FAILED, Status.EXECUTION_DEFERRED})


def offers(standing: Standing) -> tuple[Offer, ...]:
    """Returns the useful operations that the message's routers accept now, best first.

    A retry also needs GMPs that are not paused. The command or the wallet chooses them.
    """
    found = []
    if _may_execute(standing):
        found.append(Offer(Act.EXECUTE, Role.ANYONE))
    if (
        standing.status is Status.EXPIRED
        and not standing.circumstances.is_ended
        and standing.circumstances.destination_paused_until is None
    ):
        found.append(Offer(Act.EXPIRE, Role.ANYONE))
    if standing.status is Status.UNFUNDED and _takes_sends(standing):
        found.append(Offer(Act.FUND, Role.ANYONE))
    if _may_retry(standing):
        # What a report says is public, so its router lets anyone pay for it.
        by = Role.ANYONE if standing.kind is Kind.REPORT else Role.SENDER_OR_RETRIER
        found.append(Offer(Act.RETRY, by))
    if _may_cancel(standing):
        found.append(Offer(Act.CANCEL, Role.SENDER))
    return tuple(found)


def _takes_sends(standing: Standing) -> bool:
    """Whether the source router would send the message, for the first time or again."""
    return (
        not standing.circumstances.is_cancelling
        and not standing.circumstances.source_expired
        and standing.circumstances.source_paused_until is None
    )


def _may_retry(standing: Standing) -> bool:
    return (
        standing.status in _UNDER_WAY
        and standing.circumstances.retriable is True
        and not standing.has_quorum
        and not standing.circumstances.is_ended
        and _takes_sends(standing)
    )


def _may_cancel(standing: Standing) -> bool:
    return (
        standing.status in _UNDER_WAY | _REFUSED | {Status.UNFUNDED}
        and standing.kind < Kind.CANCELLATION
        and not standing.circumstances.is_cancelling
        and not standing.circumstances.is_ended
        and standing.circumstances.source_paused_until is None
    )


def _may_execute(standing: Standing) -> bool:
    """Whether the router would call the recipient, which may still revert."""
    return (
        standing.status in _UNDER_WAY | _REFUSED
        and standing.has_quorum
        and not standing.circumstances.is_ended
        and standing.circumstances.destination_paused_until is None
    )


def next_action(standing: Standing, message_id: bytes) -> str:
    """Returns the recommended next step, as a sentence without a full stop, with commands in backticks."""
    name = f"0x{message_id.hex()}"
    acts = {offer.act for offer in offers(standing)}
    replaced_by = standing.circumstances.replaced_by
    match standing.status:
        case Status.UNFUNDED:
            return _unfunded(standing, acts, name)
        case Status.EXPIRED:
            return _expired(standing, acts, name)
        case Status.ORPHANED if replaced_by is not None:
            return f"follow the message that replaced it: `waybill message show 0x{replaced_by.hex()}`"
        case status if status in _UNDER_WAY | _REFUSED:
            return _open(standing, acts, name)
        case status:
            return _WHEN_NOTHING_ELSE[status].format(id=name)


def _open(standing: Standing, acts: set[Act], name: str) -> str:
    """Returns the next step for a message that may still be executed."""
    status, circumstances = standing.status, standing.circumstances
    if circumstances.is_cancelling:
        known = circumstances.cancellation
        where = f"; `waybill message show 0x{known.hex()}` says where that is" if known else ""
        return f"wait for its cancellation to arrive{where}"
    if Act.EXECUTE in acts:
        return f"{_EXECUTE.get(status, 'execute it, its quorum is reached')}: `waybill message execute {name}`"
    if standing.has_quorum:
        return _once_open(circumstances.destination_paused_until, "execute it")
    if status is Status.DEAD and circumstances.has_letter:
        todo = "nothing: an operator has decided" if circumstances.is_decided else "decide"
        return f"{todo} about its dead letter: `waybill dlq show {name}`"
    is_stuck = standing.lacking > 0 or status in (Status.STALLED, Status.DEAD)
    return _stuck(standing, acts, name) if is_stuck else _WHEN_NOTHING_ELSE[status].format(id=name)


def _unfunded(standing: Standing, acts: set[Act], name: str) -> str:
    if Act.FUND in acts:
        return f"fund it: `waybill message fund {name}`"
    if standing.circumstances.is_cancelling:
        return "nothing: its sender cancelled it before anyone paid"
    if standing.circumstances.source_expired:
        return "send it again as a new message: its time ran out before anyone paid"
    return _once_open(standing.circumstances.source_paused_until, "fund it")


def _stuck(standing: Standing, acts: set[Act], name: str) -> str:
    """Returns the next step if the message's GMPs do not deliver, or too few carry it."""
    if Act.RETRY in acts:
        return _retry(standing, name)
    if standing.circumstances.source_paused_until is not None:
        return _once_open(standing.circumstances.source_paused_until, "look again")
    if standing.circumstances.retriable is None:
        return "see whether its source answers, which says whether it can be retried: `waybill doctor`"
    why = "its time is over on its source" if standing.circumstances.source_expired else "it was not sent as retriable"
    refused = f"it can't be retried, because {why}"
    wait = f"no more GMPs can carry it: {refused}" if standing.lacking else f"wait for its GMPs: {refused}"
    if Act.CANCEL in acts:
        return f"{wait}; or cancel it, as its sender, and send a new one: `waybill message cancel {name}`"
    return wait


def _retry(standing: Standing, name: str) -> str:
    by = "" if standing.kind is Kind.REPORT else f", as {Role.SENDER_OR_RETRIER}"
    if not standing.lacking:
        return f"retry it over other GMPs{by}: `waybill message retry {name}`"
    if not standing.untried:
        return "have its recipient require fewer GMPs: every GMP of its lane that is not paused already carries it"
    more = "another GMP" if standing.lacking == 1 else f"{standing.lacking} more GMPs"
    return f"retry it over {more}, since too few carry it{by}: `waybill message retry {name}{standing.retry_option}`"


def _expired(standing: Standing, acts: set[Act], name: str) -> str:
    if standing.circumstances.is_ended:
        return "send it again as a new message"
    if Act.EXPIRE in acts:
        return f"mark it as expired: `waybill message expire {name}`; then send it again as a new message"
    return "send it again as a new message; while the lane is paused this one can't be marked as expired"


def _once_open(until: int | None, what: str) -> str:
    if until is None:
        return f"wait, then {what}"
    return f"wait until {utc(until)} UTC: the lane is paused; then {what}"


_EXECUTE: Final = {
    Status.EXECUTION_FAILED: "make the recipient accept it, then execute it",
    Status.EXECUTION_DEFERRED: "execute it with enough gas",
}

_TOO_FEW: Final = "wait: too few of its receipts still count, so more GMPs must deliver"

_WHEN_NOTHING_ELSE: Final = {
    Status.EXECUTION_FAILED: _TOO_FEW,
    Status.EXECUTION_DEFERRED: _TOO_FEW,
    Status.ROUTED: "wait: no GMP has delivered yet",
    Status.RECEIVED: "wait: more GMPs must deliver before the quorum is reached",
    Status.EXECUTED: "nothing: the recipient has it",
    Status.CANCELLED: "nothing: its sender cancelled it",
    Status.DIVERGED: "look at the evidence before anything else: `waybill index divergences {id}`",
    Status.ORPHANED: "wait: its transaction may come back; otherwise send it again as a new message",
    Status.UNKNOWN: "let the index catch up: `waybill status` shows how far each chain is",
}


def lane_pause(pauses: Iterable[PauseRecord], other_chain: int, now: float) -> int | None:
    """Returns the end of the lane's current pause in Unix seconds, or None if the lane is not paused."""
    found = (one.ends for one in pauses if one.thing is PausedThing.LANE and one.number == other_chain)
    return max((ends for ends in found if now < ends), default=None)
