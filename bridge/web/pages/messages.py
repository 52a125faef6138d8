"""The list of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import MessageRecord
from bridge.protocol.message import Kind
from bridge.protocol.numbers import counted
from bridge.protocol.status import Status
from bridge.queries.lanes import lane_name
from bridge.queries.messages import account_text
from bridge.web.cells import (
    Cell,
    Section,
    Table,
    account,
    age,
    coded,
    gmp,
    joined,
    message_link,
    state,
    words,
)
from bridge.web.explorer import NO_INDEX, Explorer
from bridge.web.listing import Listing, read_listing
from bridge.web.pages.lanes import NOTE, gmp_table, lane_table
from bridge.web.pages.message import took

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


def message_table(explorer: Explorer, records: Sequence[MessageRecord], empty: str) -> Table:
    """Returns a table of messages."""
    rows: list[list[Cell]] = [
        [
            joined([state(one.status), *_retried(one)]),
            message_link(one.message_id),
            lane_name(explorer.sources.deployment, one.source_chain, one.destination_chain),
            joined([account(account_text(end) or "unknown") for end in (one.sender, one.recipient)], " → "),
            joined([gmp(each, is_delivered=each in one.received) for each in sorted(one.dispatched | one.received)]),
            explorer.transaction(one.source_chain, one.source_transaction) if one.source_transaction else "",
            age(one.source_time),
            took(one),
        ]
        for one in records
    ]
    columns = ("State", "Message", "Lane", "Sender → recipient", "GMPs", "Transaction", "Age", "Took")
    return Table(label="Messages, the newest first", columns=columns, rows=rows, empty=empty)


def _retried(record: MessageRecord) -> list[Cell]:
    found: list[Cell] = []
    if record.attempts:
        found.append(state("", "quiet", "retried" if record.attempts == 1 else f"retried {record.attempts} ×"))
    if record.failures and record.status is not Status.EXECUTION_FAILED:
        found.append(state("", "quiet", "failed once" if record.failures == 1 else f"failed {record.failures} ×"))
    return found


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
