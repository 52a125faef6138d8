"""Commands that output names carry the network that this command was asked about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextvars import ContextVar
from itertools import pairwise
from typing import Any, Final

WITHOUT_NETWORK: Final = frozenset({"abi", "config schema", "decode-error", "demo", "devnet", "network"})
"""Commands that no network is named to, or that read no network's files."""

ALONE: Final = frozenset({"api", "deploy", "doctor", "report", "send", "status", "web"})
"""Commands that are no group of commands."""

_OPTION: Final = "--network"
_COMMAND: Final = re.compile(r"\bwaybill (?P<first>[a-z][a-z-]*+)(?P<second> [a-z][a-z-]*+(?![\w:]))?(?![\w:])")
_SHOWN: Final = frozenset({"next", "command", "advice"})  # keys of JSON under which commands stand

_asked: ContextVar[str | None] = ContextVar("network", default=None)


def remember_network(arguments: Sequence[str]) -> None:
    """Keeps the network that the arguments name. One that the environment names holds for the next command anyway."""
    named = [one.partition("=")[2] for one in arguments if one.startswith(f"{_OPTION}=")]
    named += [value for option, value in pairwise(arguments) if option == _OPTION]
    _asked.set(named[-1] if named else None)


def with_network(text: str) -> str:
    """The text, whose commands name the network that this one was asked about. Those that name one stay as they are."""
    network = _asked.get()

    def named(found: re.Match[str]) -> str:
        first, rest = found["first"], text[found.end() :]
        is_named = _OPTION in re.split(r"[`\n]|waybill ", rest, maxsplit=1)[0]
        if (
            is_named
            or WITHOUT_NETWORK & {first, f"{first}{found['second'] or ''}"}
            or (first not in ALONE and not found["second"])
        ):
            return found[0]
        if first in ALONE:
            return f"waybill {first} {_OPTION} {network}{found['second'] or ''}"
        return f"{found[0]} {_OPTION} {network}"

    return text if network is None else _COMMAND.sub(named, text)


def next_with_network(value: Any, *, is_shown: bool = False) -> Any:
    """A document of JSON with the network in the commands that it names as next ones."""
    if isinstance(value, dict):
        return {key: next_with_network(one, is_shown=is_shown or key in _SHOWN) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [next_with_network(one, is_shown=is_shown) for one in value]
    return with_network(value) if is_shown and isinstance(value, str) else value
