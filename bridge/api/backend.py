"""The port through which the API gets its answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from bridge.domain.dead_letters import LetterStatus
from bridge.domain.lanes import LaneState
from bridge.domain.outbox import OutboxState
from bridge.protocol.gmps import Gmp
from bridge.protocol.status import Status

Json = dict[str, Any]


class ErrorCode(StrEnum):
    """How a request ends that does not succeed; the same words as the command's exit codes where there is one."""

    USAGE = "USAGE"  # the request can't be meant
    UNAUTHORIZED = "UNAUTHORIZED"  # no token, or a wrong one
    FORBIDDEN = "FORBIDDEN"  # nothing may be changed over this API
    UNKNOWN_ID = "UNKNOWN_ID"
    REFUSED = "REFUSED"  # not in this state
    UNAVAILABLE = "UNAVAILABLE"  # later, perhaps


class BackendError(Exception):
    """A request that does not succeed, and what to do about it."""

    def __init__(self, code: ErrorCode, message: str, next_step: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.next_step = next_step


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFilter:
    """Which outbox entries are asked for; None is any."""

    state: OutboxState | None
    message_id: bytes | None
    since: float  # Unix seconds of its creation, as is `until`
    until: float | None
    limit: int


class Backend(Protocol):
    """Answers as JSON; every method may raise `BackendError`."""

    async def metrics(self) -> bytes:
        """Prometheus' text format."""

    async def problems(self) -> list[str]:
        """Why no message can be relayed now; empty if it can."""

    async def status(self) -> Json:
        """Chains, queues, lanes, breakers and messages."""

    async def messages(self, status: Status | None, limit: int) -> Json:
        """Messages, the newest first, with how far the index has read each chain."""

    async def explain(self, message_id: bytes) -> Json:
        """Where a message is, why, and what to do next."""

    async def retry(self, message_id: bytes, gmps: Sequence[Gmp] | None) -> Json:
        """Sends another attempt of a message over those GMPs, or over the best ones."""

    async def deliveries(self, asked: DeliveryFilter) -> list[Json]:
        """Outbox entries, the newest first."""

    async def delivery(self, event_id: str) -> Json:
        """One outbox entry with every try that failed."""

    async def replay(self, event_id: str, reason: str) -> Json:
        """Opens a delivered or dead entry again."""

    async def dead_letters(self, status: LetterStatus | None, limit: int) -> list[Json]:
        """Dead letters, the newest first."""

    async def letter(self, event_id: str) -> Json:
        """One dead letter: its message, its failures, what to know before deciding, and its history."""

    async def lanes(self) -> list[Json]:
        """The lanes that are held."""

    async def change_lane(self, source: str, destination: str, state: LaneState, reason: str, by: str) -> Json:
        """Holds a lane, or lets it go on."""
