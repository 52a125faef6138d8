"""Messages that were delivered, and of which nobody has shown yet that they were executed: they are executed once that is possible.

The router executes a message with the delivery that completes its quorum. What completes it otherwise, such as the end of a
GMP's pause or a quorum that is lowered, executes nothing: then somebody has to call `execute`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol

from bridge.domain.lanes import Lane
from bridge.domain.observations import BlockRef

FIRST_LOOK: Final = 5.0
"""Seconds after a delivery until its message is looked at: by then the next delivery has mostly executed it."""

PURPOSE: Final = "execute/"
"""How the transaction_keys of all executions begin."""


class ExecutionState(StrEnum):
    """What was found when the message was last looked at."""

    WAITING = "WAITING"  # its router executes it not yet: the quorum is not there, or something is paused
    REFUSED = "REFUSED"  # its recipient refuses it
    BLOCKED = "BLOCKED"  # it could be executed, and this relayer may not, or can't pay
    SENT = "SENT"  # a transaction of ours is under way, or has executed it and is not final
    EXECUTED = "EXECUTED"  # by a transaction of ours, and that is final
    ENDED = "ENDED"  # executed otherwise, expired or cancelled


UNENDED: Final = frozenset(
    {ExecutionState.WAITING, ExecutionState.REFUSED, ExecutionState.BLOCKED, ExecutionState.SENT}
)
"""States in which a message is looked at again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedExecution:
    """A message, and how far its execution is."""

    message_id: bytes
    source_chain: int
    destination_chain: int
    state: ExecutionState = ExecutionState.WAITING
    since: float  # Unix seconds: when the delivery was noted after which it waits
    next_at: float  # Unix seconds: not looked at before
    round: int = 0  # grows when it can't be executed any more after a transaction was tried
    was_sent: bool = (
        False  # whether a transaction was tried in this round; its transaction_key in the nonce ledger tells more
    )
    fence: int = 0  # grows with each transaction and each delivery: a check from before that writes nothing
    outcome: str = ""  # for people: what was found, or done
    seen: BlockRef | None = None  # the block at whose end it was seen executed or ended; final or not

    @property
    def lane(self) -> Lane:
        """The lane that it is on."""
        return Lane(self.source_chain, self.destination_chain)

    @property
    def transaction_key(self) -> str:
        """What the nonce ledger calls the transaction of this round: in each there is one at most."""
        return f"{purpose_prefix(self.message_id)}{self.round}"

    def found(self, state: ExecutionState, outcome: str, next_at: float) -> AwaitedExecution:
        """After a look."""
        return replace(self, state=state, outcome=outcome, next_at=next_at)

    def locked(self, until: float) -> AwaitedExecution:
        """With a transaction of this round about to be sent; others leave it alone until then (Unix seconds)."""
        return replace(self, state=ExecutionState.SENT, was_sent=True, fence=self.fence + 1, next_at=until, seen=None)

    def in_next_round(self) -> AwaitedExecution:
        """Open for another transaction, since it could not be executed in between."""
        return replace(self, round=self.round + 1, was_sent=False)

    def ended(self) -> AwaitedExecution:
        """By a delivery that has executed it: to see that through to its finality is that delivery's matter."""
        return replace(self, state=ExecutionState.ENDED, fence=self.fence + 1, outcome="", seen=None)


def purpose_prefix(message_id: bytes) -> str:
    """How the transaction_keys of all rounds of a message begin."""
    return f"{PURPOSE}0x{message_id.hex()}/"


class Executions(Protocol):
    """Where they are kept. Every method is one transaction. `Outbox.finish` adds to them, and ends them."""

    def note(self, message_id: bytes, now: float) -> None:
        """Takes up a message of which somebody found that it can be executed; one that was not observed is left out."""

    def due(self, now: float, limit: int) -> list[AwaitedExecution]:
        """Those that are to be looked at, the one that waits for that the longest first."""

    def save(self, changed: AwaitedExecution, *, fence: int) -> bool:
        """Writes one unless its fence is not that any more."""

    def of_message(self, message_id: bytes) -> AwaitedExecution | None:
        """One of them."""

    def counts(self) -> Mapping[Lane, Mapping[ExecutionState, int]]:
        """How many are in each state."""
