"""Every error of the StreamForge document, what it is here, and what is done about it.

Run as a module it writes docs/dead-letter-errors.md; a test compares the page with this table, and the table with what the
bridge does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from bridge.domain.errors import StoreBusyError
from bridge.domain.ports import CallRevertedError, TerminalError, TransientError, UnansweredError
from bridge.protocol.message import EnvelopeError

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "dead-letter-errors.md"


class Disposition(StrEnum):
    """What is done about an error."""

    RETRY = "retry"  # and a dead letter once the tries are spent
    DEAD_LETTER = "dead letter"  # at once
    HALT = "halt"  # nothing goes on before somebody has put it right
    NOT_STARTED = "refused at start"  # the relayer does not begin with it


@dataclass(frozen=True, slots=True)
class MappedError:
    """One row."""

    theirs: str
    ours: str
    error: type[Exception] | None  # that a delivery fails with; None where no delivery is involved
    disposition: Disposition
    why: str


ERRORS: Final = (
    MappedError(
        "KafkaProducer{recoverable: true}",
        "`TransientError` of a chain: no answer, no block in time",
        TransientError,
        Disposition.RETRY,
        "producing is delivering",
    ),
    MappedError(
        "KafkaProducer{recoverable: false}",
        "`TransientError` of a chain: a node calls the transaction malformed",
        TransientError,
        Disposition.RETRY,
        "one node's word is not final: the call is tried again with another nonce",
    ),
    MappedError(
        "KafkaConsumer{recoverable: true}",
        "`TransientError` while a source is read; the cursor stays where it is",
        TransientError,
        Disposition.RETRY,
        "consuming is observing; what is not recorded is read again",
    ),
    MappedError(
        "OffsetCommit",
        "`StoreBusyError` while outcomes are written",
        StoreBusyError,
        Disposition.RETRY,
        "always; the outcomes are kept, their leases are renewed",
    ),
    MappedError(
        "Redis",
        "`StoreBusyError`: there is no cache, what is seen is in the store",
        StoreBusyError,
        Disposition.RETRY,
        "",
    ),
    MappedError(
        "Io",
        "`UnansweredError`: no endpoint or service gave an answer that can be used",
        UnansweredError,
        Disposition.RETRY,
        "costs no try, since it says nothing about the message; an entry that is set back again and again raises an alert",
    ),
    MappedError(
        "MessageDeserialization",
        "`EnvelopeError`",
        EnvelopeError,
        Disposition.DEAD_LETTER,
        "bytes that are no envelope stay none; a log with such bytes never becomes an entry at all",
    ),
    MappedError(
        "FilterEvaluation",
        "`TerminalError` of an adapter: the dispatch is not one of ours",
        TerminalError,
        Disposition.DEAD_LETTER,
        "",
    ),
    MappedError(
        "TransformEvaluation",
        "`TerminalError` while a proof is made",
        TerminalError,
        Disposition.DEAD_LETTER,
        "",
    ),
    MappedError(
        "JsonPathNotFound",
        "`TerminalError`: evidence that the proof needs is not in the dispatch",
        TerminalError,
        Disposition.DEAD_LETTER,
        "",
    ),
    MappedError(
        "Compression, Decompression",
        "`TerminalError`: the codec's version is unknown",
        TerminalError,
        Disposition.DEAD_LETTER,
        "",
    ),
    MappedError(
        "RetryExhausted{message, attempts, last_error}",
        "`MAX_RETRIES_EXCEEDED`: the letter holds the message, every try and every error",
        None,
        Disposition.DEAD_LETTER,
        "",
    ),
    MappedError(
        "(retries over other GMPs have cost enough)",
        "`RETRY_BUDGET_SPENT`, with the reason `MAX_RETRIES_EXCEEDED`: the message is DEAD once none of its deliveries goes on",
        None,
        Disposition.DEAD_LETTER,
        "`waybill dlq requeue` lets one more retry through; a lane's budget of the day only puts off",
    ),
    MappedError(
        "(a contract reverts)",
        "`CallRevertedError`, explained by the contracts' own errors",
        CallRevertedError,
        Disposition.RETRY,
        "what a contract refuses now, in a pause for example, it may take later",
    ),
    MappedError(
        "Config", "`SettingsError`, all of them at once", None, Disposition.NOT_STARTED, "needs a change and a restart"
    ),
    MappedError(
        "DslParse",
        "`PolicyError`, `SettingsError`",
        None,
        Disposition.NOT_STARTED,
        "there is no language, only settings",
    ),
    MappedError(
        "DeadLetterQueue",
        "lane HALTED: the letter was not written in three tries",
        None,
        Disposition.HALT,
        "better to halt and say so than to lose data; ended by `waybill lane resume`",
    ),
)


def page() -> str:
    """The table as a page."""
    rows = "\n".join(f"| `{row.theirs}` | {row.ours} | {row.disposition} | {row.why} |" for row in ERRORS)
    return (
        "# Errors and their handling\n\n"
        "Generated from `bridge/dead_letters/errors.py` by `python -m bridge.dead_letters.errors`. The names on the left are those of the\n"
        "StreamForge document. What is retried becomes a dead letter once its kind's tries are spent.\n\n"
        "| there | here | what is done | why |\n|---|---|---|---|\n"
        f"{rows}\n"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
