"""Options and arguments shared by several commands."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Annotated, TypeVar

import typer

from bridge.cli.output import UsageError
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.gmps import Gmp, UnknownGmpError
from bridge.relayer.delivery_commits import GUARANTEES, CommitStrategy

_Named = TypeVar("_Named", bound=Enum)

StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        help="The relayer's store (default: WAYBILL_STORE): sqlite:///FILE, or postgresql://USER:PASSWORD@HOST/DATABASE, which"
        " several relayers share. By default a SQLite file in .waybill.",
        show_default=False,
    ),
]

Commit = Annotated[
    CommitStrategy | None,
    typer.Option(
        "--commit",
        help="When deliveries are committed; by default batch. "
        + " ".join(f"`{strategy}`: {promise}." for strategy, promise in GUARANTEES.items()),
        show_default=False,
    ),
]

SparkMaster = Annotated[
    str | None,
    typer.Option(
        "--master",
        envvar="WAYBILL_SPARK_MASTER",
        help="URL of the Spark master, such as spark://HOST:7077. By default Spark runs on this machine.",
        show_default=False,
    ),
]

Http = Annotated[
    str | None,
    typer.Option(
        "--http",
        help="Serve /metrics and /healthz at HOST:PORT; port 0 picks a free port. Defaults to WAYBILL_HTTP.",
        show_default=False,
    ),
]

MessageId = Annotated[str, typer.Argument(help="The message's id: 0x and 64 hex digits.", metavar="ID")]


def gmps(text: str, usable: Collection[Gmp] = tuple(Gmp), where: str = "") -> tuple[Gmp, ...]:
    """Parses a comma-separated list of GMPs, in order.

    Args:
        text: the list.
        usable: the GMPs that are allowed.
        where: the place with these GMPs, such as ``alpha → beta``, for errors.

    Raises:
        UsageError: a name is unknown, unusable or repeated, or the list is empty.
    """
    known = ", ".join(gmp.label for gmp in sorted(usable))
    next_step = f"the GMPs of {where} are {known}" if where else f"the GMPs are {known}"
    try:
        named = tuple(Gmp.parse(name) for name in text.split(",") if name.strip())
    except UnknownGmpError as error:
        raise UsageError(str(error), next_step=next_step) from error
    for gmp in named:
        if gmp not in usable:
            raise UsageError(f"{where} does not support {gmp.label}", next_step=next_step)
    twice = sorted({gmp.label for gmp in named if named.count(gmp) > 1})
    if twice:
        raise UsageError(
            f"{', '.join(twice)} appears more than once in {text!r}; each GMP carries a message once per attempt"
        )
    if not named:
        raise UsageError("no GMP is given", next_step=next_step)
    return named


def lane(deployment: Deployment, source: str, destination: str) -> tuple[ChainDeployment, ChainDeployment]:
    """Returns the chains of a lane, each given by name or id.

    Raises:
        NoSuchChainError: a chain is unknown.
        UsageError: both are the same.
    """
    origin, target = deployment.chain(source), deployment.chain(destination)
    if origin is target:
        raise UsageError(f"source and destination are both {origin.name}; choose two different chains")
    return origin, target


def member(known: Iterable[_Named], text: str, what: str) -> _Named:
    """Returns the enumeration member for an option's value, such as ``STATE_SYNC`` for ``state-sync``.

    Args:
        known: the allowed members.
        text: the name, as typed.
        what: a noun for the members, for errors.

    Raises:
        UsageError: no member has that name.
    """
    by_name = {one.name: one for one in known}
    try:
        return by_name[text.strip().upper().replace("-", "_")]
    except KeyError:
        names = ", ".join(name.lower() for name in by_name)
        raise UsageError(f"unknown {what} {text!r}; the {what}s are {names}") from None


def hex_bytes(text: str, what: str, *, length: int | None = None, next_step: str | None = None) -> bytes:
    """Parses 0x and hex digits.

    Args:
        text: the digits, as typed.
        what: a noun for the value, such as ``a message id``, for errors.
        length: the required number of bytes; None accepts any.
        next_step: the next step shown in the error.

    Raises:
        UsageError: the text is not hexadecimal, or has the wrong length.
    """
    try:
        value = bytes.fromhex(text.strip().removeprefix("0x"))
    except ValueError:
        value = None
    if value is None or length not in (None, len(value)):
        digits = "an even number of" if length is None else 2 * length
        raise UsageError(
            f"{text[:80]!r} is not {what}: expected 0x followed by {digits} hex digits", next_step=next_step
        )
    return value


def message_id(text: str) -> bytes:
    """Parses a message id.

    Raises:
        UsageError: the text is not 0x and 64 hex digits.
    """
    return hex_bytes(text, "a message id", length=32, next_step="waybill message list")


MaxBehind = Annotated[
    int | None,
    typer.Option(
        "--max-behind",
        help="Seconds of block time that the index may be behind a chain before the command exits with status 5. By default"
        " the setting index.max_lag (120).",
        min=0,
        show_default=False,
    ),
]
