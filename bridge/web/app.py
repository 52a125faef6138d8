"""The explorer's pages."""

from __future__ import annotations

import csv
import io
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from itertools import permutations
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from fastapi.sse import EventSourceResponse
from fastapi.staticfiles import StaticFiles
from pydantic import SecretStr
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse

from bridge.domain.dead_letters import LetterStatus
from bridge.domain.errors import StoreError
from bridge.domain.ports import TransientError
from bridge.domain.ttl_cache import Cached, Dated
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import (
    ChainRecord,
    Spending,
)
from bridge.protocol.message import Kind, Message
from bridge.protocol.status import Status
from bridge.queries import health, lanes
from bridge.queries.accounts import account_figures, known_as
from bridge.queries.action_course import course_of, decision_reasons
from bridge.queries.actions import FoundAction, action_value
from bridge.queries.dead_letters import happened, listed
from bridge.queries.messages import EXPORT_COLUMNS, record_value
from bridge.web import figures
from bridge.web.api import PREFIX, add_api
from bridge.web.api import problem as api_problem
from bridge.web.dead_letters import read_letter
from bridge.web.decisions import OpenReview, add_decisions
from bridge.web.guard import Guard, client_of, is_operator, security_headers
from bridge.web.listing import OLDEST, MessageList
from bridge.web.live import Live, TooManyStreamsError, fingerprint
from bridge.web.messages import STAGES, ShownMessage, message_data, read_message
from bridge.web.payments import AccountCosts, PaidTransaction, Payments, account_costs, paid_transactions, totals
from bridge.web.rendering import ACTION_TONES, environment, tone
from bridge.web.search import BadLinkError, Listing, read_listing, search
from bridge.web.sources import Sources

_log = structlog.get_logger(__name__)
_Value = TypeVar("_Value")

STATIC: Final = Path(__file__).with_name("static")

_LIVE_PARTS: Final = frozenset({"as_of", "tiles", "rows", "facts", "acts", "content", "compared", "faults"})

_CHAINS_LAST: Final = 0.5
_SPENDING_LASTS: Final = 10.0
_HISTORY_LASTS: Final = 10.0
_ACTIONS_LAST: Final = 2.0
_ACTIONS_PATIENCE: Final = 4.0
"""Seconds that a page waits for the chains: nothing else keeps what an action's contracts say."""

_ACTIONS_KEPT: Final = 200
"""Actions whose pages are kept for a moment, so that visitors do not make the chains be asked with each reload."""

_PAYMENTS_LAST: Final = 30.0
_MESSAGES_KEPT: Final = 500
"""Messages whose costs are kept for a while, likewise."""

_ROWS: Final = 50
_EXPORTED: Final = 1_000
_EXPORT_PART: Final = 500
_EXPORT_PARTS: Final = 10
"""Messages in one export at most, how many are asked for at once, and how often: a filter may pass few of those looked at."""

