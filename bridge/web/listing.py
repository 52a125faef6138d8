"""The list of messages: what of it is wanted, as a link says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from bridge.protocol.addresses import AddressError, from_bytes32, to_bytes32
from bridge.protocol.deployment import DeploymentError
from bridge.protocol.gmps import Gmp, UnknownGmpError
from bridge.protocol.indexed import Position, Wanted
from bridge.protocol.message import Kind
from bridge.protocol.status import Status
from bridge.web.sources import Sources


class BadLinkError(ValueError):
    """A link whose parameters say nothing that can be looked for; the text names parameter and value."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A choice of messages and a place in it, from a link and back to one."""

    wanted: Wanted
    after: Position | None
    parameters: Mapping[str, str]  # of the choice, without the place

    @property
    def query(self) -> str:
        """The choice as the part of a link behind the question mark."""
        return urlencode(self.parameters)

    def query_after(self, place: Position) -> str:
        """The same choice, further down."""
        return urlencode({**self.parameters, "after": f"{place.seen}-{place.message_id.hex()}"})


def read_listing(sources: Sources, parameters: Mapping[str, str]) -> Listing:
    """Reads a link.

    Raises:
        BadLinkError: a parameter that can't be used.
    """
    given = {name: value.strip() for name, value in parameters.items() if value.strip()}
    after = given.pop("after", None)
    readers: dict[str, Any] = {
        "status": lambda text: Status(text.upper()),
        "source": lambda text: sources.deployment.chain(text).chain_id,
        "destination": lambda text: sources.deployment.chain(text).chain_id,
        "gmp": Gmp.parse,
        "kind": lambda text: Kind[text.upper()],
        "account": to_bytes32,
    }
    read: dict[str, Any] = {}
    for name, text in given.items():
        if name not in readers:
            raise BadLinkError(f"{name!r} is no filter; the filters are {', '.join(readers)}")
        try:
            read[name] = readers[name](text)
        except (ValueError, KeyError, DeploymentError, UnknownGmpError, AddressError) as error:
            raise BadLinkError(f"{name}={text[:80]!r} can't be used: {str(error)[:200]}") from error
    wanted = Wanted(
        status=read.get("status"),
        source_chain=read.get("source"),
        destination_chain=read.get("destination"),
        gmp=read.get("gmp"),
        kind=read.get("kind"),
        account=read.get("account"),
    )
    return Listing(wanted, _place(after), given | _canonical(read))


def _canonical(read: Mapping[str, Any]) -> dict[str, str]:
    return {"account": from_bytes32(read["account"])} if "account" in read else {}


def _place(text: str | None) -> Position | None:
    if text is None:
        return None
    seen, _, message_id = text.partition("-")
    try:
        place = Position(int(seen), bytes.fromhex(message_id))
    except ValueError:
        raise BadLinkError(f"after={text[:80]!r} is no place in the list") from None
    if len(place.message_id) != 32 or not 0 <= place.seen < 1 << 63:
        raise BadLinkError(f"after={text[:80]!r} is no place in the list")
    return place
