"""The pages of dead letters: the list, and a single letter with the possible decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastapi import Request, Response

from bridge.dead_letters.review import Opened
from bridge.protocol.gmps import Gmp
from bridge.protocol.numbers import count
from bridge.queries.dead_letters import happened, letter_acts, listed, read_letter, suggestion
from bridge.queries.lanes import lane_name
from bridge.records.dead_letters import LetterStatus
from bridge.records.outbox import OutboxEntry
from bridge.web.cells import (
    Cell,
    Section,
    Table,
    age,
    coded,
    copyable,
    cut,
    gmp,
    link,
    message_link,
    moment,
    shortened,
    state,
    tiles,
    words,
)
from bridge.web.explorer import Explorer
from bridge.web.listing import BadLinkError

_ROWS: Final = 50


def dead_letters(explorer: Explorer, status: str, *, from_messages: bool) -> Response:
    """Shows the deliveries that the relayer has given up on."""
    try:
        chosen = LetterStatus(status) if status else None
    except ValueError:
        raise BadLinkError(f"status {status[:40]!r} is not a dead-letter status") from None
    log, store = explorer.sources.dead_letters(), explorer.sources.store()
    found, without = listed(log, store, chosen, _ROWS)
    rows: list[list[Cell]] = [
        [
            link(f"/dead-letters/{one.event_id}", copyable(one.event_id, shortened(one.message_id))),
            state(one.status),
            gmp(Gmp.parse(one.gmp)) if one.gmp in {known.label for known in Gmp} else one.gmp,
            lane_name(explorer.sources.deployment, one.source_chain, one.destination_chain),
            words(one.kind),
            cut(one.error_code, 100),
            age(one.entered_at),
        ]
        for one in found
    ]
    columns = ("Letter", "State", "Over", "Lane", "Kind", "Error", "Since")
    note = "Deliveries that the relayer gave up. The message may still have arrived over another GMP."
    if from_messages:
        note = (
            "Only the relayer knows which messages are dead, so they are listed here: a dead letter for each delivery."
        )
    if log is None and store is None:
        note = "No relayer has run here yet. Start it: waybill relayer run"
    sections = [
        Section(
            title="Dead letters",
            note=note,
            table=Table(label="Dead letters", columns=columns, rows=rows, empty="None."),
            command=explorer.sources.with_network("waybill dlq list"),
        )
    ]
    if without:
        sections.append(_without_letter(explorer, without))
    return explorer.page(
        "status.html",
        "Dead letters",
        here="/dead-letters",
        has_problems=False,
        tiles=tiles(log.counts() if log else {}, "/dead-letters?status="),
        sections=sections,
    )


def _without_letter(explorer: Explorer, entries: Sequence[OutboxEntry]) -> Section:
    rows: list[list[Cell]] = [
        [
            message_link(one.dispatch.message_id),
            gmp(one.dispatch.gmp),
            lane_name(explorer.sources.deployment, one.dispatch.source_chain, one.dispatch.destination_chain),
            count(one.failed_tries),
            cut(one.last_error),
        ]
        for one in entries
    ]
    columns = ("Message", "Over", "Lane", "Tries", "Last error")
    table = Table(label="Given up without a letter", columns=columns, rows=rows)
    return Section(title="Given up without a dead letter", note="Expired, or of a kind that has none.", table=table)


def letter(explorer: Explorer, request: Request, event_id: str) -> Response:
    """Shows one dead letter. Visitors who are not operators only see that it exists."""
    sources = explorer.sources
    opened = read_letter(sources.dead_letters(), sources.store(), sources.index(), event_id, sources.clock())
    if opened is None:
        return explorer.problem(404, f"no dead letter {event_id[:200]!r}")
    is_open, token = explorer.is_open_to(request), explorer.settings.token
    asked = not is_open and token is not None and "sign-in" in request.query_params
    acts = letter_acts(opened.letter, opened.analysis)
    page = explorer.page(
        "letter.html",
        f"Dead letter {shortened(opened.letter.message_id)}",
        status=401 if asked else 200,
        here="/dead-letters",
        letter=opened.letter,
        document=opened.document,
        acts=acts,
        is_open=is_open,
        can_sign_in=token is not None,
        can_decide=explorer.can_decide,
        suggestion=sources.with_network(suggestion(opened.letter, opened.analysis, acts)),
        commands=[sources.with_network(act.command) for act in acts],
        sections=_letter_sections(explorer, opened, is_open=is_open),
    )
    if asked:
        page.headers["www-authenticate"] = 'Basic realm="Waybill operators", charset="UTF-8"'
    return page


def _letter_sections(explorer: Explorer, opened: Opened, *, is_open: bool) -> list[Section]:
    letter, analysis = opened.letter, opened.analysis
    lane = lane_name(explorer.sources.deployment, letter.source_chain, letter.destination_chain)
    facts: list[tuple[str, Cell]] = [
        ("Message", message_link(letter.message_id)),
        ("Kind", words(letter.kind)),
        ("Lane", f"{lane} over {letter.gmp}"),
        ("Since", moment(letter.entered_at)),
    ]
    if not is_open:
        return [Section(title="About", facts=facts)]
    facts += [
        ("Permanent?", cut(analysis.permanent)),
        ("Systemic?", cut(analysis.systemic)),
        ("Would a retry succeed?", coded(cut(explorer.sources.with_network(analysis.would_succeed)))),
        ("Governance?", cut(analysis.governance)),
    ]
    failures: list[list[Cell]] = [
        [
            str(one["attemptNumber"]),
            one["failedAt"][:19].replace("T", " "),
            cut(one["errorCode"]),
            cut(one["errorMessage"], 600),
        ]
        for one in opened.document["failureHistory"]
    ]
    history: list[list[Cell]] = [
        [str(one.sequence), moment(one.at), words(one.kind), cut(happened(one), 600), copyable(one.signer)]
        for one in opened.history
    ]
    return [
        Section(title="Before you decide", facts=facts),
        Section(
            title="Failures",
            table=Table(label="Failures", columns=("Try", "At", "Error", "Message"), rows=failures),
        ),
        Section(
            title="History",
            table=Table(label="History", columns=("Record", "At", "What", "Why", "Signed by"), rows=history),
        ),
    ]