_TITLES: Final = {404: "Not found", 429: "Too many requests", 503: "Not just now"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerSettings:
    """How the explorer serves."""

    public_rpc: Mapping[int, str] = field(default_factory=dict)
    """By chain id, the URL that visitors' browsers may use; a chain without one can be read here, but not acted on."""

    block_explorers: Mapping[int, str] = field(default_factory=dict)
    """By chain id, the URL of a site that has a page for each transaction under ``/tx/HASH``."""

    read_only: bool = False
    """Offer nothing that changes state, not even through the visitor's own wallet."""

    open_letters: bool = False
    """Whether everybody who reaches the explorer may read dead letters. Others see that there is one."""

    token: SecretStr | None = None
    """What operators sign in with to read dead letters; None: nobody can."""

    requests_per_minute: int = 600  # of one client
    streams_per_client: int = 12  # live updates open at once
    streams: int = 200  # of everybody
    poll_interval: float = 1.0  # seconds between two looks at the stores for live updates
    max_lag: float = 120.0  # seconds of block time behind which pages say that the index is behind
    patience: float = 0.1
    """Seconds that a page waits for a figure that takes long; without it the page says that it is being computed."""


class Explorer:
    """Makes pages out of what the stores say."""

    def __init__(self, sources: Sources, settings: ExplorerSettings) -> None:
        """Reads nothing yet."""
        self.sources = sources
        self.settings = settings
        self.can_decide = False
        self._templates = environment(
            chain_name=sources.chain_name,
            commands_in=sources.commands_in,
            network=sources.deployment.network,
            statuses=sorted(Status, key=lambda status: status is not Status.DIVERGED),  # what contradicts goes first
            gmps=list(Gmp),
            kinds=list(Kind),
            chains=sources.deployment.chains,
            read_only=settings.read_only,
            public_rpc=settings.public_rpc,
            block_explorers=settings.block_explorers,
            clock=sources.clock,
            assets=_fingerprint_of(STATIC),
            contradictions=self._contradictions,
        )
        for name in self._templates.list_templates():
            self._templates.get_template(name)  # compiled now, so that the first visitor does not wait for it
        clock = sources.clock
        self.list = MessageList(sources, settings.patience)
        self.spending = Cached(sources.spending, lasts=_SPENDING_LASTS, oldest=OLDEST, clock=clock)
        self.sizes = Cached(self._sizes, lasts=_HISTORY_LASTS, oldest=OLDEST, clock=clock)
        self.histories = {
            span: Cached(partial(self._read_history, span), lasts=_HISTORY_LASTS, oldest=OLDEST, clock=clock)
            for span in health.SPANS
        }
        self.ends = {
            f"{one.name}:{other.name}": (one.chain_id, other.chain_id)
            for one, other in permutations(sources.deployment.chains, 2)
        }
        self.actions = Cached(sources.actions, lasts=_ACTIONS_LAST, clock=clock)
        self._one_action: OrderedDict[bytes, Cached[FoundAction | None]] = OrderedDict()
        self._payments: OrderedDict[tuple[tuple[int, bytes], ...], Cached[Payments]] = OrderedDict()
        self._account_costs: OrderedDict[bytes, Cached[AccountCosts | None]] = OrderedDict()
        self._relayer = health.RelayerWatch()
        self.chains = Cached(self._chains, lasts=_CHAINS_LAST, oldest=OLDEST, clock=clock)

    def _sizes(self) -> dict[lanes.Ends, int]:
        index = self.sources.index()
        return lanes.lane_sizes(self.sources.deployment, index) if index else {}

    def _chains(self) -> list[ChainRecord]:
        index = self.sources.index()
        return index.chains() if index else []

    def _contradictions(self) -> int:
        """How many are known by now; also the page that reports a broken index has this in its head."""
        try:
            found = self.list.divergences.look(0)
        except Exception:  # noqa: BLE001  Faults says what is wrong
            return 0
        return sum(one.is_contradiction for one in found.value) if found else 0

    def render(self, template: str, **values: Any) -> str:
        """A template as HTML."""
        return self._templates.get_template(template).render(**values)

    def page(self, template: str, status_code: int = 200, **values: Any) -> HTMLResponse:
        """A whole page, which says as of when."""
        return HTMLResponse(self.render(template, as_of=self.as_of(), **values), status_code)

    def as_of(self) -> str:
        """How far the index has read the chains: what happened later is on no page."""
        try:
            found = self.chains.look(self.settings.patience)
        except StoreError:
            return ""  # the page itself says so
        return self.render("_as_of.html", chains_read=found.value if found else None, is_late=self._is_late)

    def _is_late(self, chain: ChainRecord) -> bool:
        return lanes.is_late(chain, self.settings.max_lag)

    def problem(self, status_code: int, text: str) -> HTMLResponse:
        """A page that says what went wrong."""
        title = _TITLES.get(status_code, "Something failed here" if status_code >= 500 else "This can't be shown")
        return HTMLResponse(self.render("problem.html", as_of="", title=title, text=text), status_code)

    def refusal(self, request: Request, status_code: int, text: str) -> Response:
        """An error: JSON below ``/v1``, a page for browsers, a line of text for other programs."""
        if request.scope["path"].startswith(PREFIX):
            return api_problem(status_code, text)
        if "text/html" in request.headers.get("accept", ""):
            return self.problem(status_code, text)
        return PlainTextResponse(f"{text}\n", status_code)

    # Pages. Each is a plain function: reading a store blocks, so they run in threads.

    def home(self, span: str) -> Response:
        """Whether all is well, and what happened lately."""
        self._require_span(span)
        index, until = self.sources.index(), time.monotonic() + self.settings.patience
        for figure in (self.list.counts, self.list.divergences, self.histories[span]):
            figure.look(0)  # all begin at once, so that the page waits for them together
        past = self.histories[span].look(max(0.0, until - time.monotonic()))
        found = self.list.divergences.look(max(0.0, until - time.monotonic())) if index else None
        counts = self.list.by_status(max(0.0, until - time.monotonic()))
        now, dead_letters = self.sources.clock(), self.sources.dead_letters()
        relayer = self._relayer.look(self.sources.deployment, self.sources.store(), index, now)
        chains_read = index.chains() if index else []
        problems = health.concerns(
            self.sources.deployment,
            index,
            self.sources.store(),
            dead_letters,
            counts=counts or {},
            contradictions=sum(one.is_contradiction for one in found.value) if found else 0,
            relayer=relayer,
            breaker=self.sources.breaker,
            max_lag=self.settings.max_lag,
            now=now,
        )
        waiting = dead_letters.counts().get(LetterStatus.PENDING_REVIEW, 0) if dead_letters else 0
        return self.page(
            "home.html",
            concerns=problems,
            is_known=index is None or (counts is not None and found is not None),
            tiles=self.render("_tiles.html", counts=counts, is_filtered=False),
            summary=health.summary(counts, waiting) if counts is not None and index else "",
            relayer=relayer,
            indexed=max((chain.lag_seconds for chain in chains_read), default=None),
            span=span,
            spans=health.SPANS,
            history=(history := past.value if past else None),
            since=datetime.fromtimestamp(history.since, UTC).strftime("%Y-%m-%dT%H:%M") if history else "",
            slowest=history.slowest() if history else None,
            figures=figures,
            gmp_name=lanes.gmp_name,
            percentiles=lanes.percentiles,
            has_index=index is not None,
            is_waiting=index is not None and (past is None or counts is None or found is None),
        )

    def _history(self, span: str) -> health.History | None:
        """What happened lately; None while it is being read, or without an index."""
        found = self.histories[span].look(self.settings.patience)
        return found.value if found else None

    def _require_span(self, span: str) -> None:
        if span not in health.SPANS:
            raise BadLinkError(f"span={span[:40]!r} can't be used; it is one of {', '.join(health.SPANS)}")

    def _read_history(self, span: str, lane: lanes.Ends | None = None) -> health.History | None:
        index = self.sources.index()
        return health.history(index, span, self.sources.clock(), lane) if index else None

    def messages(self, request: Request) -> Response:
        """The list of messages, as chosen by the link."""
        chosen = read_listing(self.sources, dict(request.query_params))
        if chosen.wanted.status is Status.DEAD:  # the relayer's word; the index goes by what the chains say
            return RedirectResponse("/dead-letters?from=messages", 303)
        tiles = self.tiles(is_filtered=bool(chosen.parameters))
        rows = self.rows(chosen)
        return self.page(
            "messages.html",
            chosen=chosen,
            rows=rows,
            seen=fingerprint(rows),
            tiles=tiles,
            has_index=self.sources.index() is not None,
        )

    def tiles(self, *, is_filtered: bool) -> str:
        """What contradicts, and how many messages are in each state: of all messages, also if a part of them is listed."""
        return self.render("_tiles.html", counts=self.list.by_status(self.settings.patience), is_filtered=is_filtered)

    def live_messages(self, chosen: Listing) -> dict[str, str]:
        """The parts of a list's page that are live, as they are now."""
        as_of = self.as_of()  # read first and sent last: never newer than what it stands over
        return {"tiles": self.tiles(is_filtered=bool(chosen.parameters)), "rows": self.rows(chosen), "as_of": as_of}

    def rows(self, chosen: Listing, *, is_counted: bool = True) -> str:
        """The part of the list that is live."""
        found = self.list.page(chosen, _ROWS)
        matching = self.list.count(chosen) if is_counted else None
        return self.render("_rows.html", chosen=chosen, found=found, matching=matching)

    def export(self, request: Request) -> Response:
        """A part of a list as CSV, and a link to the next part."""
        chosen = self._exportable(request)
        rows: list[dict[str, Any]] = []
        place, is_more = chosen.after, True
        for _ in range(_EXPORT_PARTS):
            found = self.list.page(chosen, _EXPORT_PART, place)
            if found is None:
                return self._not_yet()
            rows += (record_value(one, self.sources.deployment) for one in found.messages)
            place, is_more = found.next, found.next is not None
            if not is_more or len(rows) > _EXPORTED - _EXPORT_PART:
                break
        query = chosen.query_after(place) if place is not None and is_more else ""
        text = io.StringIO()
        writer = csv.DictWriter(text, EXPORT_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {name: " ".join(one) if isinstance(one, list) else one for name, one in row.items()} for row in rows
        )
        extra = {"content-disposition": 'attachment; filename="messages.csv"'}
        if query:
            extra["link"] = f'</messages.csv?{query}>; rel="next"'
        return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=extra)

    def _exportable(self, request: Request) -> Listing:
        """The choice that a link makes.

        Raises:
            BadLinkError: it makes none, or one that the index can't list.
        """
        chosen = read_listing(self.sources, dict(request.query_params))
        if chosen.wanted.status is Status.DEAD:
            raise BadLinkError(
                "status=dead is known to the relayer alone: `waybill dlq list --json` exports dead letters"
            )
        return chosen

    def _not_yet(self) -> Response:
        return self.problem(503, "the explorer is looking for contradictions; ask again in a moment")

    def address(self, account: str) -> Response:
        """What one address has to do with messages."""
        chosen = read_listing(self.sources, {"account": account})
        index, wanted = self.sources.index(), chosen.wanted.account
        assert wanted is not None
        costs = self._costs_of(wanted, chosen.parameters["account"]).look(self.settings.patience) if index else None
        return self.page(
            "address.html",
            costs=costs.value if costs else None,
            is_waiting=index is not None and costs is None,
            account=chosen.parameters["account"],
            chosen=chosen,
            figures=account_figures(index, wanted) if index else None,
            known_as=known_as(self.sources.deployment, chosen.parameters["account"]),
            rows=self.rows(chosen, is_counted=False),
        )

    def _costs_of(self, account: bytes, address: str) -> Cached[AccountCosts | None]:
        kept = self._account_costs
        if account not in kept:

            def ask() -> AccountCosts | None:
                index = self.sources.index()
                return account_costs(index, account, address, self.sources.payments) if index else None

            kept[account] = Cached(ask, lasts=_PAYMENTS_LAST, clock=self.sources.clock)
            while len(kept) > _MESSAGES_KEPT:
                kept.popitem(last=False)
        return kept[account]

    def message(self, message_id: bytes) -> Response:
        """One message; of one that nobody has seen yet the page follows it as soon as somebody has."""
        shown = read_message(self.sources, message_id)
        parts = self.message_parts(message_id, shown)
        return self.page(
            "message.html",
            200 if shown else 404,
            message_id=message_id,
            shown=shown,
            status=shown.status if shown else Status.UNKNOWN,
            parts=parts,
            seen={name: fingerprint(html) for name, html in parts.items()},
        )

    def live_message(self, message_id: bytes) -> dict[str, str]:
        """The parts of a message's page that are live, as they are now."""
        as_of = self.as_of()
        parts = self.message_parts(message_id, read_message(self.sources, message_id))
        return {**parts, "as_of": as_of}

    def message_parts(self, message_id: bytes, shown: ShownMessage | None) -> dict[str, str]:
        """The parts of a message's page that are live, in the order in which changes are sent.

        What may be done goes first: the page never shows a status beside acts that it no longer allows.
        """
        if shown is None:
            return {"acts": "", "content": "", "facts": self.render("_unknown.html", message_id=message_id)}
        data = json.dumps(message_data(shown.message)) if shown.message else ""
        tried = ",".join(gmp.name for gmp in shown.explanation.gmps)
        can_act = self._can_act(shown.message)
        return {
            "acts": self.render("_acts.html", shown=shown, data=data, tried=tried, can_act=can_act),
            "content": self.render("_content.html", shown=shown, paid=(paid := self._paid(shown)), totals=totals(paid)),
            "facts": self.render("_facts.html", shown=shown, stages=STAGES),
        }

    def _paid(self, shown: ShownMessage) -> list[PaidTransaction]:
        """What its transactions cost, as far as the chains have said it by now."""
        wanted: dict[int, list[bytes]] = {}
        for one in shown.transactions:
            wanted.setdefault(one.chain_id, []).append(one.hash)
        key = tuple((one.chain_id, one.hash) for one in shown.transactions)
        if key not in self._payments:
            ask = partial(self.sources.payments, wanted)
            self._payments[key] = Cached(ask, lasts=_PAYMENTS_LAST, clock=self.sources.clock)
            while len(self._payments) > _MESSAGES_KEPT:
                self._payments.popitem(last=False)
        found = self._payments[key].look(self.settings.patience) if wanted else None
        return paid_transactions(shown.transactions, found.value if found else None, shown.sender, shown.own)

    def _can_act(self, message: Message | None) -> bool:
        needed = {message.source_chain, message.destination_chain} if message else {0}
        return not self.settings.read_only and needed <= self.settings.public_rpc.keys()

    def _spent(self) -> tuple[Spending | None, str]:
        """What deliveries cost, as far as it is known by now, and why it is not if it is not."""
        try:
            found = self.spending.look(self.settings.patience)
        except TransientError as error:
            _log.warning("a chain does not say what deliveries cost", error=str(error))
            return None, "a chain gives no usable answer"  # the error names endpoints
        return found.value if found else None, ""

    def lanes(self) -> Response:
        """How every lane does, and every chain."""
        index = self.sources.index()
        sizes = self.sizes.look(self.settings.patience)
        deployment, store = self.sources.deployment, self.sources.store()
        found = lanes.lane_figures(deployment, index, store, sizes.value if sizes else None) if index else []
        spending, unknown = self._spent()
        return self.page(
            "lanes.html",
            lanes=found,
            figures=figures,
            paid={lane.ends: spending and lanes.paid_on_lane(spending, lane.ends) for lane in found},
            unknown=unknown,
            chains_read=index.chains() if index else [],
            behind=lanes.behind,
        )

    def list_actions(self) -> Response:
        """The newest atomic actions."""
        found, problem = self._asked(self.actions)
        return self.page(
            "actions.html",
            actions=found.value.values if found and found.value else [] if found else None,
            silent=found.value.silent if found and found.value else (),
            problem=problem,
            action_tones=ACTION_TONES,
            command=self.sources.command("waybill action list"),
        )

    def action(self, action_id: bytes) -> Response:
        """One atomic action, with all its participants."""
        kept = self._one_action
        if action_id not in kept:
            ask = partial(self.sources.action, action_id)
            kept[action_id] = Cached(ask, lasts=_ACTIONS_LAST, clock=self.sources.clock)
            while len(kept) > _ACTIONS_KEPT:
                kept.popitem(last=False)
        found, problem = self._asked(kept[action_id])
        if found is not None and found.value is None:
            return self.problem(404, f"no coordinator that the settings name has begun action 0x{action_id.hex()}")
        action, deployment = found.value.action if found and found.value else None, self.sources.deployment
        course = course_of(action, self.sources.index()) if action else ()
        return self.page(
            "action.html",
            action_id=action_id,
            action=action_value(found.value, deployment) if found and found.value else None,
            course=course,
            reasons=decision_reasons(action, course, deployment) if action else [],
            has_index=self.sources.index() is not None,
            problem=problem,
            read_at=found.at if found else None,
            action_tones=ACTION_TONES,
            message_tones={status.value: tone(status) for status in Status},
            in_network=self.sources.command,
            command=self.sources.command(f"waybill action show 0x{action_id.hex()}"),
        )

    def _asked(self, cached: Cached[_Value]) -> tuple[Dated[_Value] | None, str]:
        """What the chains say by now, and why they say nothing if they do not."""
        try:
            return cached.look(max(self.settings.patience, _ACTIONS_PATIENCE)), ""
        except TransientError as error:
            _log.warning("actions can't be read", error=str(error))
            return None, "A chain gives no usable answer."  # the error names endpoints

    def gmps(self, span: str, lane: str) -> Response:
        """How every GMP does, and how it did, on all lanes or on one such as ``alpha:beta``."""
        self._require_span(span)
        if lane and lane not in self.ends:
            raise BadLinkError(f"lane={lane[:100]!r} can't be used; it is one of {', '.join(self.ends)}")
        index, chosen = self.sources.index(), self.ends.get(lane)
        history = self._read_history(span, chosen) if chosen else self._history(span)
        found = []
        if index is not None and history is not None:
            tallies = {gmp: history.whole[gmp] for gmp in history.gmps}
            found = lanes.gmp_figures(
                self.sources.deployment, index, self.sources.store(), tallies, since=history.since, lane=chosen
            )
        spending, unknown = self._spent()
        return self.page(
            "gmps.html",
            has_index=index is not None,
            health=found,
            span=span,
            spans=health.SPANS,
            lane=lane,
            lanes={name: lanes.lane_name(self.sources.deployment, *ends) for name, ends in self.ends.items()},
            history=history,
            gmp_name=lanes.gmp_name,
            percentiles=lanes.percentiles,
            sample=lanes.SAMPLE,
            few=lanes.FEW,
            is_waiting=index is not None and history is None,
            figures=figures,
            # What was paid is known of all lanes together.
            paid={gmp.number: spending and not lane and lanes.paid_for_gmp(spending, gmp.number) for gmp in found},
            unknown=unknown,
        )

    def dead_letters(self, status: str = "", *, from_messages: bool = False) -> Response:
        """Deliveries that were given up, those that wait for a decision first."""
        try:
            chosen = LetterStatus(status) if status else None
        except ValueError:
            raise BadLinkError(f"status {status[:40]!r} is no state of a dead letter") from None
        log = self.sources.dead_letters()
        found, without = listed(log, self.sources.store(), chosen, _ROWS)
        return self.page(
            "dead_letters.html",
            dead_letters=found,
            without=without,
            has_relayer=log is not None or self.sources.store() is not None,
            chosen=chosen,
            counts=log.counts() if log else {},
            states=LetterStatus,
            from_messages=from_messages,
        )

    def letter(self, request: Request, event_id: str) -> Response:
        """One dead letter: what happened, and what can be decided. To those who are no operators, that there is one."""
        shown = read_letter(self.sources, event_id)
        if shown is None:
            return self.problem(404, f"there is no dead letter {event_id[:200]!r}")
        if not self.is_open_to(request):
            return self.closed(request, "closed_letter.html", letter=shown.letter)
        return self.page(
            "dead_letter.html", shown=shown, happened=happened, command=self.sources.command, can_decide=self.can_decide
        )

    def is_open_to(self, request: Request) -> bool:
        """Whether a viewer may see the contents of dead letters: an operator who has signed in, unless all may."""
        token = self.settings.token
        return self.settings.open_letters or is_operator(request, token)

    def closed(self, request: Request, template: str, **shown: Any) -> Response:
        """A page without its contents, which asks a viewer who wants to sign in for the token."""
        token = self.settings.token
        asked = token is not None and "sign-in" in request.query_params
        page = self.page(template, 401 if asked else 200, can_sign_in=bool(token), **shown)
        if asked:
            page.headers["www-authenticate"] = 'Basic realm="Waybill operators", charset="UTF-8"'
        return page

    def faults(self) -> Response:
        """Contradictions between chains, and deliveries that changed nothing."""
        parts = self.live_faults()
        return self.page("faults.html", parts=parts, seen={name: fingerprint(html) for name, html in parts.items()})

    def live_faults(self) -> dict[str, str]:
        """The parts of that page that are live, as they are now."""
        index, as_of = self.sources.index(), self.as_of()
        until = time.monotonic() + self.settings.patience
        self.list.counts.look(0)  # both begin at once, so that the page waits for them together
        found = self.list.divergences.look(self.settings.patience) if index else None
        counts = self.list.counts.look(max(0.0, until - time.monotonic()))
        faults = self.render(
            "_faults.html",
            has_index=index is not None,
            divergences=found.value if found else None,
            executed=counts.value.get(Status.EXECUTED, 0) if index and counts else None,
            duplicates=index.duplicates(limit=_ROWS) if index else [],
        )
        return {"faults": faults, "compared": self.render("_compared.html", divergences=found), "as_of": as_of}

    def found(self, typed: str) -> Response:
        """Where a search leads."""
        goal = search(self.sources, typed, self._action_ids)
        if goal.path:
            return RedirectResponse(goal.path, 303)
        if goal.several:
            return self.page("several.html", typed=typed, several=goal.several)
        return self.page("problem.html", 404, title="Nothing found", text=goal.problem, typed=typed)

    def _action_ids(self) -> list[str]:
        """The ids of the newest actions, as far as the chains say them in time."""
        found, _ = self._asked(self.actions)
        return [one["actionId"] for one in (found.value.values if found and found.value else ())]

    def network(self) -> Response:
        """The deployments file as a visitor's browser may have it: with the public RPC URLs only."""
        document = json.loads(self.sources.deployment.to_json())
        for chain in document["chains"]:
            url = self.settings.public_rpc.get(chain["chainId"])
            # A file needs some URL; this one is reserved for names that never resolve.
            chain["rpcUrls"] = [url or "https://no-public-rpc.invalid"]
        return Response(json.dumps(document), media_type="application/json")


