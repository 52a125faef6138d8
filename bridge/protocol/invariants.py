"""What must hold between settings that look independent. A relayer does not start when one of these fails."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from bridge.protocol.backoff import backoff
from bridge.protocol.delivery_policy import DEFAULT_POLICIES, DeliveryPolicy, PolicyError
from bridge.protocol.guarantee import RECOMMENDED_TTL
from bridge.protocol.message import Kind

LOCKING: Final = frozenset({Kind.STATE_SYNC, Kind.REGULATORY_ACTION, Kind.LOCK_MANAGEMENT, Kind.GOVERNANCE_EXECUTE})
"""Kinds whose messages may take a preemptive lock on an asset. A critical action's lock is renewed with each try instead."""

_NEVER_WAITS: Final = frozenset({Kind.HEARTBEAT})  # replaced by the next one, never delivered late


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """The settings that depend on each other. Times are in seconds."""

    policies: Mapping[Kind, DeliveryPolicy] = field(default_factory=lambda: DEFAULT_POLICIES)
    ttls: Mapping[Kind, int] = field(default_factory=lambda: RECOMMENDED_TTL)  # 0 is for ever
    dedup_window: float = 30 * 86_400  # for how long what was seen is remembered
    dedup_capacity: int = 5_000_000  # messages that are remembered at once
    messages_per_second: float = 1  # expected on average
    max_clock_skew: float = 5  # between this machine and any chain
    lock_ttl: float = 1_020  # for which a preemptive lock holds
    source_finality: float = 12  # until a message is final on its source
    gmp_time: float = 10  # that a GMP usually takes from there


def reliable(values: Reliability) -> Reliability:
    """The values themselves, if they hold together.

    Raises:
        PolicyError: some do not; the text names both values of each pair.
    """
    problems = [*_window(values), *_capacity(values), *_locks(values), *_ttls(values)]
    if problems:
        raise PolicyError("these settings contradict each other:\n" + "\n".join(f"  {text}" for text in problems))
    return values


def longest_wait(policy: DeliveryPolicy) -> float | None:
    """The longest that all waits of a policy take, jitter included, in seconds; None if there is no end."""
    if policy.max_retries is None:
        return None
    waits = (
        backoff(policy.base, number, cap=policy.cap, jitter=policy.jitter, random=lambda: 1.0)
        for number in range(policy.max_retries)
    )
    return sum(waits)


def _window(values: Reliability) -> Iterator[str]:
    kind, ttl = max(values.ttls.items(), key=lambda item: item[1])
    needed = ttl + 2 * values.max_clock_skew
    if values.dedup_window < needed:
        yield (
            f"dedup window is {values.dedup_window:g} s, and must be at least {needed:g} s: TTL of {kind.name} {ttl} s"
            f" + 2 × clock skew {values.max_clock_skew:g} s; else a duplicate could come after it was forgotten"
        )


def _capacity(values: Reliability) -> Iterator[str]:
    needed = values.messages_per_second * values.dedup_window
    if needed > values.dedup_capacity:
        yield (
            f"dedup capacity is {values.dedup_capacity} messages, and must be at least {math.ceil(needed)}:"
            f" {values.messages_per_second:g} messages/s × dedup window {values.dedup_window:g} s; else new messages would"
            " have to wait until old ones are forgotten"
        )


def _locks(values: Reliability) -> Iterator[str]:
    for kind in sorted(LOCKING):
        window = values.policies[kind].retry_window
        if window is None:
            yield f"{kind.name} is tried without end, and a lock of {values.lock_ttl:g} s must be free in bounded time"
        elif values.lock_ttl < values.ttls[kind] + window:
            yield (
                f"lock TTL is {values.lock_ttl:g} s, and must be at least {values.ttls[kind] + window:g} s: TTL of {kind.name}"
                f" {values.ttls[kind]} s + retry window {window:g} s"
            )


def _ttls(values: Reliability) -> Iterator[str]:
    arrival = values.source_finality + values.gmp_time
    for kind, ttl in values.ttls.items():
        if ttl == 0 or kind in _NEVER_WAITS:
            continue
        waits = longest_wait(values.policies[kind])
        if waits is not None and ttl < waits:
            yield f"TTL of {kind.name} is {ttl} s, less than its tries wait together: {waits:g} s"
        if ttl < arrival:
            yield (
                f"TTL of {kind.name} is {ttl} s, less than it takes to arrive: source finality {values.source_finality:g} s"
                f" + a GMP's usual time {values.gmp_time:g} s"
            )
