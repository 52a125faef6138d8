"""Reads a message for its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.protocol.indexed import DivergenceRecord, MessageRecord
from bridge.protocol.message import Message
from bridge.protocol.numbers import count, duration
from bridge.protocol.status import Status
from bridge.queries.advice import Act, Offer
from bridge.queries.explain import Explanation, GmpProgress, Stage, Stored, read_stored, stored_explanation
from bridge.queries.lanes import lane_name
from bridge.queries.messages import account_text
from bridge.web.cells import (
    Cell,
    Table,
    account,
    age,
    cut,
    gmp,
    joined,
    link,
    message_link,
    moment,
    quiet,
    state,
    tone,
    without_solidity,
    words,
)
from bridge.web.payload import Decoded, decode_payload
from bridge.web.sources import Sources
from bridge.web.timeline import Step, timeline

STAGES: Final[Mapping[Stage, tuple[str, str]]] = {
    Stage.REFUSED: ("did not accept it", "bad"),
    Stage.DISPATCHED: ("waiting", "plain"),
    Stage.ATTESTING: ("attesting", "plain"),
    Stage.DELIVERING: ("being delivered", "plain"),
    Stage.DELIVERED: ("delivered, not yet indexed", "good"),
    Stage.BLOCKED: ("blocked", "warn"),
    Stage.FAILING: ("failing", "warn"),
    Stage.DEAD: ("given up", "bad"),
    Stage.RECEIVED: ("delivered", "good"),
}
"""A GMP's stage in words, and its tone."""

_ATTESTED: Final = (Stage.DELIVERING, Stage.DELIVERED, Stage.RECEIVED)
_SEVERITIES: Final = ("critical", "high", "medium", "low")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAct:
    """An operation on a message, with the equivalent command."""

    kind: str  # retry, execute, fund, expire or cancel
    title: str
    why: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BarStage:
    """One of the four stages of a message."""

    name: str
    look: str  # done, now, bad or ahead
    detail: Cell  # the time, or the progress


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The source or the destination of a message."""

    title: str
    chain: str
    transaction: tuple[int, bytes] | None  # chain and hash
    block: str
    at: int | None  # Unix seconds
    party: str  # Sender or Recipient
    account: str
    router: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """The contents of a message's page."""

    explanation: Explanation
    tone: str  # of the state: good, warn, bad, plain or quiet
    headline: str
    next_action: str
    is_proven: bool  # if not, no step is shown as a success
    record: MessageRecord | None  # None if the index has not seen it
    lane: str
    bar: tuple[BarStage, ...]
    source: End
    destination: End
    id_matches: bool | None  # None if the message is unknown
    preimage: tuple[tuple[str, str], ...]
    payload: Decoded | None
    steps: tuple[Step, ...]
    attempted: Mapping[int, int]  # by attempt, 0 being the route: Unix seconds of block time
    acts: tuple[ShownAct, ...]
    divergences: tuple[DivergenceRecord, ...]  # the worst first

    @property
    def message(self) -> Message | None:
        """Returns the message, or None if its source has not been read."""
        return self.explanation.message

    @property
    def status(self) -> Status:
        """Returns the message's state."""
        return self.explanation.status

    @property
    def seconds(self) -> int | None:
        """Returns the seconds of block time from creation to execution, or None if either time is unknown."""
        sent, executed = self.source.at, self.destination.at
        return None if sent is None or executed is None else max(0, executed - sent)


def read_message(sources: Sources, message_id: bytes) -> ShownMessage | None:
    """Returns a message's page contents, or None if neither the index nor the relayer has seen it."""
    kept = read_stored(message_id, sources.index(), sources.store(), sources.dead_letters())
    record, message = kept.record, kept.message
    known = message or record
    if known is None:
        return None
    found = stored_explanation(sources.deployment, message_id, kept, sources.clock())
    is_proven = found.status not in (Status.DIVERGED, Status.UNKNOWN)
    steps = tuple(timeline(kept.events, kept.retries, is_proven=is_proven))
    source, destination = _ends(sources, kept, known)
    return ShownMessage(
        explanation=found,
        tone="bad" if kept.is_contradicted else tone(found.status) if message else "warn",
        headline=sources.commands_in(headline(found.reason)),
        next_action=sources.commands_in(found.next_action),
        is_proven=is_proven,
        record=record,
        lane=lane_name(sources.deployment, known.source_chain, known.destination_chain),
        bar=_bar(found, record, kept),
        source=source,
        destination=destination,
        id_matches=message.id == message_id if message else None,
        preimage=_preimage(message) if message else (),
        payload=decode_payload(message) if message else None,
        steps=steps,
        attempted={
            event.attempt or 0: event.block_time
            for event in kept.events
            if event.event in ("MessageRouted", "MessageRetried")
        },
        acts=tuple(_act(sources, found, offer) for offer in found.offers),
        divergences=tuple(sorted(kept.divergences, key=lambda one: _SEVERITIES.index(one.severity))),
    )


