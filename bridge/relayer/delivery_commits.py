"""Commit strategies, which decide when the outbox records a delivery's outcome. Each has its own guarantee and cost.

A commit makes the transition from CLAIMED to DELIVERED durable. A delivery without a commit is found on its
chain when the entry is claimed again, at the cost of one read. A commit without a delivery loses the message
for this relayer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import structlog
from pydantic import Field

from bridge.evm.supervision import Wakeup
from bridge.protocol.backoff import backoff
from bridge.protocol.errors import StoreError
from bridge.protocol.ports import Clock, TransientError
from bridge.records.outbox import Claim, Delivered, ObservedDelivery, Outcome, StaleClaimError
from bridge.settings import Section
from bridge.store.outbox import Outbox

_log = structlog.get_logger(__name__)


class CommitStrategy(StrEnum):
    """The strategy that decides when a delivery is committed."""

    BATCH = "batch"
    MESSAGE = "message"
    TIME = "time"
    AT_MOST_ONCE = "at-most-once"
    AUTO = "auto"


GUARANTEES: Final[Mapping[CommitStrategy, str]] = MappingProxyType(
    {
        CommitStrategy.BATCH: (
            "at least once: committed 100 at a time, after 5 s, or when nothing else is in progress. A crash "
            "repeats uncommitted deliveries"
        ),
        CommitStrategy.MESSAGE: "at least once: each delivery is committed alone. A crash repeats the "
        "deliveries in progress",
        CommitStrategy.TIME: "at least once: committed every 30 s. A crash repeats up to 30 s of deliveries",
        CommitStrategy.AT_MOST_ONCE: (
            "at most once: committed before the transaction is sent. Deliveries that fail or crash after that are lost"
        ),
        CommitStrategy.AUTO: (
            "none: a timer commits every 5 s, delivered or not. A crash may lose or repeat deliveries."
            " Needs unsafe = true"
        ),
    }
)
"""The guarantee of each strategy in one sentence, used by help, documentation and tests."""

DEFAULT_SECONDS: Final[Mapping[CommitStrategy, float]] = MappingProxyType(
    {CommitStrategy.BATCH: 5.0, CommitStrategy.TIME: 30.0, CommitStrategy.AUTO: 5.0}
)
"""Maximum wait of a commit in seconds, for the strategies that wait."""


class CommitSettings(Section):
    """The commit strategy with its intervals in seconds."""

    commit: CommitStrategy = Field(
        default=CommitStrategy.BATCH,
        description="when deliveries are committed: batch, message, time, at-most-once, auto",
    )
    commit_interval: int = Field(default=100, gt=0, description="number of deliveries in a batch")
    commit_seconds: float | None = Field(
        default=None, gt=0, description="maximum time until a commit; by default 5 for batch and auto, 30 for time"
    )
    unsafe: bool = Field(default=False, description="whether commit = auto, which guarantees nothing, may be chosen")

    @property
    def commit_wait(self) -> float:
        """Returns the maximum number of seconds that a delivery waits for its commit."""
        return DEFAULT_SECONDS.get(self.commit, 0.0) if self.commit_seconds is None else self.commit_seconds


COMMIT_TRIES: Final = 12
"""Number of tries of a commit that the store rejects, about two minutes in all; then the relayer stops."""

_FIRST_PAUSE: Final = 0.1  # seconds before the second try; doubles each time
_LONGEST_PAUSE: Final = 30.0  # seconds


class CommitsHaltedError(Exception):
    """The store has rejected every commit for too long. The relayer stops, and repeats the commits after a restart."""


class DeliveryCommits:
    """Commits the outcomes of claims when the strategy requires it.

    A failed delivery is committed immediately, together with all waiting outcomes.
    """

    def __init__(self, outbox: Outbox, clock: Clock, settings: CommitSettings, written: Callable[[], None]) -> None:
        """Stores the dependencies; `written` is called after each commit."""
        self._outbox = outbox
        self._clock = clock
        self._settings = settings
        self._written = written
        self._outcomes: list[Outcome] = []
        self._committed: set[Claim] = set()  # committed before their delivery
        self.commits: Counter[str] = Counter()  # by result: success, failure
        self._due = Wakeup()
        self._writer: asyncio.Task[None] | None = None
        self._halt_reason: CommitsHaltedError | None = None
        self._halted = asyncio.Event()

    @property
    def claims(self) -> list[Claim]:
        """Returns the claims whose outcome is not committed yet; their leases must be kept."""
        return [outcome.claim for outcome in self._outcomes]

    def is_committed(self, claim: Claim) -> bool:
        """Whether the outbox already shows DELIVERED although the delivery is still in progress."""
        return claim in self._committed

    async def halted(self) -> None:
        """Waits until the store has rejected too many commits.

        Raises:
            CommitsHaltedError: The store has rejected too many commits.
        """
        await self._halted.wait()
        assert self._halt_reason is not None
        raise self._halt_reason

    def add(self, outcome: Outcome) -> None:
        """Adds an outcome, to be committed when the strategy requires it."""
        if outcome.claim in self._committed:
            self._committed.discard(outcome.claim)
            if isinstance(outcome, Delivered) and outcome.delivery is not None:
                self._note_delivery(outcome.claim, outcome.delivery)
            elif not isinstance(outcome, Delivered):
                _log.error("delivery lost: committed before it failed", entry=outcome.claim.event_id)
            return
        self._outcomes.append(outcome)
        if self._is_due(outcome):
            self._due.set()
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(self._write_all())

    def nothing_under_way(self) -> None:
        """Commits the batch immediately, because no delivery in progress could still join it."""
        if self._outcomes and self._settings.commit is CommitStrategy.BATCH:
            self._due.set()

    def commit_before_sending(self, claim: Claim) -> None:
        """Commits a delivery before it is sent, if the strategy prefers losing a delivery to repeating it.

        Raises:
            StaleClaimError: The claim was lost.
            TransientError: The store can't be written; nothing is sent.
        """
        if self._settings.commit is not CommitStrategy.AT_MOST_ONCE or claim in self._committed:
            return
        if self._commit([Delivered(claim, None)]):
            raise StaleClaimError(claim)
        self._committed.add(claim)

    def commit_everything(self, active: Collection[Claim]) -> None:
        """Commits all finished deliveries, and those in progress as if they were delivered.

        The timer of strategy `auto` calls this.

        Raises:
            TransientError: The store can't be written; nothing was changed.
        """
        early = [claim for claim in active if claim not in self._committed]
        ends = [*self._outcomes, *(Delivered(claim, None) for claim in early)]
        if not ends:
            return
        lost = self._commit(ends)
        self._outcomes = []
        self._committed.update(set(early) - lost)
        self._written()

    def flush(self) -> None:
        """Commits all waiting outcomes now, each in its own transaction if the strategy is `message`.

        Raises:
            TransientError: The store can't be written; the outcomes are kept.
        """
        while self._outcomes:
            size = 1 if self._settings.commit is CommitStrategy.MESSAGE else len(self._outcomes)
            lost = self._commit_apart(self._outcomes[:size])
            self._outcomes = self._outcomes[size:]
            for claim in lost:
                _log.info("claim lost before commit", entry=claim.event_id, worker=claim.worker)
            self._written()

    def _commit_apart(self, outcomes: Sequence[Outcome]) -> set[Claim]:
        """Commits outcomes together. If any of them can't be written, commits each separately to save the others."""
        try:
            return self._commit(outcomes)
        except (TransientError, StoreError):
            raise
        except Exception as error:  # noqa: BLE001  # the next deliveries must be committed after any error
            if len(outcomes) == 1:
                entry = outcomes[0].claim.event_id
                _log.error("outcome not written, lease will expire", entry=entry, exc_info=error)
                return set()
        return set[Claim]().union(*(self._commit_apart([outcome]) for outcome in outcomes))

    def _commit(self, outcomes: Sequence[Outcome]) -> set[Claim]:
        try:
            lost = self._outbox.finish(outcomes, self._clock.now())
        except (TransientError, StoreError):
            self.commits["failure"] += 1
            raise
        self.commits["success"] += 1
        return lost

    def _is_due(self, outcome: Outcome) -> bool:
        if not isinstance(outcome, Delivered):
            return True
        if self._settings.commit is CommitStrategy.BATCH:
            return len(self._outcomes) >= self._settings.commit_interval
        return self._settings.commit in (CommitStrategy.MESSAGE, CommitStrategy.AT_MOST_ONCE)

    async def _write_all(self) -> None:
        failures = 0
        while self._outcomes:
            await self._due.wait(0 if failures else self._settings.commit_wait)
            await asyncio.sleep(0)  # lets deliveries that end at the same moment share a commit
            try:
                self.flush()
            except (TransientError, StoreError) as error:
                failures += 1
                if failures >= COMMIT_TRIES:
                    self._halt(failures, error)
                    return
                pause = backoff(_FIRST_PAUSE, failures - 1, cap=_LONGEST_PAUSE)
                _log.warning(
                    "commit failed, will be retried", outcomes=len(self._outcomes), retry_in=pause, error=str(error)
                )
                await self._clock.sleep(pause)
            else:
                failures = 0

    def _halt(self, failures: int, error: Exception) -> None:
        self._halt_reason = CommitsHaltedError(
            f"{len(self._outcomes)} delivery outcomes could not be committed in {failures} tries: {error}."
            " Nothing is lost: repair the store and restart the relayer"
        )
        self._halted.set()
        _log.critical("commits halted", outcomes=len(self._outcomes), error=str(error))

    def _note_delivery(self, claim: Claim, delivery: ObservedDelivery) -> None:
        try:
            self._outbox.repin(claim.event_id, delivery)
        except TransientError as error:
            _log.warning("delivered, but block not recorded", entry=claim.event_id, error=str(error))
