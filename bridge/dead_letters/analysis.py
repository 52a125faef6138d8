"""Analysis that supports an operator's decision about a dead letter. Answers OIP's four questions. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.protocol.failures import FailureKind
from bridge.protocol.message import Kind, Message
from bridge.protocol.status import Status
from bridge.protocol.text import MOST_QUOTED, shortened
from bridge.records.dead_letters import ACTION_ROUTE, DeadLetter
from bridge.records.outbox import OutboxEntry, OutboxState

_SYSTEMIC: Final = 3  # letters of the same lane, GMP or error within an hour
_HOUR: Final = 3600  # seconds
_PAUSED: Final = re.compile(r"\b(Gmp|Lane)Paused\(")
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_ENDED: Final = frozenset({Status.EXECUTED, Status.EXPIRED, Status.CANCELLED})
_GOVERNED: Final = frozenset({Kind.GOVERNANCE_EXECUTE, Kind.REGULATORY_ACTION})


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The answers to the four questions. Each is a verdict with its reason."""

    permanent: str
    systemic: str
    would_succeed: str
    governance: str
    suggestion: str  # a suggested decision
    can_requeue: bool  # whether the same delivery could still succeed


def analyse(
    letter: DeadLetter,
    document: Mapping[str, Any],
    message: Message,
    *,
    others: Sequence[DeadLetter],
    deliveries: Sequence[OutboxEntry],
    status: Status | None,
    replacement: str | None = None,
    now: float,
) -> Analysis:
    """Answers the four questions.

    Args:
        letter: The letter.
        document: Document of the letter's first or latest entry.
        message: The original message.
        others: Letters that entered within an hour of this one.
        deliveries: All deliveries of the message.
        status: The message's state on its destination, expired whether marked or not; None if it is not known.
        replacement: Id of the message that replaces this one by an operator's decision, or None.
        now: Unix seconds.
    """
    permanent, why_permanent = _permanent(document)
    systemic, why_systemic = _systemic(letter, others)
    hopeless = _hopeless(message, status, replacement, now)
    alive = [one for one in deliveries if one.state in (OutboxState.PENDING, OutboxState.CLAIMED)]
    governed = systemic or message.kind in _GOVERNED
    if document["gmp"] == ACTION_ROUTE:
        return Analysis(
            permanent=why_permanent,
            systemic=why_systemic,
            would_succeed="not by an operator: the relayer retries the decision on its own, for as long as it can",
            governance=_governance(message, systemic=systemic),
            suggestion="reconcile",
            can_requeue=False,
        )
    return Analysis(
        permanent=why_permanent,
        systemic=why_systemic,
        would_succeed=hopeless or _prospect(permanent=permanent, alive=alive),
        governance=_governance(message, systemic=systemic),
        suggestion=_suggestion(
            executed=status is Status.EXECUTED,
            hopeless=hopeless,
            replacement=replacement,
            permanent=permanent,
            governed=governed,
            alive=alive,
        ),
        can_requeue=status not in _ENDED and replacement is None,
    )


_SAY_NOTHING: Final = (FailureKind.INTERRUPTED, FailureKind.UNANSWERED, FailureKind.UNDONE)
"""Failures that say nothing about the message."""


def _is_paused(error: str) -> bool:
    """Whether the router's own text in an error mentions a pause. Quoted text is untrusted, and ignored."""
    return _PAUSED.search(_QUOTED.sub("", error)) is not None


def _permanent(document: Mapping[str, Any]) -> tuple[bool, str]:
    history = document["failureHistory"]
    last = history[-1]
    why = shortened(last["errorMessage"], MOST_QUOTED)
    texts = {failure["errorMessage"] for failure in history if failure["kind"] not in _SAY_NOTHING}
    if last["kind"] == FailureKind.TERMINAL:
        return True, f"permanent: {last['errorCode']} says that no try can succeed ({why})"
    if _is_paused(last["errorMessage"]):
        return False, f"transient: every pause expires ({why})"
    if last["kind"] in (FailureKind.TRANSIENT, FailureKind.UNANSWERED, FailureKind.UNDONE):
        return False, f"transient: the last error is {last['errorCode']} ({why})"
    if len(texts) == 1 and len(history) > 1:
        return True, f"likely permanent: all {len(history)} tries ended with the same refusal ({why})"
    return False, f"not known: the tries ended in {len(texts)} different ways, the last one with {why}"


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
    return is_systemic, f"{verdict}: other dead letters within an hour of this one: {counted}"


def _hopeless(message: Message, status: Status | None, replacement: str | None, now: float) -> str | None:
    if status is Status.EXECUTED:
        return "not needed: the message was executed meanwhile"
    if replacement is not None:
        return f"not to be tried: the message was re-issued as {replacement}"
    if status in _ENDED:
        return "no: the message has expired or was cancelled on its destination; only a new one could arrive (`waybill dlq decide ID retry`)"
    if status is not None:
        return None
    if message.expires_at is not None and message.expires_at < now:
        return "not known: its time to live has run out, and the destination does not answer"
    return "not known: the destination does not answer now"


def _prospect(*, permanent: bool, alive: Sequence[OutboxEntry]) -> str:
    if alive:
        names = ", ".join(sorted({one.dispatch.gmp.label for one in alive}))
        return f"wait first: {names} still tries to deliver it"
    if permanent:
        return "only after the cause is put right: the same delivery would be refused again"
    return "yes, once the cause is gone: the message is alive on its destination (`waybill dlq decide ID requeue`)"


def _governance(message: Message, *, systemic: bool) -> str:
    if message.kind is Kind.GOVERNANCE_EXECUTE:
        return "yes: a governance decision that can't be carried out needs a new vote"
    if message.kind is Kind.REGULATORY_ACTION:
        return "yes, unless it is delivered soon: a regulatory action may not be left undone by an operator alone"
    return "yes: more than one message is affected" if systemic else "no: nothing but this message is affected"


def _suggestion(
    *,
    executed: bool,
    hopeless: str | None,
    replacement: str | None,
    permanent: bool,
    governed: bool,
    alive: Sequence[OutboxEntry],
) -> str:
    if executed or alive:
        return "none yet: wait"
    if replacement is not None:
        return (
            f"follow the new message: `waybill message show {replacement}`; abandon this letter once that one is there"
        )
    if governed and permanent:
        return "escalate"
    if hopeless:
        return "retry or abandon"
    return "abandon or escalate, or requeue after a fix" if permanent else "requeue"


def _lane(letter: DeadLetter) -> tuple[int, int]:
    return letter.source_chain, letter.destination_chain
