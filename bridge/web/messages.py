"""One message, as its page shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bridge.domain.actions import ActionMessage
from bridge.evm.actions import action_message
from bridge.protocol.indexed import DivergenceRecord, EventRecord, MessageRecord
from bridge.protocol.message import Message
from bridge.protocol.status import Status
from bridge.queries import Act, Offer
from bridge.queries.actions import change_text
from bridge.queries.explain import Explanation, Kept, Stage, explanation_kept, read_kept
from bridge.queries.lanes import lane_name
from bridge.web.payload import Decoded, action_payload, decode_payload
from bridge.web.rendering import account, tone
from bridge.web.sources import Sources
from bridge.web.timeline import Step, Transaction, timeline, transactions

_SEVERITIES: Final = ("critical", "high", "medium", "low")

STAGES: Final[Mapping[Stage, tuple[str, str]]] = {
    Stage.REFUSED: ("did not accept it", "bad"),
    Stage.DISPATCHED: ("waiting", "plain"),
    Stage.ATTESTING: ("attesting", "plain"),
    Stage.DELIVERING: ("being delivered", "plain"),
    Stage.DELIVERED: ("delivered, not yet indexed", "good"),
    Stage.UNPAID: ("not paid for", "warn"),
    Stage.BLOCKED: ("blocked", "warn"),
    Stage.FAILING: ("failing", "warn"),
    Stage.DEAD: ("given up", "bad"),
    Stage.RECEIVED: ("received", "good"),
}
"""How a GMP's stage is shown: in words, and its tone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAct:
    """Something that can be done about a message, and the command that does the same."""

    kind: str  # retry, execute, dispatch, expire or cancel
    title: str
    why: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """All that the page of a message shows."""

    explanation: Explanation
    tone: str  # of the state: good, warn, bad, plain or quiet
    next_action: str
    is_proven: bool  # False: nothing of it is shown as a success
    record: MessageRecord | None  # None: no index knows it
    lane: str
    sender: str
    recipient: str
    id_matches: bool | None  # None: nothing to compute it from
    preimage: tuple[tuple[str, str], ...]
    payload: Decoded | None
    action: ActionMessage | None  # what it says about an atomic action
    steps: tuple[Step, ...]
    transactions: tuple[Transaction, ...]
    own: frozenset[bytes]  # hashes of transactions that the relayer is known to have sent
    attempts: int
    attempted: Mapping[int, int]  # by attempt, 0 being the route: when it was made, Unix seconds of block time
    quorum: int | None
    receipts: int
    acts: tuple[ShownAct, ...]
    divergences: tuple[DivergenceRecord, ...]  # the worst first

    @property
    def message(self) -> Message | None:
        """The message; None if its source has not been read."""
        return self.explanation.message

    @property
    def status(self) -> Status:
        """Its state."""
        return self.explanation.status


def read_message(sources: Sources, message_id: bytes) -> ShownMessage | None:
    """Everything that is known of a message, or None if nobody has seen it."""
    kept = read_kept(message_id, sources.index(), sources.store(), sources.dead_letters())
    record, message = kept.record, kept.message
    known = message or record
    if known is None:
        return None
    found = explanation_kept(sources.deployment, message_id, kept, sources.clock())
    is_proven = found.status not in (Status.DIVERGED, Status.UNKNOWN)
    action = action_message(message, sources.coordinators) if message else None
    asked_by = partial(_asked_by, kept, action)
    steps = tuple(timeline(kept.events, kept.retries, is_proven=is_proven, asked_by=asked_by))
    return ShownMessage(
        explanation=found,
        tone="bad" if kept.is_contradicted else tone(found.status) if message else "warn",
        next_action=sources.commands_in(found.next_action),
        is_proven=is_proven,
        record=record,
        lane=lane_name(sources.deployment, known.source_chain, known.destination_chain),
        sender=account(known.sender),
        recipient=account(known.recipient),
        id_matches=message.id == message_id if message else None,
        preimage=_preimage(message) if message else (),
        payload=_payload(sources, message, action) if message else None,
        action=action,
        steps=steps,
        transactions=transactions(steps),
        own=_own(kept),
        attempts=max((attempt for gmp in found.gmps for attempt in gmp.attempts), default=0),
        attempted={
            event.attempt or 0: event.block_time
            for event in kept.events
            if event.event in ("MessageRouted", "MessageRetried")
        },
        quorum=(record.quorum if record else None) or (message.quorum if message else None),
        receipts=record.receipts if record else len(found.receipts),
        acts=tuple(_act(sources, found, offer) for offer in found.offers),
        divergences=tuple(sorted(kept.divergences, key=lambda one: _SEVERITIES.index(one.severity))),
    )


