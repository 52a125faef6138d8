"""The global options: network, settings file, output format, and signer."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DEVNET: Final = "devnet"

_WITH_VALUE: Final = frozenset({"--network", "--config", "--signer", "--key", "--safe"})
_FLAGS: Final = frozenset({"--json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RootOptions:
    """The global options. An option that is not given is None.

    Attributes:
        network: the network's name.
        config: the settings file.
        as_json: whether answers and errors are JSON.
        signer: the name of an account in the settings' table `accounts`.
        key: a private key.
        safe: the address of a Safe that makes the calls instead of a signer.
    """

    network: str | None = None
    config: Path | None = None
    as_json: bool = False
    signer: str | None = None
    key: str | None = None
    safe: str | None = None


_current: ContextVar[RootOptions] = ContextVar("root options", default=RootOptions())  # noqa: B039  # frozen


def use(options: RootOptions) -> None:
    """Sets the options for the command that follows."""
    _current.set(options)


def current() -> RootOptions:
    """Returns the options of the running command."""
    return _current.get()


def hoisted(arguments: Sequence[str]) -> list[str]:
    """Moves global options to the front: `waybill message list --json` becomes `waybill --json message list`."""
    first, rest = separated(arguments)
    return first + rest


def separated(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits arguments into global options with their values, and the rest. Arguments after `--` are left unchanged."""
    first: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word in _FLAGS or (word.partition("=")[0] in _WITH_VALUE and "=" in word):
            first.append(word)
        elif word in _WITH_VALUE:
            first += [word, *([value] if (value := next(words, None)) is not None else [])]
        else:
            rest.append(word)
    return first, rest
