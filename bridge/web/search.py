"""Parses the filters and the position in a link to a list of messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from bridge.protocol.addresses import AddressError, from_bytes32, to_bytes32
from bridge.protocol.deployment import DeploymentError
from bridge.protocol.gmps import Gmp, UnknownGmpError
from bridge.protocol.indexed import MessageFilter, Position
from bridge.protocol.message import Kind
from bridge.protocol.status import Status
from bridge.web.sources import Sources

_Named = TypeVar("_Named", bound=Enum)

_PLACE: Final = re.compile(r"([0-9]{1,18})-([0-9a-f]{64})")


class BadLinkError(ValueError):
    """A link has an invalid parameter. The message states the parameter and its value."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Filters and a position in the list of messages, parsed from a link."""

    wanted: MessageFilter
    after: Position | None
    parameters: Mapping[str, str]  # of the filters, without the position

    @property
    def query(self) -> str:
        """Returns the filters as a URL query."""
        return urlencode(self.parameters)

    def query_after(self, place: Position) -> str:
        """Returns the query of the next part of the list."""
        return urlencode({**self.parameters, "after": f"{place.seen}-{place.message_id.hex()}"})


def read_listing(sources: Sources, parameters: Mapping[str, str]) -> Listing:
    """Parses a link's parameters.

    Raises:
        BadLinkError: a parameter is invalid.
    """
    given = {name: value.strip() for name, value in parameters.items() if value.strip()}
    after = given.pop("after", None)
    readers: dict[str, Any] = {
        "status": lambda text: _named(Status, "status", text),
        "source": lambda text: sources.deployment.chain(text).chain_id,
        "destination": lambda text: sources.deployment.chain(text).chain_id,
        "gmp": Gmp.parse,
        "kind": lambda text: _named(Kind, "kind", text),
        "account": to_bytes32,
    }
    read: dict[str, Any] = {}
    for name, text in given.items():
        if name not in readers:
            raise BadLinkError(f"{name!r} is not a filter; the filters are {', '.join(readers)}")
        try:
            read[name] = readers[name](text)
        except (ValueError, DeploymentError, UnknownGmpError, AddressError) as error:
            raise BadLinkError(f"{name}={text[:80]!r} can't be used: {str(error)[:300]}") from error
    wanted = MessageFilter(
        status=read.get("status"),
        source_chain=read.get("source"),
        destination_chain=read.get("destination"),
        gmp=read.get("gmp"),
        kind=read.get("kind"),
        account=read.get("account"),
    )
    canonical = {"account": from_bytes32(read["account"])} if "account" in read else {}
    return Listing(wanted, _place(after) if after else None, given | canonical)


def _named(kind: type[_Named], what: str, text: str) -> _Named:
    try:
        return kind[text.upper()]
    except KeyError:
        known = ", ".join(one.name.lower() for one in kind)
        raise ValueError(f"unknown {what} {text[:40]!r}; it is one of {known}") from None


def _place(text: str) -> Position:
    found = _PLACE.fullmatch(text)
    if found is None:
        raise BadLinkError(f"after={text[:80]!r} is not a valid list position; use the link on the previous page")
    return Position(int(found[1]), bytes.fromhex(found[2]))
