"""The list of messages, its export, a message, and an address."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp, gmp_label
from bridge.protocol.indexed import DivergenceRecord, MessageCount, MessageRecord
from bridge.protocol.message import Kind
from bridge.protocol.numbers import amount, count, counted
from bridge.protocol.status import Status
from bridge.queries.accounts import account_figures, known_as
from bridge.queries.messages import EXPORT_COLUMNS, record_value
from bridge.web.cells import (
    Cell,
    Section,
    Table,
    account,
    coded,
    copyable,
    cut,
    hexadecimal,
    joined,
    link,
    message_link,
    moment,
    quiet,
    shortened,
    state,
    words,
)
from bridge.web.costs import PaidTransaction, Payments, paid_transactions, totals
from bridge.web.explorer import NO_INDEX, Explorer, Kept, look
from bridge.web.live import fingerprint
from bridge.web.messages import MESSAGE_COLUMNS, ShownMessage, gmp_table, message_data, message_rows, read_message
from bridge.web.rendering import render
from bridge.web.search import BadLinkError, Listing, read_listing

_ROWS: Final = 50
_PAYMENTS_LAST: Final = 30.0  # seconds
_EXPORTED: Final = 1_000
_EXPORT_PART: Final = 500
_EXPORT_PARTS: Final = 10
"""Messages of one export, how many are read at once, and how often: a filter may pass few of those looked at."""


class MessagePages:
    """See the module."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.sources = explorer.sources
        self._paid: Kept[Payments] = Kept(_PAYMENTS_LAST, explorer.sources.clock)

    def messages(self, request: Request) -> Response:
        """The list of messages that the link's filters choose."""
        chosen = read_listing(self.sources, dict(request.query_params))
        if chosen.wanted.status is Status.DEAD:  # only the relayer knows these
            return RedirectResponse("/dead-letters?from=messages", 303)
        rows = self.rows(chosen)
        return self.explorer.page(
            "messages.html",
            "Messages",
            here="/messages",
            chosen=chosen,
            choices=choices(self.sources.deployment, chosen),
            rows=rows,
            seen=fingerprint(rows),
        )

    def rows(self, chosen: Listing) -> str:
        """The live part of the list."""
        if self.sources.index() is None:
            return render("_note.html", text=coded(NO_INDEX))
        found, matching = self.explorer.list.page(chosen, _ROWS), self.explorer.list.count(chosen)
        if found is None:
            return render("_note.html", text="Contradictions are being computed; reload in a moment.")
        empty = f"No {'more ' if chosen.after else ''}messages{' match' if chosen.parameters else ''}."
        if found.next and not found.messages:
            empty = f"None of the {counted(found.looked_at, 'message')} looked at match; continue with Older."
        return render(
            "_rows.html",
            table=message_table(self.explorer, found.messages, empty),
            matching=_matching(matching),
            newest=f"/messages?{chosen.query}" if chosen.after else "",
            older=f"/messages?{chosen.query_after(found.next)}" if found.next else "",
        )

    def live_rows(self, chosen: Listing) -> dict[str, str]:
        """The live parts of a list's page."""
        as_of = self.explorer.as_of()  # read first and sent last: never newer than what it stands over
        return {"rows": self.rows(chosen), "as_of": as_of}

    def export(self, request: Request) -> Response:
        """A part of a list as CSV, and a link to the next part."""
        chosen = read_listing(self.sources, dict(request.query_params))
        if chosen.wanted.status is Status.DEAD:
            raise BadLinkError(
                "status=dead is known to the relayer alone: `waybill dlq list --json` exports dead letters"
            )
        rows: list[dict[str, Any]] = []
        place, is_more = chosen.after, True
        for _ in range(_EXPORT_PARTS):
            found = self.explorer.list.page(chosen, _EXPORT_PART, place)
            if found is None:
                return self.explorer.problem(503, "contradictions are being computed; try again in a moment")
            rows += (record_value(one, self.sources.deployment) for one in found.messages)
            place, is_more = found.next, found.next is not None
            if not is_more or len(rows) > _EXPORTED - _EXPORT_PART:
                break
        text = io.StringIO()
        writer = csv.DictWriter(text, EXPORT_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _flat(value) for name, value in row.items()} for row in rows)
        headers = {"content-disposition": 'attachment; filename="messages.csv"'}
        if place is not None and is_more:
            headers["link"] = f'</messages.csv?{chosen.query_after(place)}>; rel="next"'
        return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)

    def address(self, given: str) -> Response:
        """What an address has sent and received."""
        chosen = read_listing(self.sources, {"account": given})
        address, wanted, index = chosen.parameters["account"], chosen.wanted.account, self.sources.index()
        figures = account_figures(index, wanted) if index and wanted else None
        names = known_as(self.sources.deployment, address)
        facts: list[tuple[str, Cell]] = [("Address", copyable(address, address))]
        if names:
            facts.append(("Known as", "; ".join(names)))
        if figures:
            of = "" if figures.is_all else f" of the newest {count(figures.looked_at)}"
            facts += [("Sent", f"{count(figures.sent)}{of}"), ("Received", f"{count(figures.received)}{of}")]
            by_status = [
                link(f"/messages?account={address}&status={status.value}", joined([state(status), count(number)]))
                for status, number in sorted(figures.by_status.items())
            ]
            facts.append(("By state", joined(by_status)))
        return self.explorer.page(
            "page.html",
            f"Address {shortened(address)}",
            here="/messages",
            sections=[Section(title="Address", facts=facts)],
            rows=self.rows(chosen),
        )

    def message(self, message_id: bytes) -> Response:
        """One message; of one that nobody has seen yet the page follows it as soon as somebody has."""
        shown = read_message(self.sources, message_id)
        parts = self.message_parts(message_id, shown)
        status = shown.status if shown else Status.UNKNOWN
        return self.explorer.page(
            "message.html",
            f"{shortened(message_id)} {words(status)}",
            status=200 if shown else 404,
            here="/messages",
            message_id=message_id,
            parts=parts,
            seen={name: fingerprint(html) for name, html in parts.items()},
            about=f"{words(status)}: {shown.lane}. {cut(shown.headline, 200)}" if shown else words(status),
        )

    def live_message(self, message_id: bytes) -> dict[str, str]:
        """The live parts of a message's page."""
        as_of = self.explorer.as_of()  # read first and sent last: never newer than what it stands over
        return {**self.message_parts(message_id, read_message(self.sources, message_id)), "as_of": as_of}

    def message_parts(self, message_id: bytes, shown: ShownMessage | None) -> dict[str, str]:
        """The live parts of a message's page, in the order in which changes are sent.

        What may be done goes first: the page never shows a status beside acts that it no longer allows.
        """
        if shown is None:
            command = self.sources.command(f"waybill message show {hexadecimal(message_id)}")
            return {"acts": "", "content": "", "facts": render("_unknown.html", command=command)}
        sent, settings = shown.message, self.explorer.settings
        needed = {sent.source_chain, sent.destination_chain} if sent else {0}
        acts = {
            "shown": shown,
            "data": json.dumps(message_data(sent)) if sent else "",
            "tried": ",".join(gmp_label(one.gmp) for one in shown.explanation.gmps if one.gmp in tuple(Gmp)),
            "can_act": not settings.read_only and needed <= settings.public_rpc.keys(),
            "read_only": settings.read_only,
        }
        common = {
            "shown": shown,
            "transaction": self.explorer.transaction,
            "chain_name": self.sources.chain_name,
        }
        sections = [*self._details(shown), *self._fees(self._costs(shown))]
        evidence = [self._evidence(one) for one in shown.divergences]
        table = gmp_table(shown, self.explorer.transaction)
        return {
            "acts": render("_acts.html", **acts),
            "content": render("_content.html", sections=sections, **common),
            "facts": render("_facts.html", gmps=table, evidence=evidence, **common),
        }

    def _evidence(self, one: DivergenceRecord) -> Cell:
        label = state(one.kind, "bad" if one.is_contradiction else "warn")
        return joined([label, cut(one.evidence), coded(cut(self.sources.commands_in(one.next_action)))])

    def _costs(self, shown: ShownMessage) -> list[PaidTransaction]:
        """What its transactions cost, as far as the chains have said it by now."""
        wanted: dict[int, list[bytes]] = {}
        for one in shown.transactions:
            wanted.setdefault(one.chain_id, []).append(one.hash)
        key = tuple((one.chain_id, one.hash) for one in shown.transactions)
        kept = self._paid.of(key, partial(self.sources.payments, wanted))
        found = look(kept, self.explorer.settings.patience) if wanted else None
        return paid_transactions(shown.transactions, found, shown.source.account, shown.own)

    def _details(self, shown: ShownMessage) -> Iterator[Section]:
        sent = shown.message
        if sent is None:
            return
        facts: list[tuple[str, Cell]] = [("Nonce", str(sent.nonce)), ("Kind", words(sent.kind.name))]
        if shown.action:
            action = hexadecimal(shown.action.action_id)
            about = joined([shown.action.phase.name, "of", link(f"/actions/{action}", shortened(action))])
            facts.append(("Atomic action", about))
        facts += [
            ("Quorum", counted(sent.quorum, "GMP")),
            ("Gas limit", count(sent.gas_limit)),
            ("Expires", moment(sent.expires_at) if sent.ttl else "never"),
            ("Router", joined([account(shown.source.router), account(shown.destination.router)], " → ")),
        ]
        if any(sent.replaces):
            facts.append(("Replaces", message_link(sent.replaces)))
        yield Section(title="Details", facts=facts)

    def _fees(self, paid: Sequence[PaidTransaction]) -> Iterator[Section]:
        if not paid:
            return
        rows: list[list[Cell]] = [
            [
                self.explorer.transaction(one.transaction.chain_id, one.transaction.hash),
                self.sources.chain_name(one.transaction.chain_id),
                cut("; ".join(one.transaction.steps), 200),
                joined([account(one.payment.payer), quiet(one.payer)]) if one.payment else quiet(one.unknown),
                count(one.payment.gas) if one.payment else "–",
                amount(one.payment.gas_paid) if one.payment else "–",
                amount(one.payment.value) if one.payment and one.payment.value else "–",
            ]
            for one in paid
        ]
        rows += [
            [
                "Total",
                self.sources.chain_name(one.chain_id),
                f"{one.known} of {counted(one.transactions, 'transaction')}",
                "",
                "",
                amount(one.gas_paid) if one.known else "–",
                amount(one.value) if one.value else "–",
            ]
            for one in totals(paid)
        ]
        columns = ("Transaction", "Chain", "What it did", "Paid by", "Gas", "Paid for gas", "Sent along for GMPs")
        note = "As the chains say, each in its own currency. A transaction can deliver several messages; refunds are not deducted."
        yield Section(title="Fees", note=note, table=Table(label="Fees", columns=columns, rows=rows))


