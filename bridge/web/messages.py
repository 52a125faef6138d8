"""One message, as its page shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bridge.domain.jobs import ExecutionJob, RetryJob
from bridge.domain.outbox import OutboxEntry, OutboxState
from bridge.domain.spending import Held
from bridge.protocol.deployment import DeploymentError
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import DivergenceRecord, EventRecord, MessageRecord, PausedThing, ReceiptRecord
from bridge.protocol.message import EnvelopeError, Kind, Message, decode_envelope
from bridge.protocol.status import Status
from bridge.queries import Act, Circumstances, Expiry, Offer, Standing, circumstances_of, next_action
from bridge.queries.explain import Explanation, IndexView, explain
from bridge.queries.lanes import gmp_name, lane_name
from bridge.web.payload import Decoded, decode_payload
from bridge.web.rendering import account, tone, words
from bridge.web.sources import Sources
from bridge.web.timeline import Step, Transaction, timeline, transactions

_SEVERITIES: Final = ("critical", "high", "medium")

WAITED_FOR: Final = "medium"
"""The severity of what contradicts nothing yet: somebody waits, and the state says so already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpRow:
    """One GMP's line in the matrix."""

    name: str
    sent: str  # in which attempts
    state: str  # RECEIVED, or how far its delivery is
    tone: str
    received_at: int | None  # Unix seconds
    seconds: int | None  # from the creation to the receipt
    transaction_hash: bytes | None
    chain_id: int | None
    tries: int  # of the relayer, that failed
    letter: str  # the id of its dead letter, or ""
    last_error: str
    duplicates: int


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

    message_id: bytes
    status: Status
    tone: str  # of the state: good, warn, bad, plain or quiet
    reason: str
    next_action: str
    message: Message | None  # None: its source has not been read
    record: MessageRecord | None  # None: no index knows it
    lane: str
    sender: str
    recipient: str
    id_matches: bool | None  # None: nothing to compute it from
    preimage: tuple[tuple[str, str], ...]
    payload: Decoded | None
    gmps: tuple[GmpRow, ...]
    steps: tuple[Step, ...]
    transactions: tuple[Transaction, ...]
    attempts: int
    quorum: int | None
    receipts: int
    expiry: Expiry | None
    acts: tuple[ShownAct, ...]
    divergences: tuple[DivergenceRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What the stores have about a message."""

    message_id: bytes
    record: MessageRecord | None
    events: Sequence[EventRecord]
    receipts: Sequence[ReceiptRecord]
    entries: Sequence[OutboxEntry]
    jobs: Sequence[RetryJob]
    execution: ExecutionJob | None
    held: Sequence[Held]
    dead_letters: frozenset[str]  # ids of its dead letters
    divergences: Sequence[DivergenceRecord]
    message: Message | None
    circumstances: Circumstances


def read_message(sources: Sources, message_id: bytes) -> ShownMessage | None:
    """Everything that is known of a message, or None if nobody has seen it."""
    facts = _gather(sources, message_id)
    if facts.record is None and facts.message is None:
        return None
    explanation = _explanation(facts, sources.clock())
    record, message = facts.record, facts.message
    status = explanation.status if explanation else record.status if record else Status.UNKNOWN
    contradicted = any(one.severity != WAITED_FOR for one in facts.divergences)
    source = record.source_chain if record else message.source_chain if message else None
    destination = record.destination_chain if record else message.destination_chain if message else None
    is_proven = status not in (Status.DIVERGED, Status.UNKNOWN)
    steps = tuple(timeline(facts.events, facts.jobs, is_proven=is_proven))
    return ShownMessage(
        message_id=message_id,
        status=status,
        tone="bad" if contradicted else tone(status) if message else "warn",
        reason=_reason(sources, facts, explanation, status),
        next_action=sources.commands_in(
            _next_action(facts, explanation, status, message_id, contradicted=contradicted)
        ),
        message=message,
        record=record,
        lane=lane_name(sources.deployment, source, destination),
        sender=account(message.sender if message else record.sender if record else None),
        recipient=account(message.recipient if message else record.recipient if record else None),
        id_matches=message.id == message_id if message else None,
        preimage=_preimage(message) if message else (),
        payload=decode_payload(message, sources.payloads) if message else None,
        gmps=_gmp_rows(facts, is_proven=is_proven),
        steps=steps,
        transactions=transactions(steps),
        attempts=(record.attempts or 0)
        if record
        else max((entry.attempt_number for entry in facts.entries), default=0),
        quorum=(record.quorum if record else None) or (message.quorum if message else None),
        receipts=record.receipts if record else len(_delivered(facts.entries)),
        expiry=facts.circumstances.expiry,
        acts=tuple(_act(sources, offer, facts) for offer in explanation.offers) if explanation else (),
        divergences=tuple(sorted(facts.divergences, key=lambda one: _SEVERITIES.index(one.severity))),
    )


def _reason(sources: Sources, facts: _Facts, explanation: Explanation | None, status: Status) -> str:
    """Why it is in that state. What contradicts is said first."""
    record = facts.record
    if status is Status.DIVERGED:
        kinds = list(dict.fromkeys(words(one.kind) for one in facts.divergences if one.contradicts_message))
        unsent = "" if facts.message else "; no chain that has been read created it"
        return f"facts about it contradict each other: {', '.join(kinds) or 'see the timeline'}{unsent}"
    if explanation is not None:
        return explanation.reason
    source = sources.chain_name(record.source_chain if record else None)
    if record is not None and record.executions > 0:
        destination = sources.chain_name(record.destination_chain)
        return f"{destination} says that it was executed, and {source} has not been read far enough to show that it was ever sent"
    return f"{source} has not been read far enough to show that it was ever sent"


def _next_action(
    facts: _Facts, explanation: Explanation | None, status: Status, message_id: bytes, *, contradicted: bool
) -> str:
    if explanation is not None and not contradicted:
        return explanation.next_action
    shown = Status.DIVERGED if contradicted else status if facts.message else Status.UNKNOWN
    return next_action(Standing(status=shown, kind=Kind.PLAIN), message_id)


def _gather(sources: Sources, message_id: bytes) -> _Facts:
    index, store, log = sources.index(), sources.store(), sources.dead_letters()
    events = index.events(message_id) if index else []
    observed = store.observations.message(message_id) if store else None
    envelope = observed.envelope if observed else next((event.envelope for event in events if event.envelope), None)
    message = _message(envelope)
    record = index.message(message_id) if index else None
    dead_letters = (
        frozenset(one.event_id for one in log.dead_letters(message_id=message_id)) if log else frozenset[str]()
    )
    return _Facts(
        message_id=message_id,
        record=record,
        events=events,
        receipts=index.receipts(message_id) if index else [],
        entries=store.outbox.entries(message_id) if store else [],
        jobs=store.jobs.of_message(RetryJob, message_id) if store else [],
        execution=store.jobs.newest(ExecutionJob, message_id) if store else None,
        held=store.spending.held(message_id) if store else [],
        dead_letters=dead_letters,
        divergences=index.divergences_of(message_id) if index else [],
        message=message,
        circumstances=_circumstances(sources, message, record, has_letter=bool(dead_letters))
        if message
        else Circumstances(),
    )


def _circumstances(
    sources: Sources, message: Message, record: MessageRecord | None, *, has_letter: bool
) -> Circumstances:
    """What decides about the acts, as the index knows it."""
    index = sources.index()
    if index is None:
        return Circumstances(has_letter=has_letter)
    times = {chain.chain_id: max(chain.block_time, int(sources.clock())) for chain in index.chains()}
    return circumstances_of(
        message,
        record,
        source=index.pauses(message.source_chain),
        destination=index.pauses(message.destination_chain),
        times=times,
        has_letter=has_letter,
    )


def _message(envelope: bytes | None) -> Message | None:
    try:
        return decode_envelope(envelope).message if envelope else None
    except EnvelopeError:
        return None  # a version that this code does not read


def _explanation(facts: _Facts, now: float) -> Explanation | None:
    if facts.message is None:
        return None
    record = facts.record
    return explain(
        facts.message,
        receipts=record.received if record else _delivered(facts.entries),
        executed=record is not None and record.status is Status.EXECUTED,
        needed=record.quorum if record else None,
        circumstances=facts.circumstances,
        index=IndexView.of(record) if record else None,
        entries=facts.entries,
        retries=facts.jobs,
        execution=facts.execution,
        held=facts.held,
        now=now,
    )


def _delivered(entries: Sequence[OutboxEntry]) -> frozenset[Gmp]:
    return frozenset(entry.dispatch.gmp for entry in entries if entry.state is OutboxState.DELIVERED)


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


def _gmp_rows(facts: _Facts, *, is_proven: bool) -> tuple[GmpRow, ...]:
    receipts = {receipt.gmp: receipt for receipt in facts.receipts}
    numbers = sorted(receipts.keys() | {int(entry.dispatch.gmp) for entry in facts.entries})
    rows = tuple(_gmp_row(number, receipts.get(number), facts) for number in numbers)
    return rows if is_proven else tuple(replace(row, tone="plain") if row.tone == "good" else row for row in rows)


def _gmp_row(number: int, receipt: ReceiptRecord | None, facts: _Facts) -> GmpRow:
    entries = [entry for entry in facts.entries if entry.dispatch.gmp == number]
    newest = max(entries, key=lambda entry: entry.attempt_number, default=None)
    bit = 1 << (number - 1)
    taken = [event.attempt or 0 for event in facts.events if (event.gmps or 0) & bit]
    attempts = taken or [entry.attempt_number for entry in entries]
    state, tone = _stage(receipt, newest, taken=bool(attempts))
    started = facts.record.source_time if facts.record else None
    received = receipt.received_time if receipt else None
    return GmpRow(
        name=gmp_name(number),
        sent=", ".join("route" if attempt == 0 else f"retry {attempt}" for attempt in attempts),
        state=state,
        tone=tone,
        received_at=received,
        seconds=received - started if received is not None and started is not None else None,
        transaction_hash=receipt.received_transaction if receipt else None,
        chain_id=receipt.received_chain if receipt else None,
        tries=sum(entry.failed_tries for entry in entries),
        letter=newest.event_id if newest and newest.event_id in facts.dead_letters else "",
        last_error=(newest.last_error or "") if newest and state != "received" else "",
        duplicates=receipt.duplicates if receipt else 0,
    )


def _stage(receipt: ReceiptRecord | None, newest: OutboxEntry | None, *, taken: bool) -> tuple[str, str]:
    if receipt is not None and receipt.received_block is not None:
        return "received", "good"
    if newest is None:
        return ("waiting", "plain") if taken else ("did not accept it", "bad")
    match newest.state:
        case OutboxState.DEAD:
            return "given up", "bad"
        case OutboxState.CLAIMED:
            return "being delivered", "plain"
        case OutboxState.DELIVERED:
            return "delivered, not yet indexed", "good"
        case _:
            return ("failing", "warn") if newest.failed_tries else ("attesting", "plain")


_ACTS: Final[Mapping[Act, tuple[str, str]]] = {
    Act.RETRY: ("Retry over other GMPs", "Sends the same message again. Receipts it already has still count."),
    Act.CANCEL: ("Cancel", "Asks the destination never to execute it. The cancellation may arrive too late."),
    Act.EXECUTE: ("Execute", "Calls the recipient again."),
    Act.FUND: ("Fund it", "Hands it to the GMPs that its sender chose."),
    Act.EXPIRE: ("Mark as expired", "Makes its end final on the destination, so that it can be reported."),
}
"""By act, its title and what it does."""


def _act(sources: Sources, offer: Offer, facts: _Facts) -> ShownAct:
    title, does = _ACTS[offer.act]
    message = facts.message
    options = _unused(sources, message, facts.record) if offer.act is Act.RETRY and message else ""
    return ShownAct(
        kind=offer.act.value,
        title=title,
        why=f"{does} Accepted from {offer.by}.",
        command=sources.command(f"message {offer.act} 0x{facts.message_id.hex()}{options}"),
    )


def _unused(sources: Sources, message: Message, record: MessageRecord | None) -> str:
    """The option that names GMPs which have not been tried and are not paused, if there are any."""
    ends = (message.source_chain, message.destination_chain)
    try:
        source, destination = (sources.deployment.chain(chain).gmp_numbers for chain in ends)
    except DeploymentError:
        return ""
    index, now = sources.index(), sources.clock()
    pauses = [one for chain in ends for one in index.pauses(chain)] if index else []
    paused = {one.number for one in pauses if one.thing is PausedThing.GMP and now < one.ends}
    tried = record.dispatched | record.received if record else frozenset[Gmp]()
    untried = sorted(gmp for gmp in (source & destination) - tried if gmp not in paused)
    return f" --gmps {untried[0].label}" if untried else ""


def tried_gmps(shown: ShownMessage) -> str:
    """The GMPs that have been tried already, by name."""
    record = shown.record
    return ",".join(gmp.label for gmp in sorted(record.dispatched | record.received)) if record else ""


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
