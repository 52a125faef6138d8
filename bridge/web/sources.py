"""The explorer's data sources: the index, the relayer's store, and the network's deployments file."""

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
    """The stores behind the pages. Index and store are None until they exist, and pages say so."""

    deployment: Deployment
    index: Callable[[], Index | None]
    store: Callable[[], Store | None]
    dead_letters: Callable[[], DeadLetterLog | None] = lambda: None
    actions: Callable[[], ActionList | None] = lambda: None
    """Returns the newest atomic actions, read from the chains. Raises `TransientError` if none answers."""

    action: Callable[[bytes], FoundAction | None] = lambda _id: None
    """Returns an action with its participants, and other actions on its subject; None if no coordinator knows it."""

    coordinators: Collection[Coordinator] = ()
    """The coordinators of atomic actions: messages from and to them are shown as phases of actions."""

    payments: Callable[[Sequence[Transaction]], Payments] = lambda _transactions: {}
    """Returns the costs of transactions, read from the chains."""

    clock: Callable[[], float] = time.time

    def command(self, command: str) -> str:
        """Returns the command with this network's `--network`."""
        return for_network(command, self.deployment.network)

    def commands_in(self, text: str) -> str:
        """Returns the text with this network's `--network` in its commands."""
        return for_network(text, self.deployment.network)

    def chain_name(self, chain_id: int | None) -> str:
        """Returns a chain's name, or its id if the deployments file lacks it."""
        return chain_name(self.deployment, chain_id)
