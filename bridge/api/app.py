"""The API itself: paths, forms and errors. It knows no store and no chain; a `Backend` answers."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

import structlog
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import SecretStr

from bridge.api import models
from bridge.api.backend import Backend, BackendError, DeliveryFilter, ErrorCode, Json
from bridge.metrics.samples import CONTENT_TYPE
from bridge.protocol.gmps import Gmp, UnknownGmpError
from bridge.protocol.status import Status
from bridge.records.dead_letters import LetterStatus
from bridge.records.lanes import LaneState
from bridge.records.outbox import OutboxState

_log = structlog.get_logger(__name__)

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

_bearer = HTTPBearer(auto_error=False, description="WAYBILL_API_TOKEN")


def create_app(backend: Backend, *, token: SecretStr | None, version: str) -> FastAPI:
    """The API as an ASGI application.

    Args:
        backend: who answers.
        token: what a caller must present to change something; None forbids every change.
        version: of Waybill.
    """
    app = FastAPI(
        title="Waybill relayer",
        version=version,
        description="State of a relayer and what to do about it. Reading is open; what changes something takes a bearer token.",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        dependencies=[Depends(_refuse_unknown_parameters)],
    )
    app.include_router(_probes(backend))
    app.include_router(_readings(backend), responses=_FAILURES)
    app.include_router(_letters(backend), responses=_FAILURES)
    app.include_router(_changes(backend), responses=_FAILURES, dependencies=[Depends(_permission(token))])
    app.add_exception_handler(BackendError, _explain)
    app.add_exception_handler(RequestValidationError, _explain_request)
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
    routes = APIRouter(prefix="/v1", tags=["reading"])

    @routes.get("/status", summary="Chains, queues, lanes, GMPs and messages at one glance")
    async def status() -> dict[str, Any]:
        return await backend.status()

    @routes.get("/messages", summary="Messages, the newest first")
    async def messages(status: Status | None = None, limit: models.Limit = 20) -> list[dict[str, Any]]:
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
    routes = APIRouter(prefix="/v1", tags=["reading"])

    @routes.get("/dead-letters", summary="Dead letters, the newest first", response_model=list[models.DeadLetter])
    async def letters(status: LetterStatus | None = None, limit: models.Limit = 100) -> list[Json]:
        return await backend.letters(status, limit)

    @routes.get(
        "/dead-letters/{event_id:path}",
        summary="A dead letter, what to know before deciding about it, and all that happened to it",
        response_model=models.DeadLetter,
    )
    async def letter(event_id: str) -> Json:
        return await backend.letter(event_id)

    return routes


def _changes(backend: Backend) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["changing"])

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


async def _refuse_unknown_parameters(request: Request) -> None:
    """A misspelt filter would filter nothing, and the answer would look right."""
    route = request.scope["route"]
    described = request.app.openapi()["paths"][route.path_format][request.method.lower()]
    known = [one["name"] for one in described.get("parameters", []) if one["in"] == "query"]
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        takes = f"it takes {', '.join(known)}" if known else "it takes none"
        raise BackendError(
            ErrorCode.USAGE,
            f"{request.url.path} has no query parameter {', '.join(unknown)}; {takes}",
            "see /openapi.json",
        )


def _permission(token: SecretStr | None) -> Callable[..., Awaitable[None]]:
    async def permit(given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> None:
        if token is None:
            raise BackendError(
                ErrorCode.FORBIDDEN,
                "nothing can be changed over this API: it has no token",
                "start it with WAYBILL_API_TOKEN set to at least 16 characters",
            )
        presented = given.credentials.encode() if given else b""
        if not hmac.compare_digest(presented, token.get_secret_value().encode()):
            raise BackendError(
                ErrorCode.UNAUTHORIZED, "a bearer token is needed, and this is not it", "Authorization: Bearer …"
            )

    return permit


async def _explain(_: Request, error: Exception) -> Response:
    assert isinstance(error, BackendError)
    problem = models.Problem(code=error.code, message=str(error), next=error.next_step)
    headers = {"WWW-Authenticate": "Bearer"} if error.code is ErrorCode.UNAUTHORIZED else None
    return JSONResponse(models.Failure(error=problem).model_dump(), _STATUS_OF[error.code], headers)


async def _explain_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = [f"{'.'.join(map(str, item['loc'][1:]))}: {item['msg']}" for item in error.errors()]
    return await _explain(request, BackendError(ErrorCode.USAGE, "; ".join(found), "see /openapi.json"))


def _bytes(message_id: str) -> bytes:
    return bytes.fromhex(message_id.removeprefix("0x"))
