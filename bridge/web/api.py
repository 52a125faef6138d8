"""The JSON API below ``/v1``. It reads the stores, and accepts changes that the relayer then carries out.

Names are camelCase. Times are ISO 8601 in UTC, amounts are in wei, and hashes and ids are hex digits after ``0x``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import orjson
from eth_utils import decode_hex
from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from bridge.protocol.gmps import Gmp, UnknownGmpError
from bridge.protocol.lanes import Lane
from bridge.protocol.retry_requests import RetryRequest
from bridge.protocol.times import iso
from bridge.queries.dead_letters import letter_value, opened_value, read_letter
from bridge.queries.explain import Stored, read_stored, stored_explanation
from bridge.queries.lanes import read_to_value
from bridge.queries.messages import explanation_value, record_value
from bridge.queries.overview import overview_value
from bridge.records.dead_letters import LetterStatus
from bridge.records.jobs import RetryJob
from bridge.web.guard import is_operator
from bridge.web.listing import MessageList, read_listing
from bridge.web.sources import Sources

PREFIX: Final = "/v1"

_Opened = TypeVar("_Opened")

_CODES: Final[Mapping[int, str]] = {
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "UNKNOWN_ID",
    409: "REFUSED",
    429: "UNAVAILABLE",
    500: "UNAVAILABLE",
    503: "UNAVAILABLE",
}
"""By status, the code of an error; any other is ``USAGE``."""

_MOST_PROBLEMS: Final = 10
_LONGEST_PROBLEM: Final = 500

MessageId = Annotated[str, Path(pattern=r"^0x[0-9a-fA-F]{64}$", description="The message id.")]
_Limit = Annotated[int, Query(ge=1, le=1_000, description="Maximum number of entries.")]


class ApiError(Exception):
    """An error response to a request.

    Attributes:
        status: HTTP status of the response.
        next_step: advice to the caller; None if there is none.
    """

    def __init__(self, status: int, message: str, next_step: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.next_step = next_step


class RetryOrder(BaseModel):
    """The body of a retry request: the GMPs, and who requests the retry."""

    model_config = ConfigDict(extra="forbid")

    gmps: list[str] = Field(default=[], max_length=32, description="Names of GMPs; by default the best ones.")
    by: str = Field(default="api", min_length=1, max_length=100, description="Person who requests the retry.")


def add_api(app: FastAPI, sources: Sources, listing: MessageList, token: SecretStr | None) -> None:
    """Adds the API to an application.

    Args:
        app: the application.
        sources: the stores.
        listing: lists messages.
        token: the token required for changes and dead letters; None forbids both.
    """

    def needs_token(request: Request) -> None:
        if token is None:
            raise ApiError(403, "no token is configured; start `waybill web` with WAYBILL_API_TOKEN set")
        if not is_operator(request, token):
            raise ApiError(401, "a valid token is required: Authorization: Bearer TOKEN")

    app.include_router(_for_everybody(sources, listing), prefix=PREFIX)
    app.include_router(_for_operators(sources), prefix=PREFIX, dependencies=[Depends(needs_token)])

    @app.exception_handler(ApiError)
    def failed(_request: Request, error: ApiError) -> Response:
        return problem(error.status, str(error), error.next_step)

    @app.exception_handler(RequestValidationError)
    def malformed(_request: Request, error: RequestValidationError) -> Response:
        found = [f"{'.'.join(map(str, item['loc'][1:]))}: {item['msg']}" for item in error.errors()[:_MOST_PROBLEMS]]
        return problem(422, "; ".join(found), "GET /openapi.json")


def problem(status: int, text: str, next_step: str | None = None) -> Response:
    """Returns an error as JSON."""
    shown = "".join(one if one.isprintable() else "�" for one in text[:_LONGEST_PROBLEM])
    error = {"code": _CODES.get(status, "USAGE"), "message": shown, "next": next_step}
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    return _json({"error": error}, status, headers)


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    body = orjson.dumps(value, default=_hex)
    return Response(body, status, dict(headers or {}), media_type="application/json")


def _hex(value: Any) -> str:
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    raise TypeError(f"{value!r} can't be converted to JSON")


def _for_everybody(sources: Sources, listing: MessageList) -> APIRouter:
    routes = APIRouter()
    deployment = sources.deployment

    @routes.get("/status", summary="Chains, queues, held lanes, open breakers and messages by state")
    def status() -> Response:
        index, now = sources.index(), sources.clock()
        found = overview_value(deployment, sources.store(), index, now)
        chains = [read_to_value(chain, deployment) for chain in index.chains()] if index else []
        return _json({"asOf": iso(round(now, 3)), "network": deployment.network, "chains": chains, **found})

    @routes.get("/messages", summary="Messages, the newest first; the filters are those of the explorer's list")
    def messages(request: Request, limit: _Limit = 100) -> Response:
        index = _there(sources.index(), "no index has run yet", "waybill index run")
        chosen = read_listing(sources, {name: text for name, text in request.query_params.items() if name != "limit"})
        now, chains, page = sources.clock(), index.chains(), listing.page(chosen, limit)
        if page is None:
            raise ApiError(503, "contradictions are still being computed; try again in a moment")
        value = {
            "asOf": iso(round(now, 3)),
            "chains": [read_to_value(chain, deployment) for chain in chains],
            "messages": [record_value(record, deployment) for record in page.messages],
            "next": f"{PREFIX}/messages?{chosen.query_after(page.next)}&limit={limit}" if page.next else None,
        }
        return _json(value)

    @routes.get("/messages/{message_id}", summary="The state of a message, the reason, the next step, and its retries")
    def message(message_id: MessageId) -> Response:
        kept = _kept(sources, message_id)
        found = stored_explanation(deployment, decode_hex(message_id), kept, sources.clock())
        retries = [_retry_value(job) for job in kept.retries]
        return _json({"asOf": iso(round(sources.clock(), 3)), **explanation_value(found), "retries": retries})

    @routes.get("/dead-letters", summary="Dead letters, the newest first")
    def dead_letters(status: LetterStatus | None = None, limit: _Limit = 100) -> Response:
        log = sources.dead_letters()
        statuses = frozenset(LetterStatus if status is None else {status})
        return _json([letter_value(one) for one in (log.dead_letters(statuses=statuses, limit=limit) if log else ())])

    return routes


def _for_operators(sources: Sources) -> APIRouter:
    """Returns the routes that require the token: the contents of dead letters, and retries."""
    routes = APIRouter()

    @routes.get("/dead-letters/{event_id:path}", summary="A dead letter, its analysis and its history")
    def letter(event_id: str) -> Response:
        found = read_letter(sources.dead_letters(), sources.store(), sources.index(), event_id, sources.clock())
        return _json(opened_value(_there(found, f"no dead letter {event_id!r}", "GET /v1/dead-letters")))

    @routes.post("/messages/{message_id}/retry", status_code=202, summary="Request another attempt of a message")
    def retry(message_id: MessageId, order: RetryOrder) -> Response:
        try:
            wanted = frozenset(map(Gmp.parse, order.gmps))
        except UnknownGmpError as error:
            raise ApiError(422, str(error)) from error
        job = _retry_job(sources, message_id, wanted, order.by)
        store = _there(sources.store(), "no relayer has run yet", "waybill relayer run", status=503)
        if not store.jobs.add(job):
            raise ApiError(409, f"another retry of {message_id} was requested at the same time")
        return _json({"messageId": message_id, **_retry_value(job)}, 202)

    return routes


def _retry_job(sources: Sources, message_id: str, wanted: frozenset[Gmp], by: str) -> RetryJob:
    """Returns the job for a requested retry."""
    kept, now = _kept(sources, message_id), sources.clock()
    message = _there(kept.message, f"the creation of {message_id} has not been read yet", "try again in a moment")
    status = stored_explanation(sources.deployment, message.id, kept, now).status
    if status.is_final:
        raise ApiError(409, f"message {message_id} is {status}, so it can't be retried")
    if any(job.finished_at is None for job in kept.retries):
        raise ApiError(409, f"a retry of {message_id} is already in progress", f"GET {PREFIX}/messages/{message_id}")
    attempts = [entry.attempt_number for entry in kept.entries] + [event.attempt or 0 for event in kept.events]
    request = RetryRequest(
        sequence=0,
        message_id=message.id,
        attempt=max(attempts, default=0) + 1,
        generation=-1 - len(kept.retries),  # the index counts its own generations from 0 upwards
        source_chain=message.source_chain,
        destination_chain=message.destination_chain,
        missing_gmps=frozenset(),
        received_gmps=frozenset(),
        reason=f"requested over the API by {by}",
        cause_block=(kept.record.source_block if kept.record else None) or 0,
        requested_at=now,
    )
    lane = Lane(message.source_chain, message.destination_chain)
    return RetryJob(request=request, message_id=message.id, lane=lane, since=now, available_at=now, wanted=wanted)


def _retry_value(job: RetryJob) -> dict[str, Any]:
    return {
        "attempt": job.request.attempt,
        "state": job.state.value,
        "reason": job.request.reason,
        "gmps": sorted(gmp.label for gmp in job.gmps or job.wanted),
        "outcome": job.outcome or None,
        "requestedAt": iso(round(job.request.requested_at, 3)),
        "transaction": job.transaction_hash,
    }


def _kept(sources: Sources, message_id: str) -> Stored:
    kept = read_stored(decode_hex(message_id), sources.index(), sources.store(), sources.dead_letters())
    if kept.message is None and kept.record is None:
        raise ApiError(404, f"neither the index nor the relayer has seen message {message_id}", "waybill status")
    return kept


def _there(found: _Opened | None, problem: str, next_step: str, *, status: int = 404) -> _Opened:
    if found is None:
        raise ApiError(status, problem, next_step)
    return found
