"""The forms of requests and answers, as the OpenAPI document describes them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from bridge.api.backend import ErrorCode

MessageId = Annotated[
    str,
    Path(
        pattern=r"^0x[0-9a-fA-F]{64}$", description="A message id: 0x and 64 hex digits.", examples=["0x" + "ab" * 32]
    ),
]
MessageIdQuery = Annotated[
    str | None, Query(alias="messageId", pattern=r"^0x[0-9a-fA-F]{64}$", description="Only this message's.")
]
Since = Annotated[float, Query(ge=0, allow_inf_nan=False, description="Created then or later, in Unix seconds.")]
Until = Annotated[
    float | None, Query(ge=0, allow_inf_nan=False, description="Created then or earlier, in Unix seconds.")
]
Limit = Annotated[int, Query(ge=1, le=1_000, description="At most so many.")]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("control characters can't be kept: they hide the text next to them")
    return text


Shown = Annotated[str, AfterValidator(_printable)]
"""Text that terminals and pages will show."""


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class RetryRequest(_Form):
    """Which GMPs to retry over."""

    gmps: list[str] | None = Field(
        default=None, max_length=32, description="Names of GMPs; the best ones if not given."
    )


class Reason(_Form):
    """Why something is changed; kept for ever."""

    reason: Shown = Field(min_length=1, max_length=500)
    by: Shown = Field(default="api", min_length=1, max_length=100, description="Who decided it.")


class Problem(BaseModel):
    """What went wrong, and what to do."""

    code: ErrorCode
    message: str
    next: str | None = None


class Failure(BaseModel):
    """Every answer that is not success."""

    error: Problem


class Health(BaseModel):
    """Whether the process lives."""

    status: str = "ok"


class Readiness(BaseModel):
    """Whether it can do its work."""

    ready: bool
    problems: list[str]


class ReadTo(BaseModel):
    """How far the index has read a chain: what happened later is in no answer of the index."""

    name: str
    chainId: int  # JSON's own spelling, the same as the command's
    block: int
    blocksBehind: int
    secondsBehind: int
    halted: str | None


class Messages(BaseModel):
    """Messages, and as of when."""

    asOf: float  # Unix seconds
    chains: list[ReadTo]
    messages: list[dict[str, Any]]


class Delivery(BaseModel):
    """An outbox entry: one message, GMP and attempt."""

    model_config = ConfigDict(extra="allow")

    eventId: str
    messageId: str
    lane: str
    gmp: str
    attempt: int
    kind: str
    state: str
    failedTries: int
    lastError: str | None
    createdAt: float
    availableAt: float
    claimedAt: float | None
    claimedBy: str | None
    deliveredAt: float | None
    transaction: str | None


class DeadLetter(BaseModel):
    """A delivery whose tries are spent. Deciding about it takes an operator's signature: `waybill dlq`."""

    model_config = ConfigDict(extra="allow")

    id: str
    messageId: str
    kind: str
    sourceChain: int
    destinationChain: int
    gmp: str
    status: str
    errorCode: str
    enteredAt: str
    retentionUntil: str


class LaneHeld(BaseModel):
    """A lane that is not running, or a change of one."""

    model_config = ConfigDict(extra="allow")

    lane: str
    state: str
    reason: str
    by: str
    at: float
