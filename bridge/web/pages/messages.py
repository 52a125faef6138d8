"""The pages of messages: the list, and a single message."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp, gmp_label
from bridge.protocol.indexed import DivergenceRecord, MessageRecord
from bridge.protocol.message import Kind
from bridge.protocol.numbers import amount, count, counted
from bridge.protocol.status import Status
from bridge.queries.lanes import lane_name
from bridge.web.cells import (
    Cell,
    Section,
    Table,
    account,
    coded,
    cut,
    hexadecimal,
    joined,
    message_link,
    moment,
    quiet,
    shortened,
    state,
    words,
)
from bridge.web.explorer import NO_INDEX, Explorer
from bridge.web.messages import MESSAGE_COLUMNS, ShownMessage, delivery_table, message_data, message_rows, read_message
from bridge.web.pages.lanes import NOTE, gmp_table, lane_table
from bridge.web.search import Listing, read_listing
from bridge.web.timeline import transactions

_ROWS: Final = 50


def messages(explorer: Explorer, request: Request) -> Response:
    """Shows the messages that match the link's filters."""
    chosen = read_listing(explorer.sources, dict(request.query_params))
    if chosen.wanted.status is Status.DEAD:  # only the relayer knows these
        return RedirectResponse("/dead-letters?from=messages", 303)
    return explorer.page(
        "messages.html",
        "Messages",
        here="/messages",
        live=() if chosen.after else ("as-of", "rows"),
        chosen=chosen,
        choices=choices(explorer.sources.deployment, chosen),
        about_it=_about(explorer, chosen),
        newest=f"/messages?{chosen.query}" if chosen.after else "",
        **_rows(explorer, chosen),
    )


def _about(explorer: Explorer, chosen: Listing) -> Section | None:
    """Returns the figures of the GMP or lane in the link's filters."""
    wanted = chosen.wanted
    if wanted.gmp is not None:
        return Section(title=wanted.gmp.title, note=NOTE, table=gmp_table(explorer, wanted.gmp))
    if wanted.source_chain is None or wanted.destination_chain is None:
        return None
    ends = (wanted.source_chain, wanted.destination_chain)
    name = lane_name(explorer.sources.deployment, *ends)
    return Section(title=name, note=NOTE, table=lane_table(explorer, ends))


def _rows(explorer: Explorer, chosen: Listing) -> dict[str, Any]:
    """Returns a part of the list: a table and the next part's link, or a note instead."""
    if explorer.sources.index() is None:
        return {"note": coded(NO_INDEX), "table": None, "older": ""}
    found = explorer.list.page(chosen, _ROWS)
    if found is None:
        return {"note": "Contradictions are being computed; reload in a moment.", "table": None, "older": ""}
    empty = f"No {'more ' if chosen.after else ''}messages{' match' if chosen.parameters else ''}."
    if found.next and not found.messages:
        empty = f"None of the {counted(found.looked_at, 'message')} checked so far match; choose Older to continue."
    older = f"/messages?{chosen.query_after(found.next)}" if found.next else ""
    return {"note": "", "table": message_table(explorer, found.messages, empty), "older": older}


def message(explorer: Explorer, message_id: bytes) -> Response:
    """Shows one message. The page of an unknown message updates itself once the message is seen."""
    shown = read_message(explorer.sources, message_id)
    if shown is None:
        return explorer.page(
            "unseen.html",
            f"{shortened(message_id)} unseen",
            status=404,
            here="/messages",
            live=("as-of", "facts", "acts", "content"),
            message_id=message_id,
            command=explorer.sources.command(f"waybill message show {hexadecimal(message_id)}"),
        )
    sent, settings = shown.message, explorer.settings
    needed = {sent.source_chain, sent.destination_chain} if sent else {0}
    return explorer.page(
        "message.html",
        f"{shortened(message_id)} {words(shown.status)}",
        here="/messages",
        about=f"{words(shown.status)}: {shown.lane}. {cut(shown.headline, 200)}",
        live=("as-of", "facts", "acts", "content"),
        message_id=message_id,
        shown=shown,
        gmps=delivery_table(shown, explorer.transaction),
        evidence=[_evidence(explorer, one) for one in shown.divergences],
        sections=[*_details(shown), *_fees(explorer, shown)],
        data=json.dumps(message_data(sent)) if sent else "",
        tried=",".join(gmp_label(one.gmp) for one in shown.explanation.gmps if one.gmp in tuple(Gmp)),
        can_act=not settings.read_only and needed <= settings.public_rpc.keys(),
        transaction=explorer.transaction,
        chain_name=explorer.sources.chain_name,
    )


def _evidence(explorer: Explorer, one: DivergenceRecord) -> Cell:
    label = state(one.kind, "bad" if one.is_contradiction else "warn")
    return joined([label, cut(one.evidence), coded(cut(explorer.sources.commands_in(one.next_action)))])


def _details(shown: ShownMessage) -> Iterator[Section]:
    sent = shown.message
    if sent is None:
        return
    facts: list[tuple[str, Cell]] = [
        ("Nonce", str(sent.nonce)),
        ("Kind", words(sent.kind.name)),
        ("Quorum", counted(sent.quorum, "GMP")),
        ("Gas limit", count(sent.gas_limit)),
        ("Expires", moment(sent.expires_at) if sent.ttl else "never"),
        ("Router", joined([account(shown.source.router), account(shown.destination.router)], " → ")),
    ]
    if any(sent.replaces):
        facts.append(("Replaces", message_link(sent.replaces)))
    yield Section(title="Details", facts=facts)


def _fees(explorer: Explorer, shown: ShownMessage) -> Iterator[Section]:
    """Yields the cost of each transaction, and the sum for each chain, in its own currency."""
    sent = transactions(shown.steps)
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


def message_table(explorer: Explorer, records: Sequence[MessageRecord], empty: str) -> Table:
    """Returns a table of messages."""
    rows = message_rows(records, explorer.sources, explorer.transaction)
    return Table(label="Messages, the newest first", columns=MESSAGE_COLUMNS, rows=rows, empty=empty)


def choices(deployment: Deployment, chosen: Listing) -> list[Mapping[str, Any]]:
    """Returns the filters with a list of options: name, label, and for each option whether it is selected."""
    chains = [(chain.name, chain.name) for chain in deployment.chains]
    known: dict[str, tuple[str, list[tuple[str, str]]]] = {
        "status": ("State", [(one.value, words(one.value)) for one in Status]),
        "source": ("From", chains),
        "destination": ("To", chains),
        "gmp": ("GMP", [(one.label, one.title) for one in Gmp]),
        "kind": ("Kind", [(one.name.lower(), words(one.name)) for one in Kind]),
    }
    return [
        {
            "name": name,
            "label": label,
            "options": [
                (value, text, chosen.parameters.get(name, "").lower() == value.lower()) for value, text in options
            ],
        }
        for name, (label, options) in known.items()
    ]