def headline(reason: str) -> str:
    """Formats the reason for a state as sentences, with contracts' errors as words."""
    parts = [part.strip() for part in reason.split("; ") if part.strip()]
    sentences = ". ".join(f"{part[0].upper()}{part[1:]}" for part in parts)
    plain = without_solidity(sentences)
    return plain if plain.endswith((".", "?", "!")) else f"{plain}."


def delivery_table(shown: ShownMessage, transaction: Any) -> Table:
    """Returns a table with a row for each GMP.

    Args:
        shown: the message.
        transaction: formats a chain and a transaction hash as a cell.
    """
    rows = [
        (
            gmp(one.gmp),
            _stage(one, is_proven=shown.is_proven),
            ", ".join(f"retry {attempt}" if attempt else "route" for attempt in one.attempts) or "–",
            _receipt(one, shown),
            transaction(one.receipt.received_chain, one.receipt.received_transaction)
            if one.receipt and one.receipt.received_transaction
            else "–",
        )
        for one in shown.explanation.gmps
    ]
    columns = ("GMP", "State", "Sent in", "Delivered", "Transaction")
    empty = "No GMP has accepted or delivered it, as far as the index knows."
    return Table(label="What each GMP did", columns=columns, rows=rows, empty=empty)


def _stage(one: GmpProgress, *, is_proven: bool) -> Cell:
    text, look = STAGES[one.stage]
    cells: list[Cell] = [state("", "plain" if look == "good" and not is_proven else look, text)]
    if one.letter:
        cells.append(link(f"/dead-letters/{one.letter}", "dead letter"))
    if one.failed_tries:
        cells.append(quiet(f"{one.failed_tries} failed"))
    if one.last_error:
        cells.append(quiet(cut(one.last_error, 200)))
    return joined(cells)


def _receipt(one: GmpProgress, shown: ShownMessage) -> Cell:
    receipt = one.receipt
    if receipt is None or not receipt.received_time:
        return "–"
    cells: list[Cell] = [moment(receipt.received_time)]
    first = one.attempts[0] if one.attempts else None
    if first is not None and first in shown.attempted:
        after = max(0, receipt.received_time - shown.attempted[first])
        cells.append(quiet(f"after {duration(after)}"))
    if receipt.duplicates:
        cells.append(quiet(f"delivered again {receipt.duplicates} ×, absorbed"))
    return joined(cells)


def _bar(found: Explanation, record: MessageRecord | None, kept: Stored) -> tuple[BarStage, ...]:
    """Returns the stages sent, attested, delivered and executed, with their times or progress."""
    quorum = (record.quorum if record else None) or (found.message.quorum if found.message else 0)
    delivered = len(found.receipts)
    attested = sum(one.stage in _ATTESTED for one in found.gmps)
    sent_at = record.source_time if record else None
    times = sorted(one.received_time for one in kept.receipts if one.received_time)
    is_executed = found.status is Status.EXECUTED
    is_over = found.status.is_final or found.status in (Status.DEAD, Status.EXECUTION_FAILED, Status.DIVERGED)
    reached = [
        found.message is not None or sent_at is not None,
        is_executed or (quorum > 0 and attested >= quorum),
        is_executed or (quorum > 0 and delivered >= quorum),
        is_executed,
    ]
    details: list[Cell] = [
        age(sent_at),
        f"{min(attested, quorum)} of {quorum}" if quorum else "",
        age(times[quorum - 1]) if reached[2] and 0 < quorum <= len(times) else f"{delivered} of {quorum or '?'}",
        age(record.executed_time) if is_executed and record and record.executed_time else words(found.status),
    ]
    current = reached.index(False) if False in reached else len(reached)
    looks = ["done" if one else "ahead" for one in reached]
    if current < len(looks):
        looks[current] = "bad" if is_over else "now"
        details[3] = words(found.status) if is_over or current == 3 else ""
    names = ("Sent", "Attested", "Delivered", "Executed")
    return tuple(
        BarStage(name=name, look=look, detail=detail) for name, look, detail in zip(names, looks, details, strict=True)
    )


