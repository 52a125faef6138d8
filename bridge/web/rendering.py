"""Templates, and how values look in them. Everything is escaped: what chains say comes from strangers."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from bridge.domain.actions import ActionState
from bridge.domain.dead_letters import LetterStatus
from bridge.protocol.status import Status
from bridge.protocol.text import visible
from bridge.queries.messages import account_text

_TONES: Final = {
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
}

_LETTER_TONES: Final = {
    LetterStatus.PENDING_REVIEW: "warn",
    LetterStatus.RETRY_QUEUED: "plain",
    LetterStatus.ABANDONED: "quiet",
    LetterStatus.RECOVERED: "good",
}

ACTION_TONES: Final = {
    ActionState.PREPARING.name: "plain",
    ActionState.COMMITTING.name: "plain",
    ActionState.COMMITTED.name: "good",
    ActionState.PARTIALLY_COMMITTED.name: "warn",
    ActionState.ABORTING.name: "plain",
    ActionState.ABORTED.name: "quiet",
    ActionState.DIVERGED.name: "bad",
    ActionState.ROLLBACK_INCOMPLETE.name: "bad",
}
"""How the states of an action look."""


TERMS: Final = {
    "GMP": "General message passing protocol: a network that carries messages between chains, such as Hyperlane or Wormhole.",
    "lane": "A pair of chains, from the source to the destination.",
    "quorum": "How many different GMPs must deliver a message before its recipient is called.",
    "kind": "The purpose of a message, such as plain or state sync. It decides tries, time to live and dead letters.",
    "attesting": "The GMP is making the attestation that the relayer needs for the delivery.",
    "absorbed": "A GMP delivered the same message again, and nothing changed.",
    "stalled": "Too few GMPs have delivered the message in the time that its lane usually takes.",
    "atomic action": "A change on several chains that happens on all of them or on none.",
    "dead letter": "A delivery that the relayer gave up. An operator decides about it.",
    "floor": "The least quorum on a lane for recipients that have set none of their own.",
    "tripwire": "A key that may pause a GMP for hours once it has vouched for what was never sent.",
    "DVN": "Decentralised verifier network: one of those who verify messages for LayerZero.",
    "ISM": "Interchain security module: the contract that says who verifies messages for Hyperlane.",
    "diverged": "Facts on the chains, or in the index, contradict each other.",
}
"""What words of the pages mean; docs/glossary.md says more."""


def environment(**shared: Any) -> Environment:
    """The templates, with what every page knows: the terms, and what is given."""
    made = Environment(
        loader=PackageLoader("bridge.web"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "hex": hexadecimal,
        "short": shortened,
        "account": account,
        "moment": moment,
        "clock": clock,
        "duration": duration,
        "tone": tone,
        "delivered": delivered,
        "words": words,
        "wei": amount,
        "count": _count,
        "counted": counted,
        "harmless": harmless,
        "coded": coded,
        "trust_role": lambda party, roles: roles.get(party, ""),
    }
    made.globals |= {"term": term, "terms": TERMS, **shared}
    return made


def term(word: str, shown: str = "") -> Markup:
    """A word with its explanation, for those who point at it; the foot of every page has all explanations."""
    return Markup('<abbr title="{}">{}</abbr>').format(TERMS[word], shown or word)


def _count(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def counted(number: int, noun: str) -> str:
    """A number of things: ``1 message``, ``2 messages``, ``1 delivery``, ``2 deliveries``."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{_count(number)} {noun}"


def tone(status: Status | LetterStatus) -> str:
    """How a state looks: good, warn, bad, plain or quiet."""
    return _TONES[status] if isinstance(status, Status) else _LETTER_TONES[status]


class _Counted(Protocol):
    """Whatever has receipts."""

    @property
    def receipts(self) -> int: ...

    @property
    def quorum(self) -> int | None: ...


def delivered(message: _Counted) -> str:
    """How many GMPs have delivered, beside how many must."""
    if not message.quorum:
        return str(message.receipts)
    enough = message.receipts > message.quorum
    return f"{message.receipts} ({message.quorum} needed)" if enough else f"{message.receipts} of {message.quorum}"


def hexadecimal(value: bytes) -> str:
    """Bytes as 0x and digits."""
    return f"0x{value.hex()}"


def shortened(value: bytes | str) -> str:
    """The beginning and end of a long hex text."""
    text = hexadecimal(value) if isinstance(value, bytes) else value
    return text if len(text) <= 20 else f"{text[:10]}…{text[-6:]}"


def account(word: bytes | None) -> str:
    """A 32-byte word as an address, where it is one."""
    return account_text(word) or "unknown"


def moment(seconds: float | None) -> Markup:
    """A time as `<time>`, in UTC."""
    if seconds is None:
        return Markup("")
    try:
        at = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return Markup("{}").format(f"{seconds:g}")  # a chain may say anything
    return Markup('<time datetime="{}">{}</time>').format(
        at.isoformat(timespec="seconds"), at.strftime("%Y-%m-%d %H:%M:%S")
    )


def clock(seconds: float | None) -> Markup:
    """A time of day, with the date for those who ask."""
    whole = moment(seconds)
    if seconds is None or "<time" not in whole:
        return whole
    at = datetime.fromtimestamp(seconds, UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(timespec="seconds"), at.strftime("%Y-%m-%d %H:%M:%S UTC"), at.strftime("%H:%M:%S")
    )


def duration(seconds: float | None) -> str:
    """Seconds as people say them."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds == int(seconds) else f"{max(seconds, 0.1):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} m" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def amount(wei: int) -> str:
    """An amount of wei to four digits, in the unit that people say it in."""
    if wei < 10**9:
        return f"{wei} wei"
    unit, size = ("gwei", 10**9) if wei < 10**13 else ("ETH", 10**18)
    text = f"{Decimal(f'{wei / size:.4g}'):,f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace(",", " ") + f" {unit}"


def words(status: str) -> str:
    """STATES_LIKE_THIS as words."""
    return status.replace("_", " ").lower()


def harmless(text: str | None) -> str:
    """Text, if there is any, with its control characters made visible: they could turn the reading direction, or hide what stands before them."""
    return visible(text or "", keep="\n")


def coded(text: str) -> Markup:
    """Our own text with what stands between backticks as code. Never for text that quotes a stranger: that could be a command."""
    parts = [Markup("<code>{}</code>").format(part) if odd % 2 else part for odd, part in enumerate(text.split("`"))]
    return Markup("").join(parts)
