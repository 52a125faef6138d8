"""The page of a single message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fastapi import Response

from bridge.protocol.gmps import Gmp, gmp_label
from bridge.protocol.indexed import DivergenceRecord, MessageRecord
from bridge.protocol.message import Message
from bridge.protocol.numbers import amount, count, counted, duration
from bridge.protocol.status import Status
from bridge.queries.advice import Act
from bridge.queries.explain import Explanation, GmpProgress, Stage, Stored, read_stored, stored_explanation
from bridge.queries.lanes import lane_name
from bridge.queries.messages import account_text, printable
from bridge.web.cells import (
    Cell,
    Section,
    Table,
    account,
    age,
    coded,
    cut,
    gmp,
    hexadecimal,
    joined,
    link,
    message_link,
    moment,
    quiet,
    shortened,
    state,
    tone,
    without_solidity,
    words,
)
from bridge.web.explorer import Explorer
from bridge.web.timeline import Step, timeline, transactions

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

_MOST_SHOWN: Final = 4_096
"""Characters of a payload, which may be as long as its sender likes."""

_ACTS: Final[Mapping[Act, tuple[str, str]]] = {
    Act.RETRY: ("Retry over other GMPs", "Sends the same message again. Receipts it already has still count."),
    Act.CANCEL: ("Cancel", "Asks the destination never to execute it. The cancellation may arrive too late."),
    Act.EXECUTE: ("Execute", "Calls the recipient again."),
    Act.FUND: ("Fund it", "Hands it to the GMPs that its sender chose."),
    Act.EXPIRE: ("Mark as expired", "Makes its end final on the destination, so that it can be reported."),
}
"""By act, its title and its effect."""


def message(explorer: Explorer, message_id: bytes) -> Response:
    """Shows one message. The page of an unknown message updates itself once the message is seen."""
    sources, settings = explorer.sources, explorer.settings
    stored = read_stored(message_id, sources.index(), sources.store(), sources.dead_letters())
    sent, record = stored.message, stored.record
    known = sent or record
    live = ("as-of", "facts", "acts", "content")
    if known is None:
        return explorer.page(
            "unseen.html",
            f"{shortened(message_id)} unseen",
            status=404,
            here="/messages",
            live=live,
            message_id=message_id,
            command=sources.with_network(f"waybill message show {hexadecimal(message_id)}"),
        )
    found = stored_explanation(sources.deployment, message_id, stored, sources.clock())
    lane = lane_name(sources.deployment, known.source_chain, known.destination_chain)
    reason = sources.with_network(headline(found.reason))
    is_proven = found.status not in (Status.DIVERGED, Status.UNKNOWN)  # if not, no step is shown as a success
    steps = timeline(stored.events, stored.retries, is_proven=is_proven)
    needed = {sent.source_chain, sent.destination_chain} if sent else {0}
    divergences = sorted(stored.divergences, key=lambda one: _SEVERITIES.index(one.severity))
    return explorer.page(
        "message.html",
        f"{shortened(message_id)} {words(found.status)}",
        here="/messages",
        about=f"{words(found.status)}: {lane}. {cut(reason, 200)}",
        live=live,
        message_id=message_id,
        state=found.status,
        tone="bad" if stored.is_contradicted else tone(found.status) if sent else "warn",
        lane=lane,
        took=took(record) if record else "",
        bar=_bar(found, record, stored),
        headline=reason,
        next_action=sources.with_network(found.next_action),
        replaced_by=record.replaced_by if record else None,
        evidence=[_evidence(explorer, one) for one in divergences],
        ends=_ends(explorer, known, record),
        gmps=_deliveries(explorer, found, stored, is_proven=is_proven),
        acts=[
            {
                "kind": offer.act.value,
                "title": _ACTS[offer.act][0],
                "why": f"{_ACTS[offer.act][1]} Accepted from {offer.by}.",
                "command": sources.with_network(found.command(offer)),
            }
            for offer in found.offers
        ],
        can_act=not settings.read_only and needed <= settings.public_rpc.keys(),
        data=message_data(sent) if sent else {},
        tried=",".join(gmp_label(one.gmp) for one in found.gmps if one.gmp in tuple(Gmp)),
        steps=steps,
        sent=sent,
        payload=payload_text(sent.payload) if sent else "",
        sections=[*(_details(sent) if sent else ()), *_fees(explorer, steps)],
        transaction=explorer.transaction,
        chain_name=sources.chain_name,
    )


def headline(reason: str) -> str:
    """Formats the reason for a state as sentences, with contracts' errors as words."""
    parts = [part.strip() for part in reason.split("; ") if part.strip()]
    sentences = ". ".join(f"{part[0].upper()}{part[1:]}" for part in parts)
    plain = without_solidity(sentences)
    return plain if plain.endswith((".", "?", "!")) else f"{plain}."


