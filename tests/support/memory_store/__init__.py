"""The store in memory: the reference model that the SQL store is compared with, and what simulations run on."""

from __future__ import annotations

from tests.support.memory_store.counters import MemoryCounters
from tests.support.memory_store.dead_letters import MemoryHead
from tests.support.memory_store.figures import MemoryFigures
from tests.support.memory_store.finality_records import MemoryFinalityRecords
from tests.support.memory_store.jobs import MemoryJobs
from tests.support.memory_store.lanes import MemoryLanes
from tests.support.memory_store.observations import MemoryObservations
from tests.support.memory_store.outbox import MemoryOutbox
from tests.support.memory_store.payments import MemoryPayments
from tests.support.memory_store.retries import MemoryRetries
from tests.support.memory_store.spending import MemorySpending
from tests.support.memory_store.transactions import MemoryTransactionLedger


class MemoryStore:
    """All that the bridge remembers, until the process ends. See `bridge.domain.store.Store`."""

    def __init__(self) -> None:
        lanes = MemoryLanes()
        self.lanes = lanes
        self.jobs = MemoryJobs()
        self.spending = MemorySpending()
        self.counters = MemoryCounters()
        outbox = MemoryOutbox(lanes, self.jobs, self.spending, self.counters)
        self.outbox = outbox
        transactions = MemoryTransactionLedger(outbox, self.spending, self.counters)
        self.transactions = transactions
        self.payments = MemoryPayments(self.spending, outbox, self.jobs)
        self.observations = MemoryObservations(outbox, transactions, self.payments)
        self.jobs.look_up_in(self.observations)
        self.observations.when_rewound(self.jobs.take_back)
        self.retries = MemoryRetries(self.jobs)
        self.finality_records = MemoryFinalityRecords(self.observations, self.jobs)
        self.letter_head = MemoryHead()
        self.figures = MemoryFigures(outbox, transactions, self.counters, self.spending)

    def close(self) -> None:
        """Nothing to close."""
