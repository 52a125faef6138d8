"""Where the explorer reads: the index, the relayer's store, and the network's deployments file."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from bridge.atomic.answers import ActionList, FoundAction
from bridge.atomic.reader import Coordinator
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
    """All that pages are made of. Index and store may not be there yet: then they are None, and pages say so."""

    deployment: Deployment
    index: Callable[[], Index | None]
    store: Callable[[], Store | None]
    dead_letters: Callable[[], DeadLetterLog | None] = lambda: None
    actions: Callable[[], ActionList | None] = lambda: None
    """The newest atomic actions; asks the chains. Raises `TransientError` if none answers."""

    action: Callable[[bytes], FoundAction | None] = lambda _id: None
    """One action with its participants, and those on the same subject; None if no coordinator knows it."""

    coordinators: Collection[Coordinator] = ()
    """The coordinators of atomic actions: messages from and to them are shown as phases of actions."""

    payments: Callable[[Sequence[Transaction]], Payments] = lambda _transactions: {}
    """What transactions cost; asks the chains."""

    clock: Callable[[], float] = time.time

    def command(self, command: str) -> str:
        """The same command for this network."""
        return for_network(command, self.deployment.network)

    def commands_in(self, text: str) -> str:
        """The same text, with its commands for this network."""
        return for_network(text, self.deployment.network)

    def chain_name(self, chain_id: int | None) -> str:
        """A chain's name, or its id where the deployments file does not know it."""
        return chain_name(self.deployment, chain_id)
