"""One message, as its page shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bridge.explanation import Explanation, IndexView, explain
from bridge.protocol.deployment import DeploymentError
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import DivergenceRecord, EventRecord, MessageRecord, ReceiptRecord
from bridge.protocol.message import EnvelopeError, Message, decode_envelope
from bridge.protocol.status import Status
from bridge.records.executions import AwaitedExecution
from bridge.records.outbox import OutboxEntry, OutboxState
from bridge.records.retries import RetryJob
from bridge.records.spending import Held
from bridge.web.payload import Decoded, decode_payload
from bridge.web.rendering import account, tone
from bridge.web.sources import Sources
from bridge.web.timeline import Step, Transaction, gmp_name, timeline, transactions

_OPEN = (Status.ROUTED, Status.RECEIVED, Status.STALLED, Status.DEAD, Status.UNKNOWN)
"""States in which another GMP may still bring it to its quorum."""

_WAITED_FOR = "medium"
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
class Act:
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
    acts: tuple[Act, ...]
    divergences: tuple[DivergenceRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What the stores have about a message."""

    record: MessageRecord | None
    events: Sequence[EventRecord]
    receipts: Sequence[ReceiptRecord]
    entries: Sequence[OutboxEntry]
    jobs: Sequence[RetryJob]
    execution: AwaitedExecution | None
    held: Sequence[Held]
    letters: frozenset[str]  # ids of its dead letters
    divergences: Sequence[DivergenceRecord]
    message: Message | None


def read_message(sources: Sources, message_id: bytes) -> ShownMessage | None:
    """Everything that is known of a message, or None if nobody has seen it."""
    facts = _gather(sources, message_id)
    if facts.record is None and facts.message is None:
        return None
    explanation = _explanation(facts, sources.clock())
    record, message = facts.record, facts.message
    status = _status(record, explanation)
    contradicted = any(one.severity != _WAITED_FOR for one in facts.divergences)
    advised = Status.DIVERGED if contradicted else status if message else Status.UNKNOWN
    advice = advised.next_action.format(id=f"0x{message_id.hex()}")
    source = record.source_chain if record else message.source_chain if message else None
    destination = record.destination_chain if record else message.destination_chain if message else None
    steps = tuple(timeline(facts.events, facts.jobs))
    return ShownMessage(
        message_id=message_id,
        status=status,
        tone="bad" if contradicted else tone(status) if message else "warn",
        reason=explanation.reason if explanation else "no chain that has been read created it",
        next_action=sources.commands_in(advice),
        message=message,
        record=record,
        lane=f"{sources.chain_name(source)} → {sources.chain_name(destination)}",
        sender=account(message.sender if message else record.sender if record else None),
        recipient=account(message.recipient if message else record.recipient if record else None),
        id_matches=message.id == message_id if message else None,
        preimage=_preimage(message) if message else (),
        payload=decode_payload(message, sources.payloads) if message else None,
        gmps=_gmp_rows(facts),
        steps=steps,
        transactions=transactions(steps),
        attempts=(record.attempts or 0) if record else max((entry.attempt for entry in facts.entries), default=0),
        quorum=(record.quorum if record else None) or (message.quorum if message else None),
        receipts=record.receipts if record else len(_delivered(facts.entries)),
        acts=_acts(sources, message, status, facts.record),
        divergences=tuple(facts.divergences),
    )


def _status(record: MessageRecord | None, explanation: Explanation | None) -> Status:
    """What the index says, but that only the relayer knows when a message's last delivery was given up."""
    if explanation is not None and (record is None or explanation.status is Status.DEAD):
        return explanation.status
    return record.status if record else Status.UNKNOWN


