"""Formats values as HTML. Everything is escaped, because many values are untrusted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from markupsafe import Markup

from bridge.protocol.gmps import Gmp, gmp_title
from bridge.protocol.numbers import count
from bridge.protocol.status import Status
from bridge.protocol.text import visible
from bridge.protocol.times import utc
from bridge.records.dead_letters import LetterStatus

Cell = str | Markup
"""Plain text is escaped when it is rendered."""

TONES: Final[dict[str, str]] = {
    Status.EXECUTED: "good",
    Status.ROUTED: "plain",
    Status.RECEIVED: "plain",
    Status.UNKNOWN: "quiet",
    Status.ORPHANED: "quiet",
    Status.CANCELLED: "quiet",
    Status.UNFUNDED: "warn",
    Status.STALLED: "warn",
    Status.EXECUTION_DEFERRED: "warn",
    Status.EXPIRED: "bad",
    Status.EXECUTION_FAILED: "bad",
    Status.DEAD: "bad",
    Status.DIVERGED: "bad",
    LetterStatus.PENDING_REVIEW: "warn",
    LetterStatus.RETRY_QUEUED: "plain",
    LetterStatus.ABANDONED: "quiet",
    LetterStatus.RECOVERED: "good",
    "critical": "bad",
    "high": "bad",
    "medium": "warn",
    "low": "quiet",
}
"""The tone of a state or a severity: good, warn, bad, plain or quiet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table. The first cell of each row is its heading. A table without rows shows the text `empty`."""

    label: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    empty: str = "None."


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page: a heading, a sentence, facts, a table, and a command."""

    title: str
    note: Cell = ""
    facts: Sequence[tuple[str, Cell]] = field(default=())
    table: Table | None = None
    command: str = ""


def harmless(text: str | None) -> str:
    """Makes control characters visible. They could otherwise change the reading direction or hide text."""
    return visible(text or "", keep="\n")


def cut(text: str | None, most: int = 300) -> str:
    """Returns untrusted text, made harmless and truncated to at most `most` characters."""
    shown = harmless(text)
    return shown if len(shown) <= most else f"{shown[:most]}…"


def hexadecimal(value: bytes) -> str:
    """Formats bytes as 0x-prefixed hex."""
    return f"0x{value.hex()}"


def shortened(value: bytes | str) -> str:
    """Shortens a long hex text to its beginning and end."""
    text = hexadecimal(value) if isinstance(value, bytes) else value
    return text if len(text) <= 20 else f"{text[:8]}…{text[-6:]}"


def words(name: str) -> str:
    """Converts a NAME_LIKE_THIS to words."""
    return name.replace("_", " ").lower()


_WRAPPED: Final = re.compile(r"ExecutionReverted\(messageId=0x[0-9a-f]+, reason=([^()]*(?:\([^()]*\))?)\)")
_ERROR: Final = re.compile(r"\b([A-Z]\w*)\(([^()]*)\)")


def without_solidity(text: str) -> str:
    """Rewrites contracts' errors as words: ``Closed()`` as ``Closed``, ``Low(needed=2)`` as ``Low (needed=2)``."""
    unwrapped = _WRAPPED.sub(r"\1", text)
    return _ERROR.sub(lambda found: f"{found[1]} ({found[2]})" if found[2] else found[1], unwrapped)


def tone(state: str) -> str:
    """See `TONES`."""
    return TONES.get(state, "plain")


@lru_cache
def state(name: str, look: str | None = None, text: str | None = None) -> Markup:
    """Returns a state as a coloured label."""
    return Markup('<span class="state {}">{}</span>').format(look or tone(name), text or words(name))


def tiles(counts: Mapping[Any, int], path: str) -> list[tuple[Markup, str, str]]:
    """Returns a tile for each state with a count: its label, the number, and the list of what is counted.

    `path` is the path of the list, to which the state is appended.
    """
    return [(state(name), count(number), f"{path}{name}") for name, number in counts.items() if number]


def quiet(text: Cell) -> Markup:
    """Returns text in a subdued colour."""
    return Markup('<span class="quiet">{}</span>').format(text)


def link(path: str, text: Cell) -> Markup:
    """Returns a link to a page of the explorer."""
    return Markup('<a href="{}">{}</a>').format(path, text)


@lru_cache
def gmp(number: int, *, is_delivered: bool | None = None) -> Markup:
    """Returns a GMP's icon and name, with a tick if it has delivered, or in a paler colour if it has not."""
    known = Gmp(number).label if number in tuple(Gmp) else "other"
    look = "" if is_delivered is None else " good" if is_delivered else " waiting"
    tick = Markup('<span class="hidden"> delivered</span>') if is_delivered else ""
    return Markup('<span class="gmp {}{}">{}{}</span>').format(known, look, gmp_title(number), tick)


def message_link(message_id: bytes) -> Markup:
    """Returns a link to a message, with a button that copies the id."""
    full = hexadecimal(message_id)
    return Markup('<a class="mono" href="/message/{0}" title="{0}" data-copy="{0}">{1}</a>').format(
        full, shortened(full)
    )


def copyable(value: str, shown: str | None = None) -> Markup:
    """Returns hex digits with a button that copies them."""
    return Markup('<code class="mono" title="{0}" data-copy="{0}">{1}</code>').format(value, shown or shortened(value))


def account(address: str) -> Markup:
    """Returns a link to an address, with a button that copies it."""
    if len(address) != 42:
        return copyable(address) if address.startswith("0x") else Markup("{}").format(address)
    return Markup('<a class="mono" href="/messages?account={0}" title="{0}" data-copy="{0}">{1}</a>').format(
        address, shortened(address)
    )


def transaction(chain_id: int | None, digest: bytes, block_explorers: Mapping[int, str]) -> Markup:
    """Returns a transaction's hash, linked to the chain's block explorer if there is one."""
    full = hexadecimal(digest)
    site = block_explorers.get(chain_id) if chain_id is not None else None
    if site is None:
        return copyable(full)
    shown = Markup('<a class="mono" href="{0}/tx/{1}" title="{1}" data-copy="{1}" rel="noreferrer">{2}</a>')
    return shown.format(site, full, shortened(full))


def moment(seconds: float | None) -> Markup:
    """Formats a time in UTC."""
    try:
        shown = utc(seconds)
    except (ValueError, OverflowError, OSError):
        return Markup("{}").format(f"{seconds:g}")  # a chain may report any number
    if shown is None or seconds is None:
        return Markup("")
    at = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return Markup('<time datetime="{}">{}</time>').format(at, shown)


def age(seconds: float | None) -> Markup:
    """Returns a time that a script shows as an age, such as "12 s ago". Without scripts, it is shown in UTC."""
    shown = moment(seconds)
    if "<time" not in shown:
        return shown
    return Markup(str(shown).replace("<time ", f'<time data-age title="{utc(seconds)} UTC" ', 1))  # noqa: S704  our own


def coded(text: str) -> Markup:
    """Formats parts between backticks as code.

    Use it only for Waybill's own text, since untrusted text could contain a command.
    """
    parts = [Markup("<code>{}</code>").format(part) if odd % 2 else part for odd, part in enumerate(text.split("`"))]
    return Markup("").join(parts)


def joined(cells: Sequence[Cell], between: str = " ") -> Markup:
    """Joins cells."""
    return Markup("{}").format(between).join(cells)
