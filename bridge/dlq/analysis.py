"""What an operator has to know before deciding about a dead letter: the four questions of the document, answered. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.protocol.message import Kind, Message
from bridge.records.dead_letters import DeadLetter
from bridge.records.failures import FailureKind
from bridge.records.outbox import OutboxEntry, OutboxState
from bridge.records.retries import RETRY_ROUTE

_SYSTEMIC: Final = 3  # letters of the same lane, GMP or error within an hour
_HOUR: Final = 3600  # seconds
_GOVERNED: Final = frozenset({Kind.GOVERNANCE_EXECUTE, Kind.REGULATORY_ACTION})


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """How the message stands on its destination now, as far as anybody could be asked."""

    executed: bool = False
    ended: bool = False  # expired or cancelled
    known: bool = True  # False: the chain did not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The answers, each a verdict and why."""

    permanent: str
    systemic: str
    would_succeed: str
    governance: str
    suggestion: str  # a decision, for a human to take or leave


def analyse(
    letter: DeadLetter,
    document: Mapping[str, Any],
    message: Message,
    *,
    others: Sequence[DeadLetter],
    deliveries: Sequence[OutboxEntry],
    situation: Situation,
    now: float,
) -> Analysis:
    """Answers the four questions.

    Args:
        letter: which one.
        document: that of its first or latest entering.
        message: the original.
        others: letters that entered within an hour before or after it.
        deliveries: all deliveries of the message.
        situation: the destination's word.
        now: Unix seconds.
    """
    permanent, why_permanent = _permanent(document)
    systemic, why_systemic = _systemic(letter, others)
    hopeless = _hopeless(message, situation, now)
    alive = [one for one in deliveries if one.state in (OutboxState.PENDING, OutboxState.CLAIMED)]
    governed = systemic or message.kind in _GOVERNED
    return Analysis(
        permanent=why_permanent,
        systemic=why_systemic,
        would_succeed=hopeless or _prospect(permanent=permanent, alive=alive),
        governance=_governance(message, systemic=systemic),
        suggestion=_suggestion(
            executed=situation.executed, hopeless=hopeless, permanent=permanent, governed=governed, alive=alive
        ),
    )


_SAY_NOTHING: Final = (FailureKind.INTERRUPTED, FailureKind.UNANSWERED, FailureKind.UNDONE)
"""Failures that say nothing about the message."""


def _permanent(document: Mapping[str, Any]) -> tuple[bool, str]:
    history = document["failureHistory"]
    if document["gmp"] == RETRY_ROUTE:  # its last record is of the budget, and says nothing about the cause
        history = history[:-1]
        if not history:
            return False, "not known: its retries are paid for and silent, and no delivery of it has failed here"
    last = history[-1]
    texts = {failure["errorMessage"] for failure in history if failure["kind"] not in _SAY_NOTHING}
    if last["kind"] == FailureKind.TERMINAL:
        return True, f"permanent: {last['errorCode']} says that no try can succeed ({last['errorMessage']})"
    if last["kind"] in (FailureKind.TRANSIENT, FailureKind.UNANSWERED, FailureKind.UNDONE):
        return False, f"transient: the last error is {last['errorCode']} ({last['errorMessage']})"
    if len(texts) == 1 and len(history) > 1:
        return True, f"likely permanent: all {len(history)} tries ended with the same refusal ({last['errorMessage']})"
    return False, f"not known: the tries ended in {len(texts)} different ways, the last one with {last['errorMessage']}"


def _systemic(letter: DeadLetter, others: Sequence[DeadLetter]) -> tuple[bool, str]:
    near = [
        one for one in others if one.event_id != letter.event_id and abs(one.entered_at - letter.entered_at) <= _HOUR
    ]
    groups = {
        "on its lane": [one for one in near if _lane(one) == _lane(letter)],
        f"over {letter.gmp}": [one for one in near if one.gmp == letter.gmp],
        f"with {letter.error_code}": [one for one in near if one.error_code == letter.error_code],
    }
    counted = ", ".join(f"{len(group)} {where}" for where, group in groups.items())
    is_systemic = any(len(group) >= _SYSTEMIC for group in groups.values())
    verdict = "systemic" if is_systemic else "isolated"
    return is_systemic, f"{verdict}: within an hour of it there are {counted}"


def _hopeless(message: Message, situation: Situation, now: float) -> str | None:
    if situation.executed:
        return "not needed: the message was executed meanwhile"
    if situation.ended:
        return "no: the message has expired or was cancelled on its destination"
    if message.expires_at is not None and message.expires_at < now:
        return f"no: it expired {now - message.expires_at:.0f} s ago; only a new message could arrive (`waybill dlq retry`)"
    if not situation.known:
        return "not known: the destination does not answer now"
    return None


def _prospect(*, permanent: bool, alive: Sequence[OutboxEntry]) -> str:
    if alive:
        names = ", ".join(sorted({one.dispatch.gmp.label for one in alive}))
        return f"wait first: {names} still tries to deliver it"
    if permanent:
        return "only after the cause is put right: the same delivery would be refused again"
    return "yes, once the cause is gone: the message is alive on its destination (`waybill dlq requeue`)"


def _governance(message: Message, *, systemic: bool) -> str:
    if message.kind is Kind.GOVERNANCE_EXECUTE:
        return "yes: a governance decision that can't be carried out needs a new vote"
    if message.kind is Kind.REGULATORY_ACTION:
        return "yes, unless it is delivered soon: a regulatory action may not be left undone by an operator alone"
    return "yes: more than one message is affected" if systemic else "no: nothing but this message is affected"


def _suggestion(
    *, executed: bool, hopeless: str | None, permanent: bool, governed: bool, alive: Sequence[OutboxEntry]
) -> str:
    if executed or alive:
        return "none yet: wait"
    if governed and permanent:
        return "escalate"
    if hopeless:
        return "retry or abandon"
    return "abandon or escalate, or requeue after a fix" if permanent else "requeue"


def _lane(letter: DeadLetter) -> tuple[int, int]:
    return letter.source_chain, letter.destination_chain
