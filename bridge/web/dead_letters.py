"""Dead letters, as their pages show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from bridge.dead_letters.analysis import Analysis, NamedPause, Situation, analyse, named_pause
from bridge.domain.dead_letters import OPEN, DeadLetter, Decision, LetterStatus, LogRecord, RecordKind
from bridge.domain.outbox import OutboxEntry, OutboxState
from bridge.protocol.message import EnvelopeError, Message, decode_envelope
from bridge.protocol.status import Status
from bridge.web.rendering import words as said
from bridge.web.sources import Sources

_HOUR: Final = 3600.0
_NEIGHBOURS: Final = 1_000  # letters looked at, to tell whether one is alone


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterAct:
    """Something that an operator can decide, and the command that does the same."""

    kind: str  # requeue, abandon, escalate or retry
    decision: Decision | None  # None: by its command only
    title: str
    why: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterStep:
    """A record of the letter's history."""

    sequence: int
    at: float  # Unix seconds
    what: RecordKind
    who: str  # signed it
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLetter:
    """All that the page of a dead letter shows."""

    letter: DeadLetter
    reason: str
    failures: Sequence[dict[str, Any]]
    analysis: Analysis | None  # None: its document is archived
    suggestion: str  # what to do next; a command stands between backticks
    history: tuple[LetterStep, ...]
    acts: tuple[LetterAct, ...]


def listed(sources: Sources, status: LetterStatus | None, limit: int) -> tuple[list[DeadLetter], list[OutboxEntry]]:
    """The newest letters, and deliveries that were given up without one.

    Args:
        sources: where to look.
        status: only letters in this state.
        limit: at most so many of each.
    """
    log, store = sources.dead_letters(), sources.store()
    dead_letters = (
        log.dead_letters(statuses=frozenset(LetterStatus if status is None else {status}), limit=limit) if log else []
    )
    dead = store.outbox.listed(state=OutboxState.DEAD, limit=limit) if store and status is None else []
    return dead_letters, [entry for entry in dead if log is None or log.letter(entry.event_id) is None]


def read_letter(sources: Sources, event_id: str) -> ShownLetter | None:
    """Everything that is known of a letter, or None if there is none."""
    log = sources.dead_letters()
    letter = log.letter(event_id) if log else None
    if log is None or letter is None:
        return None
    history = log.history(event_id)
    entered = [record for record in history if record.kind in (RecordKind.ENTERED, RecordKind.RETURNED)]
    document = entered[-1].document
    message = _message(document)
    analysis = None
    if document is not None and message is not None:
        store = sources.store()
        analysis = analyse(
            letter,
            document,
            message,
            others=log.dead_letters(since=letter.entered_at - _HOUR, limit=_NEIGHBOURS),
            deliveries=store.outbox.entries(letter.message_id) if store else [],
            situation=_situation(sources, message, named_pause(document)),
            now=sources.clock(),
        )
    acts = _acts(sources, letter, analysis) if letter.status in OPEN else ()
    return ShownLetter(
        letter=letter,
        reason=document["reason"] if document else "its document is archived",
        failures=document["failureHistory"] if document else [],
        analysis=analysis,
        suggestion=_suggestion(analysis, acts),
        history=tuple(_step(record) for record in history),
        acts=acts,
    )


def _suggestion(analysis: Analysis | None, acts: Sequence[LetterAct]) -> str:
    """What the analysis suggests, with its command if it is a single decision."""
    if analysis is None:
        return ""
    command = next((act.command for act in acts if act.kind == analysis.suggestion), None)
    return f"{analysis.suggestion}: `{command}`" if command else analysis.suggestion


def _message(document: Any) -> Message | None:
    try:
        return decode_envelope(bytes.fromhex(document["originalMessage"].removeprefix("0x"))).message
    except (TypeError, KeyError, ValueError, EnvelopeError):
        return None  # archived, or of a version that this code does not read


def _situation(sources: Sources, message: Message, pause: NamedPause | None) -> Situation:
    """What the index says; the chain itself is asked when something is decided."""
    index = sources.index()
    record = index.message(message.id) if index else None
    if index is None or record is None:
        return Situation(known=False)
    known = [
        one.ends
        for one in index.pauses(message.destination_chain)
        if pause is not None and (one.thing, one.number) == (pause.thing, pause.number)
    ]
    return Situation(
        executed=record.status is Status.EXECUTED,
        ended=record.status in (Status.EXPIRED, Status.CANCELLED),
        paused_until=max(known, default=None),
    )


def _step(record: LogRecord) -> LetterStep:
    document = record.document or {}
    match record.kind:
        case RecordKind.DECIDED:
            words = f"{document.get('decisionType')}: {document.get('rationale')}"
        case RecordKind.RECOVERED:
            words = f"delivered in block {document.get('block')}"
        case _:
            words = f"Given up: {said(str(document.get('reason', 'archived')))}"
    return LetterStep(sequence=record.sequence, at=record.at, what=record.kind, who=record.signer, words=words)


def _acts(sources: Sources, letter: DeadLetter, analysis: Analysis | None) -> tuple[LetterAct, ...]:
    def act(kind: str, decision: Decision | None, title: str, why: str) -> LetterAct:
        command = sources.command(f'dlq {kind} {letter.event_id} --rationale "…"')
        return LetterAct(kind=kind, decision=decision, title=title, why=why, command=command)

    until = analysis.not_before if analysis else None
    end = "" if until is None else f"{datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M:%S} UTC"
    gone = f"Wait until {end}: before that the router refuses it." if end else "The cause must be gone."
    found = (
        act(
            "requeue",
            Decision.REQUEUE,
            "Requeue",
            f"Delivers the same message again, with all its tries. {gone}",
        ),
        act(
            "reissue",
            None,
            "Re-issue",
            "Sends a new message in its place. Its sender signs too, so this needs the command.",
        ),
        act(
            "escalate",
            Decision.GOVERNANCE_ESCALATION,
            "Escalate",
            "Hands it to governance. It stays open until they decide.",
        ),
        act(
            "abandon",
            Decision.ABANDON,
            "Abandon",
            "Gives it up for good. A sender that is a contract gets a message about it.",
        ),
    )
    return tuple(one for one in found if one.kind != "requeue" or analysis is None or analysis.can_requeue)
