"""What the bridge remembers, and the port to where it is kept.

Records are immutable; the changes that they allow are methods that return another record. A store keeps them, in one
transaction per call, and invents no changes of its own.
"""

from __future__ import annotations

from typing import Protocol

from bridge.domain.dead_letters import HeadMemory
from bridge.domain.figures import Counters, Figures
from bridge.domain.finality_records import FinalityRecords
from bridge.domain.jobs import Jobs
from bridge.domain.lanes import Lanes
from bridge.domain.observations import Observations
from bridge.domain.outbox import Outbox
from bridge.domain.payments import Payments
from bridge.domain.retries import Retries
from bridge.domain.spending import Spending
from bridge.domain.transactions import TransactionLedger


class Store(Protocol):
    """All that the bridge remembers, in one database."""

    @property
    def observations(self) -> Observations:
        """What was seen on source chains."""

    @property
    def outbox(self) -> Outbox:
        """What is to be delivered."""

    @property
    def transactions(self) -> TransactionLedger:
        """The nonces of our accounts."""

    @property
    def jobs(self) -> Jobs:
        """What is to be retried, executed and propagated."""

    @property
    def retries(self) -> Retries:
        """What the index asks for, and what retries pay."""

    @property
    def lanes(self) -> Lanes:
        """Which lanes are held."""

    @property
    def figures(self) -> Figures:
        """Sums over all of these."""

    @property
    def counters(self) -> Counters:
        """What only grows."""

    @property
    def finality_records(self) -> FinalityRecords:
        """What is final on its source, and the archive."""

    @property
    def spending(self) -> Spending:
        """What was spent, for whom, and what waits since a bound has no room for it."""

    @property
    def payments(self) -> Payments:
        """What was paid for deliveries."""

    @property
    def letter_head(self) -> HeadMemory:
        """How far the log of dead letters had come, which may be in another database."""

    def close(self) -> None:
        """Releases files and connections."""
