"""Everything that can happen to a message or a router, for tests that draw stories: at random, from a seed or by hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bridge.protocol.message import Message
from tests.unit.indexer.logs import ADAPTERS, ALPHA, BETA
from tests.unit.indexer.world import (
    START,
    Event,
    SimulatedChain,
    absorbed,
    adapter_added,
    adapter_revoked,
    cancellation_requested,
    cancelled,
    contradicted,
    created,
    deferred,
    executed,
    expired,
    failed,
    floor_set,
    gmp_pause_set,
    lane_pause_set,
    late_receipt,
    policy_set,
    received,
    report_of,
    reported,
    retried,
    routed,
    unfunded,
)

Number = Callable[[int, int], int]
"""Draws a number from those two on, both included."""

Happening = Callable[[Message, Number], Event]

_ON_SOURCE: Final[tuple[Happening, ...]] = (
    lambda one, _: created(one),
    lambda one, number: routed(one, gmps=number(0, 7), retriable=number(0, 4) > 0),
    lambda one, number: routed(one, gmps=number(1, 7)),
    lambda one, number: unfunded(one, gmps=number(0, 7)),
    lambda one, number: retried(one, number(1, 3), number(0, 7)),
    lambda one, number: (
        "DispatchFailed",
        {"message_id": one.id, "gmp": number(1, 4), "attempt": 0, "reason": b"no"},
    ),
    lambda one, _: cancellation_requested(one),
    lambda one, number: reported(one, number(1, 3)),
    lambda one, number: contradicted(one, number(1, 3), 1),
)
_ON_DESTINATION: Final[tuple[Happening, ...]] = (
    *[lambda one, number: received(one, number(1, 4), number(0, 3), quorum=number(1, 3))] * 4,
    *[lambda one, _: executed(one)] * 2,
    lambda one, number: failed(one, bytes([number(0, 255)])),
    lambda one, _: deferred(one),
    lambda one, _: expired(one),
    lambda one, _: cancelled(one),
    lambda one, number: absorbed(one, number(1, 4)),
    lambda one, number: late_receipt(one, number(1, 4), state=number(2, 3)),
    lambda one, number: routed(report_of(one), gmps=number(0, 7)),
)
_TO_A_ROUTER: Final[tuple[Happening, ...]] = (
    lambda _, number: adapter_added(number(1, 4), ADAPTERS[BETA]),
    lambda _, number: adapter_revoked(number(1, 4), ADAPTERS[BETA]),
    lambda one, number: policy_set(one.recipient, ALPHA, number(0, 15), quorum=number(0, 3)),
    lambda _, number: floor_set(ALPHA, number(0, 3)),
    lambda _, number: lane_pause_set(ALPHA, START + number(0, 99)),
    lambda _, number: gmp_pause_set(number(1, 4), START + number(0, 99)),
)


def happening(side: int, messages: Sequence[Message], number: Number) -> Event:
    """Something that happens to one of the messages on their source (side 0) or their destination (side 1)."""
    kinds = (_ON_SOURCE, _ON_DESTINATION)[side]
    return kinds[number(0, len(kinds) - 1)](messages[number(0, len(messages) - 1)], number)


def change(messages: Sequence[Message], number: Number) -> Event:
    """Something that happens to a router that one of the messages passes."""
    return _TO_A_ROUTER[number(0, len(_TO_A_ROUTER) - 1)](messages[number(0, len(messages) - 1)], number)


def fork_of(chain: SimulatedChain, known: list[bytes]) -> int:
    """The last block that a reader who knows these hashes still finds."""
    ours = [block.hash for block in chain.blocks]
    return max((number for number, (a, b) in enumerate(zip(ours, known, strict=False)) if a == b), default=-1)
