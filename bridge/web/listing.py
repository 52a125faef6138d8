"""Lists messages, and counts them by state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from bridge.evm.ttl_cache import Cached
from bridge.protocol.indexed import DivergenceRecord, MessagePage, with_diverged
from bridge.protocol.status import Status
from bridge.web.search import Listing
from bridge.web.sources import Sources

_DIVERGENCES_LAST: Final = 2.0  # seconds
_COUNTS_LAST: Final = 5.0  # seconds

OLDEST: Final = 20.0
"""Seconds after which a cached figure is dropped; pages then say that it is being computed."""


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