def message_table(explorer: Explorer, records: Sequence[MessageRecord], empty: str) -> Table:
    """A list of messages."""
    rows = message_rows(records, explorer.sources, explorer.transaction)
    return Table(label="Messages, the newest first", columns=MESSAGE_COLUMNS, rows=rows, empty=empty)


def choices(deployment: Deployment, chosen: Listing) -> list[Mapping[str, Any]]:
    """The filters that are chosen from a list: name, label, and options with whether each is chosen."""
    chains = [(chain.name, chain.name) for chain in deployment.chains]
    either = [("yes", "yes"), ("no", "no")]
    known: dict[str, tuple[str, list[tuple[str, str]]]] = {
        "status": ("State", [(one.value, words(one.value)) for one in Status]),
        "source": ("From", chains),
        "destination": ("To", chains),
        "gmp": ("GMP", [(one.label, one.title) for one in Gmp]),
        "kind": ("Kind", [(one.name.lower(), words(one.name)) for one in Kind]),
        "retried": ("Retried", either),
        "refused": ("Execution failed", either),
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


def _matching(found: MessageCount | None) -> str:
    """How many messages match, in a sentence."""
    if found is None:
        return ""
    if found.is_all:
        return f"{counted(found.number, 'message')} match{'es' if found.number == 1 else ''}."
    if found.number == found.looked_at:
        return f"More than {counted(found.number, 'message')} match."
    return f"{count(found.number)} of the newest {counted(found.looked_at, 'message')} match; older ones may too."


def _flat(value: Any) -> Any:
    return " ".join(value) if isinstance(value, list) else value
