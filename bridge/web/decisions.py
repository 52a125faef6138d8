"""Decisions about dead letters, signed by an operator's own wallet: the explorer holds no key, and writes nothing unsigned.

The page asks three times, with the same form and more of it each time: what is to be sent and signed, what the record's place in
the log is, and to record it. Each answer is rebuilt from the form, so that nothing is remembered between them.
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
from bridge.web.cells import harmless
from bridge.web.sources import Sources

_log = structlog.get_logger(__name__)

OpenReview = Callable[[], AbstractAsyncContextManager[DeadLetterReview]]
"""A review without an operator's key."""

OFFERED: Final = (Decision.REQUEUE, Decision.ABANDON, Decision.GOVERNANCE_ESCALATION)
"""A re-issue is signed by the message's sender too, and is left to the command."""

_FRESH: Final = 600.0
"""Seconds within which a decision is to be signed and recorded."""

_AT_ONCE: Final = 2
"""Decisions prepared at a time: each asks chains, and may be asked for by anybody until it is signed."""

_Word = Annotated[str, Field(pattern="^0x[0-9a-fA-F]{64}$")]
_Signature = Annotated[str, Field(pattern="^0x[0-9a-fA-F]{130}$")]


class DecisionForm(BaseModel):
    """A decision, as far as it has come."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    event_id: str = Field(max_length=200)
    decision: Decision
    rationale: str = Field(max_length=4_000)
    maker: Annotated[str, Field(pattern="^0x[0-9a-fA-F]{40}$")]
    at: float | None = Field(default=None, allow_inf_nan=False)  # Unix seconds; as the first answer said
    notice: _Word | None = None  # id of the message that the first answer asked for
    signature: _Signature | None = None  # over what the first answer said
    seal: _Signature | None = None  # over what the second answer said


def add_decisions(app: FastAPI, sources: Sources, open_review: OpenReview) -> None:
    """Adds the one place where the explorer takes something in."""
    deciding = asyncio.Semaphore(_AT_ONCE)

    @app.post("/dead-letters/decisions", response_model=None, include_in_schema=False)
    async def decide(form: DecisionForm) -> Response | dict[str, Any]:
        try:
            async with deciding:
                return await _decided(form, sources.clock(), open_review)
        except DecisionError as error:
            return _problem(422, str(error))
        except KeyError as error:
            return _problem(404, f"there is no dead letter {error.args[0]}")
        except TransientError as error:
            _log.warning(
                "a decision can't be prepared", error=str(error)
            )  # its text names endpoints, and may be a node's
            return _problem(503, "a chain gives no usable answer now: try again in a moment")


def _problem(status: int, text: str) -> Response:
    return problem(status, harmless(text))


async def _decided(form: DecisionForm, now: float, open_review: OpenReview) -> dict[str, Any]:
    """What is to be signed next, or the record's place once all is."""
    if form.decision not in OFFERED:
        raise DecisionError(f"{form.decision} is taken with `waybill dlq`, not here")
    maker = to_checksum_address(form.maker)
    async with open_review() as review:
        prepared = await review.prepare(form.event_id, form.decision, form.rationale, Maker(maker, maker))
        if form.signature is None:
            return _to_sign(prepared, round(now, 3))
        if form.at is None or abs(now - form.at) > _FRESH:
            raise DecisionError(f"a decision is signed and recorded within {_FRESH:.0f} s; decide again")
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
    """The message to be sent, as the dApp kit takes it; 64-bit numbers as text."""
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
