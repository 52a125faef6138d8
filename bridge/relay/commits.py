"""When the outbox learns how deliveries ended: the strategies, what each guarantees, and at what price.

To commit is to make CLAIMED → DELIVERED durable. A delivery that was made and not committed is found on its chain when it
is claimed again, and costs a read; a commit without a delivery is a message that this relayer forgets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class CommitStrategy(StrEnum):
    """When a delivery is committed."""

    BATCH = "batch"
    MESSAGE = "message"
    TIME = "time"
    AT_MOST_ONCE = "at-most-once"
    AUTO = "auto"


GUARANTEES: Final[Mapping[CommitStrategy, str]] = MappingProxyType(
    {
        CommitStrategy.BATCH: (
            "at least once: committed 100 at a time, after 5 s, or when nothing else is under way;"
            " a crash repeats what was not committed"
        ),
        CommitStrategy.MESSAGE: "at least once: each delivery is committed by itself; a crash repeats one per delivery under way",
        CommitStrategy.TIME: "at least once: committed every 30 s; a crash repeats up to 30 s of deliveries",
        CommitStrategy.AT_MOST_ONCE: (
            "at most once: committed before the transaction is sent; what fails or crashes after that is lost"
        ),
        CommitStrategy.AUTO: (
            "none: a timer commits every 5 s whatever is under way, delivered or not; a crash may lose or repeat."
            " Needs unsafe = true"
        ),
    }
)
"""What each promises, in one sentence: the help, the documentation and the tests say the same."""

DEFAULT_SECONDS: Final[Mapping[CommitStrategy, float]] = MappingProxyType(
    {CommitStrategy.BATCH: 5.0, CommitStrategy.TIME: 30.0, CommitStrategy.AUTO: 5.0}
)
"""How long a commit waits at most, for the strategies that wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSettings:
    """How commits are made."""

    strategy: CommitStrategy = CommitStrategy.BATCH
    interval: int = 100  # deliveries that a batch holds at most
    seconds: float | None = None  # that a commit waits at most; None is the strategy's own
    tries: int = 12  # of a commit that the store refuses, the first included; then the relayer stops
    first_pause: float = 0.1  # seconds before the second try; each further one waits twice as long
    longest_pause: float = 30.0  # seconds

    @property
    def wait(self) -> float:
        """Seconds that a delivery waits at most for its commit."""
        return DEFAULT_SECONDS.get(self.strategy, 0.0) if self.seconds is None else self.seconds

    def pause(self, failures: int) -> float:
        """Seconds before the next try of a commit that failed so many times."""
        return min(self.first_pause * 2.0 ** (failures - 1), self.longest_pause)