def _ends(sources: Sources, kept: Stored, known: Message | MessageRecord) -> tuple[End, End]:
    record = kept.record
    source = End(
        title="Source",
        chain=sources.chain_name(known.source_chain),
        transaction=(known.source_chain, record.source_transaction) if record and record.source_transaction else None,
        block=_block(record.source_block if record else None),
        at=record.source_time if record else None,
        party="Sender",
        account=account_text(known.sender) or "unknown",
        router=account_text(known.source_router) or "unknown",
    )
    executed = record.executed_transaction if record else None
    there = known.destination_chain
    destination = End(
        title="Destination",
        chain=sources.chain_name(there),
        transaction=(there, executed) if executed and there is not None else None,
        block=_block(record.executed_block if record else None),
        at=record.executed_time if record else None,
        party="Recipient",
        account=account_text(known.recipient) or "unknown",
        router=account_text(known.destination_router) or "unknown",
    )
    return source, destination


def _block(number: int | None) -> str:
    return "" if number is None else count(number)


def _preimage(message: Message) -> tuple[tuple[str, str], ...]:
    """Returns the fields that make up the message id, in the order of docs/formats.md."""
    fields = {
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
    return tuple(fields.items())


_ACTS: Final[Mapping[Act, tuple[str, str]]] = {
    Act.RETRY: ("Retry over other GMPs", "Sends the same message again. Receipts it already has still count."),
    Act.CANCEL: ("Cancel", "Asks the destination never to execute it. The cancellation may arrive too late."),
    Act.EXECUTE: ("Execute", "Calls the recipient again."),
    Act.FUND: ("Fund it", "Hands it to the GMPs that its sender chose."),
    Act.EXPIRE: ("Mark as expired", "Makes its end final on the destination, so that it can be reported."),
}
"""By act, its title and its effect."""


def _act(sources: Sources, found: Explanation, offer: Offer) -> ShownAct:
    title, does = _ACTS[offer.act]
    return ShownAct(
        kind=offer.act.value,
        title=title,
        why=f"{does} Accepted from {offer.by}.",
        command=sources.command(found.command(offer)),
    )


def message_data(message: Message) -> dict[str, Any]:
    """Returns the message for the dApp kit, with integers as text, because JavaScript would round them."""
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


def message_rows(records: Sequence[MessageRecord], sources: Sources, transaction: Any) -> list[list[Cell]]:
    """Returns the rows of a list of messages, for the columns `MESSAGE_COLUMNS`."""
    return [
        [
            joined([state(one.status), *_retried(one)]),
            message_link(one.message_id),
            f"{sources.chain_name(one.source_chain)} → {sources.chain_name(one.destination_chain)}",
            joined([account(account_text(end) or "unknown") for end in (one.sender, one.recipient)], " → "),
            joined([gmp(each, is_delivered=each in one.received) for each in sorted(one.dispatched | one.received)]),
            transaction(one.source_chain, one.source_transaction) if one.source_transaction else "",
            age(one.source_time),
            duration(one.executed_time - one.source_time)
            if one.executed_time is not None and one.source_time is not None
            else "",
        ]
        for one in records
    ]


def _retried(record: MessageRecord) -> list[Cell]:
    found: list[Cell] = []
    if record.attempts:
        found.append(state("", "quiet", "retried" if record.attempts == 1 else f"retried {record.attempts} ×"))
    if record.failures and record.status is not Status.EXECUTION_FAILED:
        found.append(state("", "quiet", "failed once" if record.failures == 1 else f"failed {record.failures} ×"))
    return found


MESSAGE_COLUMNS: Final = ("State", "Message", "Lane", "Sender → recipient", "GMPs", "Transaction", "Age", "Took")
