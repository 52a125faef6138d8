"""The API itself: paths, forms and errors. It knows no store and no chain; a `Backend` answers."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from pydantic import SecretStr
from starlette.exceptions import HTTPException

from bridge.api import models
from bridge.api.backend import Backend, BackendError, DeliveryFilter, ErrorCode, Json
from bridge.domain.dead_letters import LetterStatus
from bridge.domain.lanes import LaneState
from bridge.domain.outbox import OutboxState
from bridge.http.gate import SAFE_METHODS, Gate, Limits, Refusal
from bridge.metrics.samples import CONTENT_TYPE
from bridge.protocol.gmps import Gmp, UnknownGmpError
from bridge.protocol.status import Status

_STATUS_OF: Final = {
    ErrorCode.USAGE: 422,
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.UNKNOWN_ID: 404,
    ErrorCode.REFUSED: 409,
    ErrorCode.UNAVAILABLE: 503,
}

_FAILURES: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": models.Failure, "description": code.value} for code, status in _STATUS_OF.items()
}

_CODE_OF: Final = {status: code for code, status in _STATUS_OF.items()} | {
    429: ErrorCode.UNAVAILABLE,
    500: ErrorCode.UNAVAILABLE,
}

_HEADERS: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_MOST_PROBLEMS: Final = 10

_LETTERS: Final = "/v1/dead-letters/"
"""What is in a letter is for operators: payloads, and what nodes and services have said."""

DEFAULT_LIMITS: Final = Limits(requests_per_minute=1_200, change_seconds=300)  # a retry waits until a block includes it

_bearer = HTTPBearer(auto_error=False, description="WAYBILL_API_TOKEN")


def create_app(backend: Backend, *, token: SecretStr | None, version: str, limits: Limits = DEFAULT_LIMITS) -> FastAPI:
    """The API as an ASGI application.

    Args:
        backend: who answers.
        token: what a caller must present to change something or to read a dead letter; None forbids both.
        version: of Waybill.
        limits: what it takes of one caller and of all.
    """
    app = FastAPI(
        title="Waybill relayer",
        version=version,
        description="State of a relayer and what to do about it. Reading is open, but for what is in a dead letter; that, and what changes something, takes a bearer token.",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # a redirect would lead to where the Host header says
    )
    app.include_router(_probes(backend))
    common: dict[str, Any] = {"prefix": "/v1", "responses": _FAILURES}
    app.include_router(_readings(backend), **common, dependencies=[Depends(_knows_parameters)])
    app.include_router(_letters(backend), **common, dependencies=[Depends(_knows_parameters)])
    # `Gate` has looked at the token by then, before anything of the body was read; this describes it.
    app.include_router(_changes(backend), **common, dependencies=[Depends(_knows_parameters), Security(_bearer)])
    app.add_exception_handler(BackendError, _explain)
    app.add_exception_handler(RequestValidationError, _explain_request)
    app.add_exception_handler(HTTPException, _explain_http)
    app.add_exception_handler(Exception, _explain_failure)
    app.add_middleware(
        Gate, limits=limits, refuse=_refuse, admit=_permission(token), headers=lambda _request, _status: _HEADERS
    )
    return app


def _probes(backend: Backend) -> APIRouter:
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz", summary="Whether the process lives")
    async def healthz() -> models.Health:
        return models.Health()

    @routes.get(
        "/readyz",
        summary="Whether store and chains can be used",
        response_model=models.Readiness,
        responses={503: {"model": models.Readiness}},
    )
    async def readyz(response: Response) -> models.Readiness:
        problems = await backend.problems()
        response.status_code = 503 if problems else 200
        return models.Readiness(ready=not problems, problems=problems)

    @routes.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def metrics() -> Response:
        return Response(await backend.metrics(), media_type=CONTENT_TYPE)

    return routes


def _readings(backend: Backend) -> APIRouter:
    routes = APIRouter(tags=["reading"])

    @routes.get("/status", summary="Chains, queues, lanes, GMPs and messages at one glance")
    async def status() -> dict[str, Any]:
        return await backend.status()

    @routes.get("/messages", summary="Messages, the newest first", response_model=models.Messages)
    async def messages(status: Status | None = None, limit: models.Limit = 20) -> Json:
        return await backend.messages(status, limit)

    @routes.get("/messages/{message_id}", summary="Where a message is, why, and what to do next")
    async def explain(message_id: models.MessageId) -> dict[str, Any]:
        return await backend.explain(_bytes(message_id))

    @routes.get("/deliveries", summary="Outbox entries, the newest first", response_model=list[models.Delivery])
    async def deliveries(
        state: OutboxState | None = None,
        message_id: models.MessageIdQuery = None,
        since: models.Since = 0,
        until: models.Until = None,
        limit: models.Limit = 100,
    ) -> list[Json]:
        named = _bytes(message_id) if message_id else None
        return await backend.deliveries(
            DeliveryFilter(state=state, message_id=named, since=since, until=until, limit=limit)
        )

    @routes.get(
        "/deliveries/{event_id:path}",
        summary="An outbox entry and every try that failed",
        response_model=models.Delivery,
    )
    async def delivery(event_id: str) -> Json:
        return await backend.delivery(event_id)

    @routes.get("/lanes", summary="Lanes that are held", response_model=list[models.LaneHeld])
    async def lanes() -> list[Json]:
        return await backend.lanes()

    return routes


def _letters(backend: Backend) -> APIRouter:
    """That there are letters is open; `Gate` asks those who read one for the token."""
    routes = APIRouter(tags=["reading"])

    @routes.get("/dead-letters", summary="Dead letters, the newest first", response_model=list[models.DeadLetter])
    async def dead_letters(status: LetterStatus | None = None, limit: models.Limit = 100) -> list[Json]:
        return await backend.dead_letters(status, limit)

    @routes.get(
        "/dead-letters/{event_id:path}",
        summary="A dead letter, what to know before deciding about it, and all that happened to it",
        response_model=models.DeadLetter,
        dependencies=[Security(_bearer)],
    )
    async def letter(event_id: str) -> Json:
        return await backend.letter(event_id)

    return routes


def _changes(backend: Backend) -> APIRouter:
    routes = APIRouter(tags=["changing"])

    @routes.post("/messages/{message_id}/retry", summary="Send another attempt of a message")
    async def retry(message_id: models.MessageId, request: models.RetryRequest) -> dict[str, Any]:
        try:
            gmps = None if request.gmps is None else [Gmp.parse(name) for name in request.gmps]
        except UnknownGmpError as error:
            raise BackendError(ErrorCode.USAGE, str(error)) from error
        return await backend.retry(_bytes(message_id), gmps)

    @routes.post(
        "/deliveries/{event_id:path}/replay",
        summary="Open a delivered or dead outbox entry again, unless it has a dead letter",
        response_model=models.Delivery,
    )
    async def replay(event_id: str, why: models.Reason) -> Json:
        return await backend.replay(event_id, f"{why.reason} ({why.by})")

    @routes.post(
        "/lanes/{source}/{destination}/pause",
        summary="Keep a lane's deliveries waiting",
        response_model=models.LaneHeld,
    )
    async def pause(source: str, destination: str, why: models.Reason) -> Json:
        return await backend.change_lane(source, destination, LaneState.PAUSED, why.reason, why.by)

    @routes.post(
        "/lanes/{source}/{destination}/resume", summary="Let a held lane go on", response_model=models.LaneHeld
    )
    async def resume(source: str, destination: str, why: models.Reason) -> Json:
        return await backend.change_lane(source, destination, LaneState.RUNNING, why.reason, why.by)

    return routes


def _permission(token: SecretStr | None) -> Callable[[Request], Refusal | None]:
    """Whether a caller may change something, or read a dead letter, by the head of the request."""

    def admit(request: Request) -> Refusal | None:
        reads = request.method in SAFE_METHODS
        if reads and not request.scope["path"].startswith(_LETTERS):
            return None
        if token is None:
            what = "no dead letter can be read" if reads else "nothing can be changed"
            return Refusal(
                403,
                f"{what} over this API: it has no token; start it with WAYBILL_API_TOKEN set to at least 16 characters",
            )
        scheme, _, presented = request.headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(presented.strip().encode(), token.get_secret_value().encode())
        if scheme.lower() != "bearer" or not is_right:
            return Refusal(401, "a bearer token is needed, and this is not it: Authorization: Bearer …")
        return None

    return admit


def _knows_parameters(request: Request) -> None:
    """Refuses a misspelt filter, which would otherwise choose everything."""
    known = {parameter.alias for parameter in request.scope["route"].dependant.query_params}
    if unknown := sorted(set(request.query_params) - known):
        named = f"its parameters are {', '.join(sorted(known))}" if known else "it has no parameters"
        raise BackendError(ErrorCode.USAGE, f"{_shown(unknown[0])!r} is no parameter of this path; {named}")


async def _explain(_: Request, error: Exception) -> Response:
    assert isinstance(error, BackendError)
    problem = models.Problem(code=error.code, message=str(error), next=error.next_step)
    headers = {"WWW-Authenticate": "Bearer"} if error.code is ErrorCode.UNAUTHORIZED else None
    return JSONResponse(models.Failure(error=problem).model_dump(), _STATUS_OF[error.code], headers)


async def _explain_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [f"{'.'.join(map(str, item['loc'][1:]))}: {item['msg']}" for item in error.errors()[:_MOST_PROBLEMS]]
    return await _explain(request, BackendError(ErrorCode.USAGE, _shown("; ".join(found)), "see /openapi.json"))


async def _explain_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = "there is nothing at this path" if error.status_code == 404 else str(error.detail)
    answer = _refuse(request, Refusal(error.status_code, text))
    answer.headers.update(error.headers or {})
    return answer


async def _explain_failure(request: Request, _error: Exception) -> Response:
    return _refuse(request, Refusal(500, "the API failed; its own log says how"))


def _refuse(_request: Request, refusal: Refusal) -> Response:
    problem = models.Problem(code=_CODE_OF.get(refusal.status, ErrorCode.USAGE), message=refusal.text)
    headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else None
    return JSONResponse(models.Failure(error=problem).model_dump(), refusal.status, headers)


def _shown(text: str) -> str:
    """A stranger's text, short and without characters that could hide others."""
    return "".join(character if character.isprintable() else "�" for character in text[:500])


def _bytes(message_id: str) -> bytes:
    return bytes.fromhex(message_id.removeprefix("0x"))