def _asked_by(kept: Kept, action: ActionMessage | None, retry: EventRecord) -> str:
    """Who had a retry made, and why, as far as the relayer's store says."""
    job = next((one for one in kept.retries if one.transaction_hash == retry.transaction_hash), None)
    if job is not None:
        return "The index had asked this relayer for it."
    if kept.own_retries is None:
        return "Who asked for it is not known here: no relayer has run."
    if retry.attempt not in kept.own_retries:
        return "Not this relayer, but its sender or one of its sender's retriers made it."
    if action is None:
        return "This relayer made it: for an operator, or to have a state change applied."
    waited = f" within {action.window.max_backoff} s" if action.window else ""
    return f"This relayer made it as it follows the action: {action.phase.name} had no answer{waited}."


def _own(kept: Kept) -> frozenset[bytes]:
    delivered = {entry.delivery.transaction_hash for entry in kept.entries if entry.delivery is not None}
    retried = {one.transaction_hash for one in kept.events if one.attempt and one.attempt in (kept.own_retries or ())}
    return frozenset(one for one in delivered | retried if one is not None)


def _payload(sources: Sources, message: Message, action: ActionMessage | None) -> Decoded:
    if action is None:
        return decode_payload(message, sources.payloads)
    participant = account(message.recipient)
    change = change_text(message.destination_chain, participant, action.change, sources.deployment)
    return action_payload(message, action, change)


def _preimage(message: Message) -> tuple[tuple[str, str], ...]:
    """What goes into the id, field by field, in the order of docs/formats.md."""
    words = {
        "version": "1",
        "sourceChain": str(message.source_chain),
        "sourceRouter": f"0x{message.source_router.hex()}",
        "sender": f"0x{message.sender.hex()}",
        "nonce": str(message.nonce),
        "destinationChain": str(message.destination_chain),
        "destinationRouter": f"0x{message.destination_router.hex()}",
        "recipient": f"0x{message.recipient.hex()}",
        "gasLimit": str(message.gas_limit),
        "sentAt": str(message.sent_at),
        "ttl": str(message.ttl),
        "kind": f"{int(message.kind)} ({message.kind.name})",
        "quorum": str(message.quorum),
        "replaces": f"0x{message.replaces.hex()}",
        "keccak256(payload)": f"0x{message.payload_hash.hex()}",
    }
    return tuple(words.items())


_ACTS: Final[Mapping[Act, tuple[str, str]]] = {
    Act.RETRY: ("Retry over other GMPs", "Sends the same message again. Receipts it already has still count."),
    Act.CANCEL: ("Cancel", "Asks the destination never to execute it. The cancellation may arrive too late."),
    Act.EXECUTE: ("Execute", "Calls the recipient again."),
    Act.FUND: ("Fund it", "Hands it to the GMPs that its sender chose."),
    Act.EXPIRE: ("Mark as expired", "Makes its end final on the destination, so that it can be reported."),
}
"""By act, its title and what it does."""


def _act(sources: Sources, found: Explanation, offer: Offer) -> ShownAct:
    title, does = _ACTS[offer.act]
    return ShownAct(
        kind=offer.act.value,
        title=title,
        why=f"{does} Accepted from {offer.by}.",
        command=sources.command(found.command(offer)),
    )


def message_data(message: Message) -> dict[str, Any]:
    """The message as the dApp kit has it, with integers as text: JSON's would be rounded."""
    word = {name: f"0x{getattr(message, name).hex()}" for name in ("sender", "recipient", "replaces", "payload")}
    return word | {
        "sourceChain": str(message.source_chain),
        "sourceRouter": f"0x{message.source_router.hex()}",
        "nonce": str(message.nonce),
        "destinationChain": str(message.destination_chain),
        "destinationRouter": f"0x{message.destination_router.hex()}",
        "gasLimit": str(message.gas_limit),
        "sentAt": str(message.sent_at),
        "ttl": message.ttl,
        "kind": int(message.kind),
        "quorum": message.quorum,
    }
