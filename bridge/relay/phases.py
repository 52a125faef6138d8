"""The second timer: how long one phase of a delivery may take. It ends a try, never a message; that is what TTLs are for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum

from bridge.policies.guarantee import Atomicity
from bridge.ports import TransientError


class Phase(StrEnum):
    """A part of a delivery."""

    ATTEST = "attest"
    DELIVER = "deliver"


class DeliveryTimeoutError(TransientError):
    """A phase took too long. The delivery is tried again; a transaction that is under way is joined, not repeated."""

    code = "DELIVERY_TIMEOUT"

    def __init__(self, phase: Phase, seconds: float) -> None:
        super().__init__(f"phase {phase} did not end within {seconds:g} s")


@asynccontextmanager
async def timed(phase: Phase, atomicity: Atomicity, timeouts: Mapping[str, float]) -> AsyncIterator[None]:
    """Limits what is done inside, unless the message is best effort or the phase has no timeout.

    Raises:
        DeliveryTimeoutError: the phase took longer.
    """
    seconds = timeouts.get(phase) if atomicity.has_phases else None
    timer = asyncio.timeout(seconds)
    try:
        async with timer:
            yield
    except TimeoutError as error:
        if not timer.expired():
            raise
        assert seconds is not None
        raise DeliveryTimeoutError(phase, seconds) from error
