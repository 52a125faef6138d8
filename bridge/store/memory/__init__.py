"""The store in memory: for simulations and tests, and for a bridge that may forget."""

from __future__ import annotations

from bridge.store.memory.dead_letters import MemoryHead
from bridge.store.memory.executions import MemoryExecutions
from bridge.store.memory.figures import MemoryFigures
from bridge.store.memory.lanes import MemoryLanes
from bridge.store.memory.observations import MemoryObservations
from bridge.store.memory.outbox import MemoryOutbox
from bridge.store.memory.pending_sync import MemoryPendingSyncs
from bridge.store.memory.retries import MemoryRetryJobs
from bridge.store.memory.spending import MemorySpending
from bridge.store.memory.transactions import MemoryTransactionLedger


class MemoryStore:
    """All that the bridge remembers, until the process ends. See `bridge.records.Store`."""

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
        """Nothing to let go of."""
