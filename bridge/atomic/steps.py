"""The transactions that advance, abort or reconcile an action."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from eth_utils import keccak

from bridge.atomic.records import Action, Branch, BranchState
from bridge.client import RefusedError
from bridge.evm.retriers import contract_retry_call
from bridge.evm.routers import RouterReader
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.contracts import Contract
from bridge.protocol.deployment import Deployment
from bridge.protocol.events import load_abi
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, Chain

COORDINATOR: Final = Contract(load_abi("AtomicCoordinator"))
PARTICIPANT: Final = Contract(load_abi("AtomicParticipant"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One transaction of an action."""

    name: str  # identifies the step
    chain: int
    call: Call
    text: str  # description for users


def due_steps(action: Action) -> list[Step]:
    """Returns the steps that can be taken now, according to the contracts. Anyone may send and pay for them."""
    if action.is_timed_out:
        return [_by_coordinator(action, f"timeOut/{action.phase.name}", f"time {action.phase.name} out", "timeOut")]
    steps: list[Step] = []
    for branch in action.branches:
        number, phase = branch.number, action.phase.name
        if branch.dispatch.fee is not None:
            name, text = f"dispatch/{number}/{phase}", f"send {phase} to participant {number}"
            steps.append(_by_coordinator(action, name, text, "dispatch", number, fee=branch.dispatch.fee))
        if branch.can_settle:
            steps.append(_by_coordinator(action, f"settle/{number}", f"settle participant {number}", "settle", number))
        participation = branch.participation
        if participation is not None and participation.reply.fee is not None and not action.state.is_over:
            answer = participation.state.name
            name, text = f"reply/{number}/{answer}", f"have participant {number} answer {answer}"
            steps.append(_by_participant(action, branch, name, text, "reply", fee=participation.reply.fee))
    return steps


def abort_step(action: Action) -> Step:
    """Returns the step that aborts an undecided action, for its initiator or the coordinator's owner."""
    return _by_coordinator(action, "abort", "decide ABORT", "abort")


def reconcile_step(action: Action, branch: Branch, evidence: str | None) -> Step:
    """Returns the step that brings a participant in line with the decision.

    A DIVERGED participant applies the change when its owner calls it. For any other participant, the coordinator's
    owner vouches that the participant agrees, and the hash of the evidence is recorded on chain.

    Raises:
        RefusedError: required evidence is missing.
    """
    name, text = f"reconcile/{branch.number}", f"reconcile participant {branch.number}"
    if evidence:
        return _by_coordinator(action, name, text, "reconcile", branch.number, keccak(text=evidence))
    if branch.participation is not None and branch.participation.state is BranchState.DIVERGED:
        return _by_participant(action, branch, name, text, "reconcile")
    raise RefusedError(
        f"participant {branch.number} is not DIVERGED, so the coordinator's owner must vouch for it: "
        "pass --evidence with proof that the participant's chain agrees with the decision"
    )


async def retry_call(
    deployment: Deployment, chains: Mapping[int, Chain], message: Message, gmps: Iterable[Gmp], payer: str
) -> Call:
    """Returns the call that retries a phase's message, for a retrier of the contract that sent it."""
    source = deployment.chain(message.source_chain)
    router = RouterReader(chains[source.chain_id], source.router)
    fees = [(gmp, await router.quote(message, gmp)) for gmp in gmps]
    return contract_retry_call(message, from_bytes32(message.sender), fees, payer)


def _by_coordinator(action: Action, name: str, text: str, function: str, *arguments: Any, fee: int = 0) -> Step:
    data = COORDINATOR.encode(function, action.id, *arguments)
    return Step(name=name, chain=action.chain, call=Call(to=action.coordinator, data=data, value=fee), text=text)


def _by_participant(action: Action, branch: Branch, name: str, text: str, function: str, *, fee: int = 0) -> Step:
    data = PARTICIPANT.encode(function, action.id)
    return Step(name=name, chain=branch.chain, call=Call(to=branch.participant, data=data, value=fee), text=text)
