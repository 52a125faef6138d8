"""Decisions about dead letters, signed by an operator's own wallet.

The explorer holds no key, and writes nothing that is unsigned.

The page posts the same form three times, each time with more fields: first to get the message to send and the
document to sign, then to get the record's place in the log, and finally to record the decision. The server
rebuilds everything from the form, so it keeps no state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any, Final

import structlog
from eth_utils import decode_hex
from eth_utils.address import to_checksum_address
from fastapi import FastAPI, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from bridge.client import RouteRequest
from bridge.dead_letters.decisions import DecisionError, Maker
from bridge.dead_letters.review import DeadLetterReview, Notice, Prepared
from bridge.dead_letters.signing import UnsealedError, WalletSealer, decision_typed_data, record_typed_data
from bridge.protocol.ports import TransientError
from bridge.records.dead_letters import Decision
from bridge.web.api import problem
from bridge.web.sources import Sources

_log = structlog.get_logger(__name__)

OpenReview = Callable[[], AbstractAsyncContextManager[DeadLetterReview]]
"""A review without an operator's key."""

OFFERED: Final = (Decision.REQUEUE, Decision.ABANDON, Decision.GOVERNANCE_ESCALATION)
"""Decisions that the page offers. A re-issue needs the message's sender too, so only the command makes it."""

_FRESH: Final = 600.0
"""Seconds within which a decision must be signed and recorded."""

_AT_ONCE: Final = 2
"""Decisions prepared concurrently. Each asks chains, and anybody can request one."""

_Word = Annotated[str, Field(pattern="^0x[0-9a-fA-F]{64}$")]
_Signature = Annotated[str, Field(pattern="^0x[0-9a-fA-F]{130}$")]


class DecisionForm(BaseModel):
    """The form of a decision, which the page completes step by step."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    event_id: str = Field(max_length=200)
    decision: Decision
    rationale: str = Field(max_length=4_000)
    maker: Annotated[str, Field(pattern="^0x[0-9a-fA-F]{40}$")]
    at: float | None = Field(default=None, allow_inf_nan=False)  # Unix seconds; from the first answer
    notice: _Word | None = None  # id of the message that the first answer requested
    signature: _Signature | None = None  # over the first answer's document
    seal: _Signature | None = None  # over the second answer's record


def add_decisions(app: FastAPI, sources: Sources, open_review: OpenReview) -> None:
    """Adds the endpoint for decisions, the explorer's only endpoint that writes."""
    deciding = asyncio.Semaphore(_AT_ONCE)

    @app.post("/dead-letters/decisions", response_model=None, include_in_schema=False)
    async def decide(form: DecisionForm) -> Response | dict[str, Any]:
        try:
            async with deciding:
                return await _decided(form, sources.clock(), open_review)
        except DecisionError as error:
            return problem(422, str(error))
        except KeyError as error:
            return problem(404, f"no dead letter {error.args[0]}")
        except TransientError as error:
            # The error names endpoints and may quote a node, so it goes to the log only.
            _log.warning("decision postponed: a chain does not respond", error=str(error))
            return problem(503, "a chain is not responding: try again in a moment")


async def _decided(form: DecisionForm, now: float, open_review: OpenReview) -> dict[str, Any]:
    """Returns the next document to sign, or the record's place once the record is written."""
    if form.decision not in OFFERED:
        raise DecisionError(f"{form.decision} can't be made in the explorer; use `waybill dlq decide`")
    maker = to_checksum_address(form.maker)
    async with open_review() as review:
        prepared = await review.prepare(form.event_id, form.decision, form.rationale, Maker(maker, maker))
        if form.signature is None:
            return _to_sign(prepared, round(now, 3))
        if form.at is None or abs(now - form.at) > _FRESH:
            raise DecisionError(
                f"a signed decision must be recorded within {_FRESH:.0f} s of its time (`at`): sign it again"
            )
        document = prepared.document(form.at, notice=form.notice) | {"signature": form.signature.lower()}
        sealer = WalletSealer(maker, decode_hex(form.seal) if form.seal else b"")
        try:
            record = await review.record(document, sealer, form.at)
        except UnsealedError as error:
            return {"seal": record_typed_data(error.record)}
        return {"recorded": record.sequence}


def _to_sign(prepared: Prepared, at: float) -> dict[str, Any]:
    placeholder = f"0x{bytes(32).hex()}" if prepared.notice else None
    return {
        "at": at,
        "notice": _notice(prepared.notice) if prepared.notice else None,
        "sign": decision_typed_data(prepared.document(at, notice=placeholder)),
    }


def _notice(notice: Notice) -> dict[str, Any]:
    """Returns the message to send as a request for the dApp kit, with 64-bit numbers as text."""
    request: RouteRequest = notice.request
    return {
        "source": notice.source_chain,
        "destination": request.destination,
        "recipient": request.recipient,
        "payload": f"0x{request.data.hex()}",
        "gmps": [gmp.label for gmp in request.named],
        "quorum": request.quorum,
        "gasLimit": str(request.gas_limit),
        "ttl": request.ttl,
        "kind": int(request.kind),
    }