def create_app(
    sources: Sources, settings: ExplorerSettings | None = None, open_review: OpenReview | None = None
) -> FastAPI:
    """The explorer as an ASGI application, to be served alone or mounted beside an API.

    Args:
        sources: what pages are made of.
        settings: how it serves.
        open_review: where operators' signed decisions about dead letters are handed in; None takes none.
    """
    explorer = Explorer(sources, settings or ExplorerSettings())
    explorer.can_decide = open_review is not None and not explorer.settings.read_only
    # A redirect to add a slash would lead to where the Host header says.
    app = FastAPI(title="Waybill", version=version("waybill"), docs_url=None, redoc_url=None, redirect_slashes=False)
    app.add_middleware(GZipMiddleware, compresslevel=6)
    app.add_middleware(
        Guard,
        requests_per_minute=explorer.settings.requests_per_minute,
        rpc_urls=explorer.settings.public_rpc.values(),
        refuse=explorer.refusal,
    )
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    _add_pages(app, explorer)
    _add_lookups(app, explorer)
    _add_actions(app, explorer)
    _add_streams(app, explorer)
    for route in app.routes:
        if isinstance(route, APIRoute):
            route.include_in_schema = False  # pages are for people
    add_api(app, sources, explorer.list, None if explorer.settings.read_only else explorer.settings.token)
    if open_review is not None and explorer.can_decide:
        add_decisions(app, sources, open_review)

    @app.exception_handler(BadLinkError)
    def bad_link(request: Request, error: BadLinkError) -> Response:
        return explorer.refusal(request, 400, str(error))

    @app.exception_handler(StoreError)
    @app.exception_handler(TransientError)
    def away(request: Request, error: Exception) -> Response:
        _log.warning("store unreadable", error=str(error))  # its text names hosts and files
        return explorer.refusal(request, 503, "a store can't be read now; the log of `waybill web` says why")

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        text = f"there is no page {request.scope['path'][:200]!r}" if error.detail == "Not Found" else str(error.detail)
        answer = explorer.refusal(request, error.status_code, text)
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    def failed(request: Request, _error: Exception) -> Response:
        answer = explorer.refusal(request, 500, "the server failed; the log of `waybill web` says how")
        answer.headers.update(security_headers(explorer.settings.public_rpc.values()))  # outside the middleware
        return answer

    return app


