"""What an address has to do with messages, as all faces show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bridge.protocol.indexed import Index, MessageFilter
from bridge.protocol.status import Status
from bridge.queries.lanes import SAMPLE


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountFigures:
    """The newest messages of one address; where it is both sender and recipient, it counts as both."""

    looked_at: int
    is_all: bool  # whether these are all messages of the address
    sent: int
    received: int  # messages to it, whether or not they have arrived
    by_status: Mapping[Status, int]
    newest: int | None  # Unix seconds
    oldest: int | None


def account_figures(index: Index, account: bytes) -> AccountFigures:
    """Counts the newest messages of an address.

    Args:
        index: of the network.
        account: 32 bytes.
    """
    found = index.page(MessageFilter(account=account), limit=SAMPLE)
    times = [one.source_time for one in found.messages if one.source_time is not None]
    return AccountFigures(
        looked_at=len(found.messages),
        is_all=found.next is None,
        sent=sum(one.sender == account for one in found.messages),
        received=sum(one.recipient == account for one in found.messages),
        by_status=Counter(one.status for one in found.messages),
        newest=max(times, default=None),
        oldest=min(times, default=None),
    )
