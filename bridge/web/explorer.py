"""The explorer's settings, cached figures and rendering, shared by all pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import Request, Response
from markupsafe import Markup
from pydantic import SecretStr
from starlette.responses import HTMLResponse, PlainTextResponse

from bridge.evm.ttl_cache import Cached
from bridge.protocol.errors import StoreError
from bridge.queries import health
from bridge.queries.lanes import is_late
from bridge.web.api import PREFIX, problem
from bridge.web.cells import Section, transaction
from bridge.web.costs import Costs
from bridge.web.guard import is_operator
from bridge.web.listing import OLDEST, MessageList
from bridge.web.rendering import render
from bridge.web.sources import Sources

_DAY_LASTS: Final = 10.0  # seconds

NO_INDEX: Final = "No index has run yet, so there is nothing to list. Start it: `waybill index run`"

_TITLES: Final = {404: "Not found", 429: "Too many requests", 503: "Not just now"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerSettings:
    """The explorer's settings."""

    public_rpc: Mapping[int, str] = field(default_factory=dict)
    """By chain id, the URL that visitors' browsers may use. A chain without one offers no actions."""

    block_explorers: Mapping[int, str] = field(default_factory=dict)
    """By chain id, the URL of a site that has a page for each transaction under ``/tx/HASH``."""

    read_only: bool = False
    """Whether to offer no state changes, not even through the visitor's own wallet."""

    open_letters: bool = False
    """Whether everybody may read dead letters. Otherwise visitors only see that one exists."""

    token: SecretStr | None = None
    """The operators' token, for the API and for dead letters; None if there are no operators."""

    requests_per_minute: int = 600  # of one client
    max_lag: float = 120.0  # seconds of block time by which the index may be behind before pages warn
    patience: float = 0.1  # seconds that a page waits for a figure that is being computed


class Explorer:
    """Renders pages from stores and cached figures."""

    def __init__(self, sources: Sources, settings: ExplorerSettings, *, can_decide: bool) -> None:
        """Stores the dependencies.

        Args:
            sources: the stores.
            settings: the explorer's settings.
            can_decide: whether decisions about dead letters are accepted.
        """
        self.sources = sources
        self.settings = settings
        self.can_decide = can_decide and not settings.read_only
        self.list = MessageList(sources, settings.patience)
        clock = sources.clock
        self.day = Cached(self._day, lasts=_DAY_LASTS, oldest=OLDEST, clock=clock)
        self.problems = Cached(self._problems, lasts=_DAY_LASTS / 2, oldest=OLDEST, clock=clock)
        self.costs = Costs(sources.payments, clock)

    def _day(self) -> health.Day | None:
        index = self.sources.index()
        return health.day(index, self.sources.clock()) if index else None

    def _problems(self) -> list[health.Concern]:
        """Returns the network's problems, worst first."""
        sources, index, store = self.sources, self.sources.index(), self.sources.store()
        now = sources.clock()
        return health.concerns(
            sources.deployment,
            index,
            store,
            sources.dead_letters(),
            counts=self.list.by_status() or {},
            contradictions=self.contradictions(self.settings.patience),
            max_lag=self.settings.max_lag,
            now=now,
        )

    def contradictions(self, patience: float = 0.0) -> int:
        """Returns the number of contradictions known so far."""
        try:
            found = self.list.divergences.recent(patience)
        except Exception:  # noqa: BLE001  the page of faults says what is wrong
            return 0
        return found.contradictions if found else 0

    def transaction(self, chain_id: int | None, digest: bytes) -> Markup:
        """Returns a transaction's hash as a cell."""
        return transaction(chain_id, digest, self.settings.block_explorers)

    def page(self, template: str, title: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Renders a whole page.

        Args:
            template: the template's name.
            title: the page's title.
            status: HTTP status of the response.
            values: values for the template; `about` is the page's description in link previews, and `live`
                lists the ids of the parts that the browser reloads every few seconds.
        """
        common = {
            "title": title,
            "about": f"Messages between chains over several GMPs, on {self.sources.deployment.network}.",
            "network": self.sources.deployment.network,
            "chains": self.sources.deployment.chains,
            "read_only": self.settings.read_only,
            "contradictions": self.contradictions(),
            "as_of": () if template == "problem.html" else self.as_of(),
            "here": "",
            "live": (),
            "typed": "",
            "is_waiting": False,
        }
        return HTMLResponse(render(template, **(common | values)), status)

    def sections(self, title: str, sections: Sequence[Section], **values: Any) -> HTMLResponse:
        """Renders a page that consists of sections."""
        return self.page("page.html", title, sections=sections, **values)

    def as_of(self) -> list[dict[str, Any]]:
        """Returns the last block that the index has read on each chain."""
        try:
            index = self.sources.index()
            chains = index.chains() if index else []
        except StoreError:
            return []  # the page reports the error
        return [
            {
                "name": self.sources.chain_name(one.chain_id),
                "block": one.block,
                "at": one.block_time,
                "is_late": is_late(one, self.settings.max_lag),
                "is_halted": one.halted is not None,
            }
            for one in chains
        ]

    def refusal(self, request: Request, status: int, text: str) -> Response:
        """Returns an error response: JSON below ``/v1``, a page for browsers, and a line of text for other programs."""
        if request.scope["path"].startswith(PREFIX):
            return problem(status, text)
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse(f"{text}\n", status)
        return self.problem(status, text)

    def problem(self, status: int, text: str, *, typed: str = "", title: str = "") -> HTMLResponse:
        """Renders a page that describes a problem."""
        shown = title or _TITLES.get(status, "Something failed here" if status >= 500 else "This can't be shown")
        return self.page("problem.html", shown, status=status, text=text, typed=typed)

    def is_open_to(self, request: Request) -> bool:
        """Whether a viewer may see the contents of dead letters."""
        return self.settings.open_letters or is_operator(request, self.settings.token)