def _add_pages(app: FastAPI, explorer: Explorer) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/")
    def home(span: str = "24h") -> Response:
        return explorer.home(span)

    @app.get("/gmps")
    def gmps(span: str = "24h", lane: str = "") -> Response:
        return explorer.gmps(span, lane)

    @app.get("/messages")
    def messages(request: Request) -> Response:
        return explorer.messages(request)

    @app.get("/message/{message_id}")
    def message(message_id: str) -> Response:
        return explorer.message(_id_in(message_id))

    @app.get("/dead-letters")
    def dead_letters(request: Request, status: str = "") -> Response:
        return explorer.dead_letters(status, from_messages=request.query_params.get("from") == "messages")

    @app.get("/dead-letters/{event_id:path}")
    def letter(request: Request, event_id: str) -> Response:
        return explorer.letter(request, event_id)

    for path, page in {
        "/lanes": explorer.lanes,
        "/faults": explorer.faults,
        "/network.json": explorer.network,
    }.items():
        app.get(path)(page)


def _add_lookups(app: FastAPI, explorer: Explorer) -> None:
    @app.get("/search")
    def find(q: str = "") -> Response:
        return explorer.found(q) if q.strip() else RedirectResponse("/", 303)

    @app.get("/address/{account}")
    def address(account: str) -> Response:
        return explorer.address(account)

    @app.get("/messages.csv")
    def export(request: Request) -> Response:
        return explorer.export(request)