def _gather(sources: Sources, message_id: bytes) -> _Facts:
    index, store, log = sources.index(), sources.store(), sources.letters()
    events = index.events(message_id) if index else []
    observed = store.observations.message(message_id) if store else None
    envelope = observed.envelope if observed else next((event.envelope for event in events if event.envelope), None)
    return _Facts(
        record=index.message(message_id) if index else None,
        events=events,
        receipts=index.receipts(message_id) if index else [],
        entries=store.outbox.entries(message_id) if store else [],
        jobs=store.retries.jobs(message_id) if store else [],
        execution=store.executions.of_message(message_id) if store else None,
        held=store.spending.held(message_id) if store else [],
        letters=frozenset(one.event_id for one in log.letters(message_id=message_id)) if log else frozenset(),
        divergences=index.divergences_of(message_id) if index else [],
        message=_message(envelope),
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
    view = None
    if record is not None:
        view = IndexView(
            status=record.status,
            dispatched=record.dispatched,
            attempts=record.attempts or 0,
            failure_reason=record.failure_reason or b"",
        )
    return explain(
        facts.message,
        receipts=record.received if record else _delivered(facts.entries),
        executed=record is not None and record.executions > 0,
        index=view,
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


def _gmp_rows(facts: _Facts) -> tuple[GmpRow, ...]:
    receipts = {receipt.gmp: receipt for receipt in facts.receipts}
    numbers = sorted(receipts.keys() | {int(entry.dispatch.gmp) for entry in facts.entries})
    return tuple(_gmp_row(number, receipts.get(number), facts) for number in numbers)


def _gmp_row(number: int, receipt: ReceiptRecord | None, facts: _Facts) -> GmpRow:
    entries = [entry for entry in facts.entries if entry.dispatch.gmp == number]
    newest = max(entries, key=lambda entry: entry.attempt, default=None)
    bit = 1 << (number - 1)
    taken = [event.attempt or 0 for event in facts.events if (event.gmps or 0) & bit]
    attempts = taken or [entry.attempt for entry in entries]
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
        tries=sum(entry.attempts for entry in entries),
        letter=newest.event_id if newest and newest.event_id in facts.letters else "",
        last_error=(newest.last_error or "") if newest and state != "received" else "",
        duplicates=receipt.duplicates if receipt else 0,
    )


def _stage(receipt: ReceiptRecord | None, newest: OutboxEntry | None, *, taken: bool) -> tuple[str, str]:
    if receipt is not None and receipt.received_block is not None:
        return "received", "good"
    if newest is None:
        return ("waiting", "plain") if taken else ("did not take it", "bad")
    match newest.state:
        case OutboxState.DEAD:
            return "given up", "bad"
        case OutboxState.CLAIMED:
            return "being delivered", "plain"
        case OutboxState.DELIVERED:
            return "delivered, not yet indexed", "good"
        case _:
            return ("failing", "warn") if newest.attempts else ("attesting", "plain")


def _acts(sources: Sources, message: Message | None, status: Status, record: MessageRecord | None) -> tuple[Act, ...]:
    """What fits the state, the most fitting first; who may do it is for the router to judge."""
    if message is None:
        return ()

    def command(verb: str, options: str = "") -> str:
        return sources.command(f"message {verb} 0x{message.id.hex()}{options}")

    retry = Act(
        kind="retry",
        title="Retry over other GMPs",
        why="Sends the same message again. Only its sender, or the retrier it appointed, may; receipts it has still count.",
        command=command("retry", _unused(sources, message, record)),
    )
    cancel = Act(
        kind="cancel",
        title="Cancel",
        why="Asks the destination never to execute it. Only its sender may, and it may come too late.",
        command=command("cancel"),
    )
    execute = Act(
        kind="execute",
        title="Execute",
        why="Calls the recipient again. Anyone may, once its quorum is reached.",
        command=command("execute"),
    )
    match status:
        case Status.EXECUTION_FAILED | Status.EXECUTION_DEFERRED:
            return (execute, cancel)
        case Status.UNFUNDED:
            pay = Act(
                kind="dispatch",
                title="Pay for its dispatch",
                why="Hands it to the GMPs that its sender chose. Anyone may pay.",
                command=command("dispatch"),
            )
            return (pay, cancel)
        case Status.EXPIRED:
            mark = Act(
                kind="expire",
                title="Mark as expired",
                why="Makes its end final on the destination, so that it can be reported. Anyone may.",
                command=command("expire"),
            )
            return (mark,)
        case _ if status in _OPEN and (record is None or record.retriable):
            return (retry, cancel)
        case _:
            return ()


def _unused(sources: Sources, message: Message, record: MessageRecord | None) -> str:
    """The option that names GMPs which have not been tried, if there are any."""
    try:
        source = sources.deployment.chain(message.source_chain).gmp_numbers
        usable = source & sources.deployment.chain(message.destination_chain).gmp_numbers
    except DeploymentError:
        return ""
    tried = record.dispatched | record.received if record else frozenset[Gmp]()
    untried = sorted(usable - tried)
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
