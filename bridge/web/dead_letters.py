"""Reads a dead letter for its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eth_utils import decode_hex

from bridge.dead_letters.analysis import Analysis, Situation
from bridge.dead_letters.review import analyse_letter, latest_document
from bridge.protocol.message import EnvelopeError, Message, decode_envelope
from bridge.protocol.status import Status
from bridge.queries.dead_letters import LetterAct, letter_acts, suggestion
from bridge.records.dead_letters import DeadLetter, LogRecord
from bridge.web.sources import Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownLetter:
    """The contents of a dead letter's page."""

    letter: DeadLetter
    document: Mapping[str, Any]
    message: Message | None  # None: of an unknown version
    reason: str
    failures: Sequence[dict[str, Any]]
    analysis: Analysis | None  # None: its message cannot be read
    suggestion: str  # the next step, with its command in backticks
    history: Sequence[LogRecord]
    acts: tuple[LetterAct, ...]


def read_letter(sources: Sources, event_id: str) -> ShownLetter | None:
    """Returns a letter with its history and analysis, or None if it does not exist."""
    log = sources.dead_letters()
    letter = log.letter(event_id) if log else None
    if log is None or letter is None:
        return None
    history = log.history(event_id)
    document = latest_document(history)
    message = _message(document)
    analysis = None
    if message is not None:
        situation = _situation(sources, message)
        store, now = sources.store(), sources.clock()
        analysis = analyse_letter(letter, document, message, log=log, store=store, situation=situation, now=now)
    acts = letter_acts(letter, analysis)
    return ShownLetter(
        letter=letter,
        document=document,
        message=message,
        reason=document["reason"],
        failures=document["failureHistory"],
        analysis=analysis,
        suggestion=suggestion(letter, analysis, acts) if analysis else "",
        history=history,
        acts=acts,
    )


def _message(document: Mapping[str, Any]) -> Message | None:
    try:
        return decode_envelope(decode_hex(document["originalMessage"])).message
    except (KeyError, ValueError, EnvelopeError):
        return None  # a version that this code does not read


def _situation(sources: Sources, message: Message) -> Situation:
    """Returns the situation according to the index. For a decision, the chain itself is queried."""
    index = sources.index()
    record = index.message(message.id) if index else None
    if index is None or record is None:
        return Situation(known=False)
    return Situation(
        executed=record.status is Status.EXECUTED, ended=record.status in (Status.EXPIRED, Status.CANCELLED)
    )
