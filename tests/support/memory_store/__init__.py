"""The store in memory: the reference model that the SQL store is compared with, and what simulations run on."""

from __future__ import annotations

from tests.support.memory_store.dead_letters import MemoryHead
from tests.support.memory_store.executions import MemoryExecutions
from tests.support.memory_store.figures import MemoryFigures
from tests.support.memory_store.lanes import MemoryLanes
from tests.support.memory_store.observations import MemoryObservations
from tests.support.memory_store.outbox import MemoryOutbox
from tests.support.memory_store.pending_sync import MemoryPendingSyncs
from tests.support.memory_store.retries import MemoryRetryJobs
from tests.support.memory_store.spending import MemorySpending
from tests.support.memory_store.transactions import MemoryTransactionLedger


class MemoryStore:
    """All that the bridge remembers, until the process ends. See `bridge.domain.store.Store`."""

    def __init__(self) -> None:
        lanes = MemoryLanes()
        self.lanes = lanes
        self.executions = MemoryExecutions()
        self.spending = MemorySpending()
        outbox = MemoryOutbox(lanes, self.executions, self.spending)
        self.outbox = outbox
        transactions = MemoryTransactionLedger(outbox, self.spending)
        self.transactions = transactions
        self.observations = MemoryObservations(outbox, transactions)
        self.executions.look_up_by(self.observations.message)
        self.observations.when_rewound(self.executions.take_back)
        self.retries = MemoryRetryJobs()
        self.pending_sync = MemoryPendingSyncs(self.observations)
        self.letter_head = MemoryHead()
        self.figures = MemoryFigures(outbox, transactions, self.executions)

    def close(self) -> None:
        """Nothing to close."""
