"""The ASGI application: pages, live updates, the JSON API, and static files."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from importlib.metadata import version

import structlog
from eth_utils import decode_hex
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.sse import EventSourceResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import RedirectResponse

from bridge.protocol.errors import StoreError
from bridge.protocol.ports import TransientError
from bridge.web.api import add_api
from bridge.web.decisions import OpenReview, add_decisions
from bridge.web.explorer import Explorer, ExplorerSettings
from bridge.web.guard import Guard, client_of, security_headers
from bridge.web.live import Live, TooManyStreamsError
from bridge.web.pages.actions import ActionPages
from bridge.web.pages.faults import FaultPages
from bridge.web.pages.finding import FindingPages
from bridge.web.pages.landing import LandingPages
from bridge.web.pages.lanes import LanePages
from bridge.web.pages.letters import LetterPages
from bridge.web.pages.messages import MessagePages
from bridge.web.rendering import STATIC
from bridge.web.search import BadLinkError, read_listing
from bridge.web.sources import Sources

_log = structlog.get_logger(__name__)

_LIVE_PARTS = frozenset({"as_of", "figures", "problems", "rows", "facts", "acts", "content", "faults"})


def create_app(
    sources: Sources, settings: ExplorerSettings | None = None, open_review: OpenReview | None = None
) -> FastAPI:
    """The explorer and the JSON API.

    Args:
        sources: the stores.
        settings: how it serves.
        open_review: records operators' signed decisions about dead letters; None accepts none.
    """
    explorer = Explorer(sources, settings or ExplorerSettings(), can_decide=open_review is not None)
    # A redirect to add a slash would lead to where the Host header says.
    app = FastAPI(title="Waybill", version=version("waybill"), docs_url=None, redoc_url=None, redirect_slashes=False)
    rpc_urls = explorer.settings.public_rpc.values()
    rate = explorer.settings.requests_per_minute
    app.add_middleware(GZipMiddleware, compresslevel=6)
    app.add_middleware(Guard, requests_per_minute=rate, rpc_urls=rpc_urls, refuse=explorer.refusal)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    messages = MessagePages(explorer)
    landing, faults, actions = LandingPages(explorer), FaultPages(explorer), ActionPages(explorer)
    for routes in (
        _message_pages(messages),
        _other_pages(landing, LanePages(explorer), faults),
        _lookups(FindingPages(explorer, actions.ids), actions),
        _streams(explorer, landing, messages, faults),
    ):
        app.include_router(routes, include_in_schema=False)
    if open_review is not None and explorer.can_decide:
        add_decisions(app, sources, open_review)
    app.include_router(_letters(LetterPages(explorer)), include_in_schema=False)
    add_api(app, sources, explorer.list, None if explorer.settings.read_only else explorer.settings.token)
    _add_errors(app, explorer)
    return app


def _add_errors(app: FastAPI, explorer: Explorer) -> None:
    @app.exception_handler(BadLinkError)
    def bad_link(request: Request, error: BadLinkError) -> Response:
        return explorer.refusal(request, 400, str(error))

    @app.exception_handler(StoreError)
    @app.exception_handler(TransientError)
    def away(request: Request, error: Exception) -> Response:
        _log.warning("store unreadable", error=str(error))  # its text names hosts and files
        return explorer.refusal(request, 503, "a store can't be read now; the log of `waybill web` says why")

    @app.exception_handler(TooManyStreamsError)
    def too_many(request: Request, error: TooManyStreamsError) -> Response:
        answer = explorer.refusal(request, error.status, str(error))
        answer.headers["retry-after"] = "10"
        return answer

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


def _message_pages(pages: MessagePages) -> APIRouter:
    routes = APIRouter()

    @routes.get("/messages")
    def messages(request: Request) -> Response:
        return pages.messages(request)

    @routes.get("/messages.csv")
    def export(request: Request) -> Response:
        return pages.export(request)

    @routes.get("/message/{message_id}")
    def message(message_id: str) -> Response:
        return pages.message(_id_in(message_id))

    @routes.get("/address/{account}")
    def address(account: str) -> Response:
        return pages.address(account)

    return routes


def _other_pages(landing: LandingPages, lanes: LanePages, faults: FaultPages) -> APIRouter:
    routes = APIRouter()
    for path, page in {
        "/": landing.landing,
        "/status": landing.status,
        "/lanes": lanes.lanes,
        "/gmps": lanes.gmps,
        "/faults": faults.faults,
    }.items():
        routes.get(path)(page)

    @routes.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @routes.get("/lanes/{source}/{destination}")
    def lane(source: str, destination: str) -> Response:
        return lanes.lane(source, destination)

    @routes.get("/gmps/{name}")
    def gmp(name: str) -> Response:
        return lanes.gmp(name)

    return routes


def _letters(pages: LetterPages) -> APIRouter:
    routes = APIRouter()

    @routes.get("/dead-letters")
    def dead_letters(request: Request, status: str = "") -> Response:
        return pages.dead_letters(status, from_messages=request.query_params.get("from") == "messages")

    @routes.get("/dead-letters/{event_id:path}")
    def letter(request: Request, event_id: str) -> Response:
        return pages.letter(request, event_id)

    return routes


def _lookups(finding: FindingPages, actions: ActionPages) -> APIRouter:
    routes = APIRouter()
    routes.get("/actions")(actions.actions)
    routes.get("/network.json")(finding.network_file)

    @routes.get("/actions/{action_id}")
    def action(action_id: str) -> Response:
        return actions.action(_id_in(action_id))

    @routes.get("/search")
    def find(q: str = "") -> Response:
        return finding.found(q) if q.strip() else RedirectResponse("/", 303)

    return routes


def _streams(explorer: Explorer, landing: LandingPages, messages: MessagePages, faults: FaultPages) -> APIRouter:
    routes, settings = APIRouter(), explorer.settings
    live = Live(poll_interval=settings.poll_interval, most=settings.streams, most_of_one=settings.streams_per_client)

    def stream(request: Request, topic: Hashable, parts: Callable[[], dict[str, str]]) -> Response:
        client = client_of(request)
        live.check(client)
        known = {name: request.query_params.get(name, "") for name in _LIVE_PARTS}
        return EventSourceResponse(live.stream(client, topic, parts, known))

    @routes.get("/live/landing")
    async def live_landing(request: Request) -> Response:
        return stream(request, "landing", landing.landing_parts)

    @routes.get("/live/messages")
    async def live_messages(request: Request) -> Response:
        given = {name: text for name, text in request.query_params.items() if name not in _LIVE_PARTS}
        chosen = read_listing(explorer.sources, given)
        return stream(request, ("messages", chosen.query, chosen.after), lambda: messages.live_rows(chosen))

    @routes.get("/live/message/{message_id}")
    async def live_message(request: Request, message_id: str) -> Response:
        wanted = _id_in(message_id)
        return stream(request, ("message", wanted), lambda: messages.live_message(wanted))

    @routes.get("/live/faults")
    async def live_faults(request: Request) -> Response:
        return stream(request, "faults", faults.live_faults)

    return routes


def _id_in(text: str) -> bytes:
    try:
        found = decode_hex(text)
    except ValueError:
        found = b""
    if len(found) != 32:
        raise HTTPException(400, f"{text[:80]!r} is not an id (0x and 64 hex digits)")
    return found