def _add_actions(app: FastAPI, explorer: Explorer) -> None:
    @app.get("/actions")
    def actions() -> Response:
        return explorer.list_actions()

    @app.get("/actions/{action_id}")
    def action(action_id: str) -> Response:
        return explorer.action(_id_in(action_id))


def _add_streams(app: FastAPI, explorer: Explorer) -> None:
    settings = explorer.settings
    live = Live(poll_interval=settings.poll_interval, most=settings.streams, most_of_one=settings.streams_per_client)

    def stream(request: Request, topic: Hashable, parts: Callable[[], dict[str, str]]) -> Response:
        client = client_of(request)
        live.check(client)
        known = {name: request.query_params.get(name, "") for name in _LIVE_PARTS}
        return EventSourceResponse(live.stream(client, topic, parts, known))

    @app.get("/live/messages")
    async def live_messages(request: Request) -> Response:
        given = {name: text for name, text in request.query_params.items() if name not in _LIVE_PARTS}
        chosen = read_listing(explorer.sources, given)
        return stream(request, ("messages", chosen.query, chosen.after), lambda: explorer.live_messages(chosen))

    @app.get("/live/message/{message_id}")
    async def live_message(request: Request, message_id: str) -> Response:
        wanted = _id_in(message_id)
        return stream(request, ("message", wanted), lambda: explorer.live_message(wanted))

    @app.get("/live/faults")
    async def live_faults(request: Request) -> Response:
        return stream(request, "faults", explorer.live_faults)

    @app.exception_handler(TooManyStreamsError)
    def too_many(request: Request, error: TooManyStreamsError) -> Response:
        answer = explorer.refusal(request, error.status, str(error))
        answer.headers["retry-after"] = "10"
        return answer


def _fingerprint_of(folder: Path) -> str:
    """Changes when one of the files does, so that browsers may keep them for as long as it is the same."""
    digest = sha256()
    for file in sorted(folder.iterdir()):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _id_in(text: str) -> bytes:
    try:
        message_id = bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        message_id = b""
    if len(message_id) != 32:
        raise HTTPException(400, f"{text[:80]!r} is not an id (0x and 64 hex digits)")
    return message_id