def took(record: MessageRecord) -> str:
    """Formats the block time from a message's creation to its execution; empty if either is unknown."""
    if record.source_time is None or record.executed_time is None:
        return ""
    return duration(max(0, record.executed_time - record.source_time))


def _bar(found: Explanation, record: MessageRecord | None, stored: Stored) -> list[tuple[str, str, Cell]]:
    """Returns the stages sent, attested, delivered and executed: name, look (done, now, bad or ahead), and time or progress."""
    quorum = (record.quorum if record else None) or (found.message.quorum if found.message else 0)
    delivered = len(found.receipts)
    attested = sum(one.stage in _ATTESTED for one in found.gmps)
    sent_at = record.source_time if record else None
    times = sorted(one.received_time for one in stored.receipts if one.received_time)
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
    return list(zip(names, looks, details, strict=True))


def _deliveries(explorer: Explorer, found: Explanation, stored: Stored, *, is_proven: bool) -> Table:
    """Returns a table with a row for each GMP."""
    attempted = {
        event.attempt or 0: event.block_time
        for event in stored.events
        if event.event in ("MessageRouted", "MessageRetried")
    }
    rows = [
        (
            gmp(one.gmp),
            _stage(one, is_proven=is_proven),
            ", ".join(f"retry {attempt}" if attempt else "route" for attempt in one.attempts) or "–",
            _receipt(one, attempted),
            explorer.transaction(one.receipt.received_chain, one.receipt.received_transaction)
            if one.receipt and one.receipt.received_transaction
            else "–",
        )
        for one in found.gmps
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


def _receipt(one: GmpProgress, attempted: Mapping[int, int]) -> Cell:
    """Formats a GMP's receipt. `attempted` maps each attempt, 0 being the route, to its block time in Unix seconds."""
    receipt = one.receipt
    if receipt is None or not receipt.received_time:
        return "–"
    cells: list[Cell] = [moment(receipt.received_time)]
    first = one.attempts[0] if one.attempts else None
    if first is not None and first in attempted:
        after = max(0, receipt.received_time - attempted[first])
        cells.append(quiet(f"after {duration(after)}"))
    if receipt.duplicates:
        cells.append(quiet(f"delivered again {receipt.duplicates} ×, absorbed"))
    return joined(cells)


def _ends(explorer: Explorer, known: Message | MessageRecord, record: MessageRecord | None) -> tuple[Section, Section]:
    """Returns the facts about a message's source and destination."""
    created = (record.source_transaction, record.source_block, record.source_time) if record else None
    executed = (record.executed_transaction, record.executed_block, record.executed_time) if record else None
    return (
        _end(explorer, "Source", known.source_chain, ("Sender", known.sender), created),
        _end(explorer, "Destination", known.destination_chain, ("Recipient", known.recipient), executed),
    )


def _end(
    explorer: Explorer,
    title: str,
    chain_id: int | None,
    party: tuple[str, bytes | None],
    seen: tuple[bytes | None, int | None, int | None] | None,
) -> Section:
    """Returns the facts about one end. `seen` has its transaction, block and Unix time, as the index has read them."""
    digest, block, at = seen or (None, None, None)
    facts: list[tuple[str, Cell]] = [
        ("Transaction", explorer.transaction(chain_id, digest) if digest else "–"),
        ("Block", "–" if block is None else count(block)),
        ("Time", joined([moment(at), quiet(age(at))]) if at else "–"),
        (party[0], account(account_text(party[1]) or "unknown")),
    ]
    return Section(title=f"{title}: {explorer.sources.chain_name(chain_id)}", facts=facts)


def _evidence(explorer: Explorer, one: DivergenceRecord) -> Cell:
    label = state(one.kind, "bad" if one.is_contradiction else "warn")
    return joined([label, cut(one.evidence), coded(cut(explorer.sources.with_network(one.next_action)))])


def _details(sent: Message) -> Iterator[Section]:
    routers = [account(account_text(one) or "unknown") for one in (sent.source_router, sent.destination_router)]
    facts: list[tuple[str, Cell]] = [
        ("Nonce", str(sent.nonce)),
        ("Kind", words(sent.kind.name)),
        ("Quorum", counted(sent.quorum, "GMP")),
        ("Gas limit", count(sent.gas_limit)),
        ("Expires", moment(sent.expires_at) if sent.ttl else "never"),
        ("Router", joined(routers, " → ")),
    ]
    if any(sent.replaces):
        facts.append(("Replaces", message_link(sent.replaces)))
    yield Section(title="Details", facts=facts)


def _fees(explorer: Explorer, steps: Sequence[Step]) -> Iterator[Section]:
    """Yields the cost of each transaction, and the sum for each chain, in its own currency."""
    sent = transactions(steps)
    if not sent:
        return
    payments = explorer.costs.of(sent, explorer.settings.patience)
    rows: list[list[Cell]] = []
    for one in sent:
        paid = (payments or {}).get(one)
        unknown = "being read" if payments is None else "the chain does not say"
        rows.append(
            [
                explorer.transaction(one.chain_id, one.hash),
                explorer.sources.chain_name(one.chain_id),
                cut("; ".join(one.steps), 200),
                account(paid.payer) if paid else quiet(unknown),
                amount(paid.gas_paid) if paid else "–",
                amount(paid.value) if paid and paid.value else "–",
            ]
        )
    for chain_id in dict.fromkeys(one.chain_id for one in payments or {}):
        known = [paid for one, paid in (payments or {}).items() if one.chain_id == chain_id]
        name, value = explorer.sources.chain_name(chain_id), sum(paid.value for paid in known)
        gas_paid = amount(sum(paid.gas_paid for paid in known))
        rows.append(["Total", name, counted(len(known), "transaction"), "", gas_paid, amount(value) if value else "–"])
    columns = ("Transaction", "Chain", "What it did", "Paid by", "Gas", "Sent along for GMPs")
    note = "In each chain's own currency. A transaction can deliver several messages; refunds are not deducted."
    yield Section(title="Fees", note=note, table=Table(label="Fees", columns=columns, rows=rows))


def payload_text(payload: bytes) -> str:
    """Returns a payload as text if it is printable, otherwise as hex digits. A long one is cut."""
    text = printable(payload)
    return cut(hexadecimal(payload) if text is None else text, _MOST_SHOWN)


def message_data(message: Message) -> dict[str, Any]:
    """Returns the message for the dApp kit, in the order of docs/formats.md.

    Integers that JavaScript would round are text.
    """
    return {
        "sourceChain": str(message.source_chain),
        "sourceRouter": hexadecimal(message.source_router),
        "sender": hexadecimal(message.sender),
        "nonce": str(message.nonce),
        "destinationChain": str(message.destination_chain),
        "destinationRouter": hexadecimal(message.destination_router),
        "recipient": hexadecimal(message.recipient),
        "gasLimit": str(message.gas_limit),
        "sentAt": str(message.sent_at),
        "ttl": message.ttl,
        "kind": int(message.kind),
        "quorum": message.quorum,
        "replaces": hexadecimal(message.replaces),
        "payload": hexadecimal(message.payload),
    }
