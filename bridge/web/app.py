"""The ASGI application: pages, the JSON API, and static files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import version

import structlog
from eth_utils import decode_hex
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import RedirectResponse

from bridge.protocol.errors import StoreError
from bridge.protocol.ports import TransientError
from bridge.web.api import add_api
from bridge.web.decisions import OpenReview, add_decisions
from bridge.web.explorer import Explorer, ExplorerSettings
from bridge.web.guard import Guard, security_headers
from bridge.web.listing import BadLinkError
from bridge.web.pages import faults, finding, landing, lanes, letters, message, messages
from bridge.web.rendering import STATIC
from bridge.web.sources import Sources

_log = structlog.get_logger(__name__)


def create_app(
    sources: Sources, settings: ExplorerSettings | None = None, open_review: OpenReview | None = None
) -> FastAPI:
    """Creates the explorer and the JSON API.

    Args:
        sources: the stores.
        settings: the explorer's settings; None uses the defaults.
        open_review: opens reviews that record operators' signed decisions about dead letters; None rejects decisions.
    """
    explorer = Explorer(sources, settings or ExplorerSettings(), can_decide=open_review is not None)
    # A redirect that adds a slash would trust the Host header.
    app = FastAPI(title="Waybill", version=version("waybill"), docs_url=None, redoc_url=None, redirect_slashes=False)
    rpc_urls = explorer.settings.public_rpc.values()
    rate = explorer.settings.requests_per_minute
    app.add_middleware(GZipMiddleware, compresslevel=6)
    app.add_middleware(Guard, requests_per_minute=rate, rpc_urls=rpc_urls, refuse=explorer.refusal)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    if open_review is not None and explorer.can_decide:
        add_decisions(app, sources, open_review)
    app.include_router(_pages(explorer), include_in_schema=False)
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
        _log.warning("store can't be read", error=str(error))  # its text names hosts and files
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


def _pages(explorer: Explorer) -> APIRouter:
    routes = APIRouter()
    pages: dict[str, Callable[[Explorer], Response]] = {
        "/": landing.landing,
        "/status": landing.status,
        "/lanes": lanes.lanes,
        "/gmps": lanes.gmps,
        "/faults": faults.faults,
        "/network.json": finding.network_file,
    }
    for path, page in pages.items():
        routes.get(path)(partial(page, explorer))

    @routes.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @routes.get("/messages")
    def listed(request: Request) -> Response:
        return messages.messages(explorer, request)

    @routes.get("/message/{message_id}")
    def shown(message_id: str) -> Response:
        return message.message(explorer, _id_in(message_id))

    @routes.get("/dead-letters")
    def dead_letters(request: Request, status: str = "") -> Response:
        return letters.dead_letters(explorer, status, from_messages=request.query_params.get("from") == "messages")

    @routes.get("/dead-letters/{event_id:path}")
    def letter(request: Request, event_id: str) -> Response:
        return letters.letter(explorer, request, event_id)

    @routes.get("/search")
    def find(q: str = "") -> Response:
        return finding.found(explorer, q) if q.strip() else RedirectResponse("/", 303)

    return routes


def _id_in(text: str) -> bytes:
    try:
        found = decode_hex(text)
    except ValueError:
        found = b""
    if len(found) != 32:
        raise HTTPException(400, f"{text[:80]!r} is not a message id (0x and 64 hex digits)")
    return found
