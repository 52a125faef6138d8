"""Lists messages by the filters in a link, and counts them by state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from bridge.evm.ttl_cache import Cached
from bridge.protocol.addresses import from_bytes32, to_bytes32
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import DivergenceRecord, MessageFilter, MessagePage, Position, with_diverged
from bridge.protocol.message import Kind
from bridge.protocol.status import Status
from bridge.web.sources import Sources

_DIVERGENCES_LAST: Final = 2.0  # seconds
_COUNTS_LAST: Final = 5.0  # seconds

OLDEST: Final = 20.0
"""Seconds after which a cached figure is dropped; pages then say that it is being computed."""

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
        except ValueError as error:  # also of an unknown chain, GMP or address
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


@dataclass(frozen=True, slots=True)
class Divergences:
    """All divergences, computed once for all pages.

    Attributes:
        records: all divergences, worst first.
        contradictions: number of divergences that need attention.
        messages: ids of the DIVERGED messages.
    """

    records: list[DivergenceRecord]
    contradictions: int
    messages: frozenset[bytes]


class MessageList:
    """Lists and counts messages.

    Contradictions and counts scan all messages, so they are cached and computed in threads.
    """

    def __init__(self, sources: Sources, patience: float) -> None:
        """Creates empty caches.

        Args:
            sources: the stores.
            patience: seconds that a caller waits for a figure that is being computed.
        """
        self._sources = sources
        self._patience = patience
        clock = sources.clock
        self.divergences = Cached(self._read_divergences, lasts=_DIVERGENCES_LAST, oldest=OLDEST, clock=clock)
        self.counts = Cached(self._read_counts, lasts=_COUNTS_LAST, oldest=OLDEST, clock=clock)

    def _read_divergences(self) -> Divergences:
        index = self._sources.index()
        records = sorted(index.divergences() if index else (), key=lambda one: one.severity)  # critical, high, medium
        return Divergences(
            records,
            sum(one.is_contradiction for one in records),
            frozenset(one.message_id for one in records if one.message_id and one.contradicts_message),
        )

    def _read_counts(self) -> dict[Status, int]:
        index = self._sources.index()
        return index.by_status() if index else {}

    def contradicted(self) -> frozenset[bytes] | None:
        """Returns the ids of the DIVERGED messages, or None while they are being computed."""
        found = self.divergences.recent(self._patience)
        return found.messages if found else None

    def by_status(self) -> dict[Status, int] | None:
        """Returns the number of messages by state, or None while they are being counted.

        Messages with contradictions count as DIVERGED.
        """
        index, counts, contradicted = self._sources.index(), self.counts.recent(self._patience), self.contradicted()
        if counts is None or index is None or not contradicted:
            return counts
        return with_diverged(counts, index.statuses_of(contradicted))

    def page(self, chosen: Listing, limit: int) -> MessagePage | None:
        """Returns a part of a list, or None while contradictions are being computed.

        Args:
            chosen: the filters, and the position where the part begins.
            limit: the maximum number of messages.
        """
        index, wanted = self._sources.index(), chosen.wanted
        if index is None:
            return MessagePage(messages=(), next=None, looked_at=0)
        if wanted.status is Status.DIVERGED:
            wanted = replace(wanted, among=self.contradicted())
            if wanted.among is None:
                return None
        return index.page(wanted, after=chosen.after, limit=limit)
