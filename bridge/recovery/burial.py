"""How a message ends whose own retry budget is spent: DEAD, with a dead letter where its kind has those."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from bridge.dlq import DeadLetterOffice
from bridge.policies import RetryPolicy, guarantee_of
from bridge.policies.guarantee import RetryChoice
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from bridge.records import Store
from bridge.records.failures import Failure, FailureKind
from bridge.records.outbox import OutboxState
from bridge.records.retries import RetryJob, spent_id

_log = structlog.get_logger(__name__)

RETRY_BUDGET_SPENT: Final = "RETRY_BUDGET_SPENT"
"""What the letter names as its error."""

_UNDER_WAY: Final = (OutboxState.PENDING, OutboxState.CLAIMED)


class Burial:
    """Decides whether a message is dead, and has its letter written."""

    def __init__(
        self,
        office: DeadLetterOffice,
        store: Store,
        *,
        policies: Mapping[Kind, RetryPolicy],
        guarantees: Mapping[bytes, RetryChoice],
        usable: frozenset[Gmp],
    ) -> None:
        """`usable` are the GMPs that this relayer delivers over: what others have still to deliver is not waited for."""
        self._office = office
        self._outbox = store.outbox
        self._observations = store.observations
        self._policies = policies
        self._guarantees = guarantees
        self._usable = usable

    def is_let_through(self, job: RetryJob) -> bool:
        """Whether an operator has decided that this one attempt is made whatever its message has cost."""
        return self._office.is_let_through(spent_id(job.request.message_id, job.request.attempt))

    def promises_letter(self, message: Message) -> bool:
        """Whether a message that ends now has a dead letter."""
        return guarantee_of(message, self._policies, self._guarantees).policy.dead_letter

    async def bury(self, job: RetryJob, message: Message, why: str, now: float) -> str | None:
        """Ends a message for whose retry its budget has no room; says why it can't end yet, else None.

        Args:
            job: the retry.
            message: which one.
            why: the budget's words.
            now: Unix seconds.
        """
        policy = guarantee_of(message, self._policies, self._guarantees).policy
        if policy.max_retries is None:
            return "it is tried without end, and waits until the limit is raised"
        if self._observations.message(message.id) is None:
            return "this relayer has not read its dispatch yet, and may still deliver it"
        alive = sorted(
            entry.dispatch.gmp.label
            for entry in self._outbox.entries(message.id)
            if entry.state in _UNDER_WAY and entry.orphaned_at is None and entry.dispatch.gmp in self._usable
        )
        if alive:
            return f"{' and '.join(dict.fromkeys(alive))} still tries to deliver it"
        if self.promises_letter(message):
            failure = Failure(at=now, kind=FailureKind.TERMINAL, code=RETRY_BUDGET_SPENT, message=why)
            problem = await self._office.bury_message(job, message, failure)
            if problem is not None:
                return f"its dead letter can't be written ({problem})"
        _log.error("message dead", message=f"0x{message.id.hex()}", attempt=job.request.attempt, reason=why)
        return None
