"""Where a message is in its life: one vocabulary for events, CLI, web, store and Spark."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """The state of a message."""

    ROUTED = "ROUTED"
    RECEIVED = "RECEIVED"
    EXECUTED = "EXECUTED"
    UNFUNDED = "UNFUNDED"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    EXECUTION_DEFERRED = "EXECUTION_DEFERRED"
    STALLED = "STALLED"
    EXPIRED = "EXPIRED"
    CANCELLED = "CANCELLED"
    DEAD = "DEAD"
    DIVERGED = "DIVERGED"
    ORPHANED = "ORPHANED"
    UNKNOWN = "UNKNOWN"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to the message by itself."""
        return self in _FINAL

    @property
    def next_action(self) -> str:
        """The one thing to do about a message in this state; ``{id}`` stands for its id."""
        return _NEXT_ACTION[self]


_FINAL = frozenset({Status.EXECUTED, Status.EXPIRED, Status.CANCELLED, Status.DEAD, Status.ORPHANED})

_NEXT_ACTION = {
    Status.ROUTED: "wait: no GMP has delivered yet; `waybill message explain {id}` says what each one does",
    Status.RECEIVED: "wait: more GMPs must deliver before the quorum is reached",
    Status.EXECUTED: "nothing: the recipient has it",
    Status.UNFUNDED: "pay for its dispatch: `waybill message dispatch {id}`",
    Status.EXECUTION_FAILED: "fix the recipient, then `waybill message execute {id}`",
    Status.EXECUTION_DEFERRED: "execute it with enough gas: `waybill message execute {id}`",
    Status.STALLED: "retry it over other GMPs: `waybill message retry {id}`",
    Status.EXPIRED: "send it again as a new message",
    Status.CANCELLED: "nothing: its sender cancelled it",
    Status.DEAD: "decide about its dead letter: `waybill dlq show {id}`",
    Status.DIVERGED: "look at the evidence before anything else: `waybill index divergence {id}`",
    Status.ORPHANED: "follow the message that replaced it, if its transaction came back",
    Status.UNKNOWN: "let the index catch up: `waybill status` shows how far each chain is",
}
