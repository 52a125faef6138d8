"""Queries about atomic actions: their state, their participants, and the next steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from eth_utils.address import to_checksum_address

from bridge.atomic.records import Action, ActionState, Branch, BranchState, Decision, Level, Phase, PhaseMessage
from bridge.atomic.steps import due_steps
from bridge.protocol.deployment import Deployment
from bridge.protocol.status import Status
from bridge.protocol.times import iso
from bridge.queries.lanes import chain_name

NEWEST: Final = 50
"""Number of actions in a list, of all coordinators together."""

_MEANINGS: Final = {
    ActionState.PREPARING: "Votes are awaited. Nothing is decided.",
    ActionState.COMMITTING: "COMMIT is decided, and insisted on until every participant has confirmed it.",
    ActionState.COMMITTED: "Every participant has applied it.",
    ActionState.PARTIALLY_COMMITTED: "Not every participant is known to have applied it. Its level promises no more.",
    ActionState.ABORTING: "ABORT is decided. Not every participant has confirmed its release.",
    ActionState.ABORTED: "Its change was not made: no participant has applied it, or holds the subject for it.",
    ActionState.DIVERGED: "COMMIT is decided, and a participant did not confirm it in time or can't apply it.",
    ActionState.ROLLBACK_INCOMPLETE: "ABORT is decided, and a participant did not confirm its release or has applied it.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAct:
    """A possible next step for an action, and the command for it."""

    kind: str  # advance, retry, report, abort or reconcile
    why: str
    command: str


def meaning(action: Action) -> str:
    """Explains an action's state in one or two sentences."""
    text = _MEANINGS[action.state]
    if action.level is Level.BEST_EFFORT and action.state is ActionState.COMMITTING:
        return "COMMIT is sent, and nobody insists on it. A report of each destination says how it ended."
    if action.state.is_stalled:
        return f"{text} New actions on its subject are refused until that is put right."
    return text


def action_acts(action: Action) -> tuple[ActionAct, ...]:
    """Returns the possible next steps for an action."""
    found: list[ActionAct] = []
    if steps := due_steps(action):
        found.append(
            ActionAct(
                kind="advance",
                why=f"Anyone may: {'; '.join(step.text for step in steps)}.",
                command=f"waybill action reconcile {action.name}",
            )
        )
    found += [
        ActionAct(
            kind="retry",
            why=f"{message.phase.name} of participant {branch.number} {_not_there(message.status)}. A retrier may send it again.",
            command=f"waybill action reconcile {action.name} --branch {branch.number}",
        )
        for branch in action.branches
        for message in retriable(action, branch)
    ]
    found += [
        ActionAct(
            kind="report",
            why=f"Participant {branch.number} has applied it, and the coordinator's chain has no report. Anyone may pay for one.",
            command=f"waybill message report 0x{branch.decision_id.hex()}",
        )
        for branch in action.unreported
    ]
    if action.decision is Decision.NONE:
        why = "Its initiator and the coordinator's owner may, as long as nothing is decided."
        found.append(ActionAct(kind="abort", why=why, command=f"waybill action abort {action.name}"))
    if action.state.is_stalled:
        found += [reconciliation(action, branch) for branch in action.branches if not branch.state.is_settled]
    return tuple(found)


def reconciliation(action: Action, branch: Branch) -> ActionAct:
    """Returns the step that brings a contradicting participant in line with the decision."""
    command = f"waybill action reconcile {action.name} --branch {branch.number}"
    if branch.says is BranchState.DIVERGED:
        why = f"The participant's owner makes room for the change, and has it made: {branch.reason}."
        return ActionAct(kind="reconcile", why=why, command=command)
    why = "The coordinator's owner vouches for the participant, once its chain agrees with the decision."
    return ActionAct(kind="reconcile", why=why, command=f'{command} --evidence "…"')


def _not_there(status: Status | None) -> str:
    return "has not arrived" if status is not None else "is not known to have arrived, for its chain does not answer"


def retriable(action: Action, branch: Branch) -> list[PhaseMessage]:
    """Returns a participant's pending messages that are not known to have ended on their destination."""
    phases = (action.phase, Phase.VOTE, Phase.FINALIZE) if action.awaits(branch) else ()
    return [message for message in branch.messages if message.phase in phases and not is_there(message.status)]


def is_there(status: Status | None) -> bool:
    """Whether a message is known to have ended on its destination."""
    return status in (Status.EXECUTED, Status.EXPIRED, Status.CANCELLED)


def findings(action: Action) -> list[str]:
    """Describes the participants whose own records contradict the decision."""
    return [
        f"{action.decision.name} is decided, and participant {branch.number} says {branch.says.name}"
        + (f": {branch.reason}" if branch.reason else "")
        for branch in action.contradictions
        if branch.says is not None
    ]


def summary_value(action: Action, deployment: Deployment) -> dict[str, Any]:
    """Returns an action's row in a list, for JSON."""
    return {
        "actionId": action.name,
        "number": action.number,
        "chain": chain_name(deployment, action.chain),
        "coordinator": action.coordinator,
        "subject": f"0x{action.subject.hex()}",
        "level": action.level.name,
        "state": action.state.name,
        "decision": action.decision.name,
        "cause": action.cause.name,
        "participants": [
            {
                "branch": branch.number,
                "chain": chain_name(deployment, branch.chain),
                "state": branch.state.name,
                "change": f"0x{branch.change.hex()}",
            }
            for branch in action.branches
        ],
        "begunAt": iso(action.begun_at),
        "decidedAt": iso(action.decided_at or None),
    }


def action_value(action: Action, deployment: Deployment) -> dict[str, Any]:
    """Returns an action with its participants, for JSON."""
    return {
        **summary_value(action, deployment),
        "meaning": meaning(action),
        "initiator": to_checksum_address(action.initiator),
        "phase": None if action.state.is_over else action.phase.name,
        "phaseEndsAt": iso(action.phase_ends_at or None),
        "isTimedOut": action.is_timed_out,
        "window": {
            "prepareTtl": action.window.prepare_ttl,
            "decisionTtl": action.window.decision_ttl,
            "maxRetries": action.window.max_retries,
            "maxBackoff": action.window.max_backoff,
            "lockTtl": action.window.lock_ttl,
        },
        "participants": [
            {**_branch_value(branch, deployment), "obstacle": action.obstacle(branch) or None}
            for branch in action.branches
        ],
        "findings": findings(action),
        "next": [{"act": act.kind, "why": act.why, "command": act.command} for act in action_acts(action)],
    }


def _branch_value(branch: Branch, deployment: Deployment) -> dict[str, Any]:
    participation = branch.participation
    return {
        "branch": branch.number,
        "chain": chain_name(deployment, branch.chain),
        "participant": to_checksum_address(branch.participant),
        "change": f"0x{branch.change.hex()}",
        "state": branch.state.name,
        "retries": branch.retries,
        "sentAt": iso(branch.sent_at or None),
        "says": None if branch.says is None else branch.says.name,
        "reason": branch.reason,
        "lockedUntil": iso(participation.locked_until or None) if participation else None,
        "problem": branch.problem or None,
        "messages": [
            {
                "phase": message.phase.name,
                "messageId": f"0x{message.message_id.hex()}",
                "status": message.status.value if message.status else Status.UNKNOWN.value,
            }
            for message in branch.messages
        ],
    }
