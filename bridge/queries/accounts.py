"""What an address has to do with messages, as all faces show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from bridge.protocol.deployment import Deployment
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


def known_as(deployment: Deployment, account: str) -> list[str]:
    """What an address is by the deployments file, such as ``router on alpha``."""
    return [
        f"{what} on {chain.name}"
        for chain in deployment.chains
        for what, address in {
            "router": chain.router,
            **{f"adapter of {gmp}": adapter for gmp, adapter in chain.adapters.items()},
            "parameters": chain.parameters,
            "multicall": chain.multicall,
            **chain.examples,
        }.items()
        if address is not None and address.lower() == account.lower()
    ]
