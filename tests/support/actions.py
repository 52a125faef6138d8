"""Atomic actions as the chains might have them, for tests that need no chain."""

from __future__ import annotations

from typing import Any

from bridge.atomic.records import (
    Action,
    ActionState,
    Branch,
    BranchState,
    Cause,
    Decision,
    Level,
    Offer,
    Participation,
    Window,
)

ACTION_ID = bytes.fromhex("ac" * 32)
WINDOW = Window(prepare_ttl=300, decision_ttl=120, max_retries=5, max_backoff=60, lock_ttl=900)


def participation(state: BranchState, **changes: Any) -> Participation:
    """What a participant has on record."""
    values = {
        "state": state,
        "reason": "",
        "reply_id": bytes(32),
        "locked_until": 0,
        "reply": Offer(refusal="NothingToReply"),
    }
    return Participation(**{**values, **changes})


def branch(number: int, chain: int, state: BranchState, **changes: Any) -> Branch:
    """One participant's part."""
    values = {
        "number": number,
        "chain": chain,
        "participant": f"0x{number + 1:040x}",
        "state": state,
        "retries": 0,
        "sent_at": 1_700_000_000,
        "prepare_id": bytes([number + 1]) * 32,
        "decision_id": bytes(32),
        "dispatch": Offer(refusal="AlreadyDispatched"),
    }
    return Branch(**{**values, **changes})


def action(*branches: Branch, **changes: Any) -> Action:
    """An action with those participants, COMMITTING unless it is said otherwise."""
    values = {
        "id": ACTION_ID,
        "chain": 1,
        "coordinator": "0x" + "c0" * 20,
        "number": 7,
        "initiator": "0x" + "1a" * 20,
        "level": Level.ALL_OR_NOTHING,
        "state": ActionState.COMMITTING,
        "decision": Decision.COMMIT,
        "cause": Cause.ALL_PREPARED,
        "subject": bytes(31) + b"\1",
        "begun_at": 1_700_000_000,
        "decided_at": 1_700_000_060,
        "phase_ends_at": 1_700_000_400,
        "is_timed_out": False,
        "window": WINDOW,
        "branches": branches,
    }
    return Action(**{**values, **changes})
