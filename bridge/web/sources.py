"""The explorer's data sources: the index, the relayer's store, and the network's deployments file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bridge.protocol.deployment import Deployment
from bridge.protocol.indexed import Index
from bridge.queries.commands import for_network
from bridge.queries.lanes import chain_name
from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog
from bridge.web.costs import Payments
from bridge.web.timeline import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The stores behind the pages. The index and the store are None until they exist, which the pages report."""

    deployment: Deployment
    index: Callable[[], Index | None]
    store: Callable[[], Store | None]
    dead_letters: Callable[[], DeadLetterLog | None] = lambda: None
    payments: Callable[[Sequence[Transaction]], Payments] = lambda _transactions: {}
    """Returns the costs of transactions, read from the chains."""

    clock: Callable[[], float] = time.time

    def with_network(self, text: str) -> str:
        """Adds `--network NAME` to every command in the text."""
        return for_network(text, self.deployment.network)

    def chain_name(self, chain_id: int | None) -> str:
        """Returns a chain's name, or its id if the chain is not in the deployments file."""
        return chain_name(self.deployment, chain_id)
