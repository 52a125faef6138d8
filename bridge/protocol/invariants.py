"""Constraints between settings that look independent. A relayer refuses to start if one of them is violated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from bridge.protocol.delivery_policy import DEFAULT_POLICIES, DeliveryPolicy, KindName, PolicyError
from bridge.protocol.guarantee import RECOMMENDED_TTL
from bridge.protocol.message import Kind

LOCKING: Final = frozenset({Kind.STATE_SYNC, Kind.REGULATORY_ACTION, Kind.LOCK_MANAGEMENT, Kind.GOVERNANCE_EXECUTE})
"""Kinds whose messages may take a preemptive lock on an asset. A critical action's lock is renewed with each try instead."""


class Reliability(BaseModel):
    """Values that must be consistent with each other.

    Times are in seconds. The dedup window is the setting `retention`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_clock_skew: float = Field(default=5.0, ge=0, description="maximum difference between clocks")
    lock_ttl: float = Field(default=1_020.0, gt=0, description="time until a lock on a state change expires")
    dedup_capacity: int = Field(default=5_000_000, gt=0, description="maximum number of messages in the store")
    messages_per_second: float = Field(default=1.0, gt=0, description="expected message rate")
    ttls: dict[KindName, Annotated[int, Field(ge=0)]] = Field(
        default={}, description="overrides of the recommended TTLs, by kind; 0 is unlimited"
    )

    @property
    def all_ttls(self) -> Mapping[Kind, int]:
        """Returns the TTL of every kind in seconds; 0 means unlimited."""
        return {**RECOMMENDED_TTL, **self.ttls}


def require_reliable(
    values: Reliability, policies: Mapping[Kind, DeliveryPolicy] = DEFAULT_POLICIES, dedup_window: float = 30 * 86_400
) -> None:
    """Checks that settings are consistent.

    Args:
        values: the settings.
        policies: the policy of each kind.
        dedup_window: seconds for which an observed message is remembered.

    Raises:
        PolicyError: settings contradict each other. The message lists both values of each pair.
    """
    problems = [
        *_window(values, dedup_window),
        *_capacity(values, dedup_window),
        *_locks(values, policies),
    ]
    if problems:
        raise PolicyError("these settings contradict each other:\n" + "\n".join(f"  {text}" for text in problems))


def _window(values: Reliability, dedup_window: float) -> Iterator[str]:
    kind, ttl = max(values.all_ttls.items(), key=lambda item: item[1])
    needed = ttl + 2 * values.max_clock_skew
    if dedup_window < needed:
        yield (
            f"dedup window is {dedup_window:g} s; it must be at least {needed:g} s: TTL of {kind.name} {ttl} s "
            f"+ 2 × clock skew {values.max_clock_skew:g} s; otherwise a duplicate could arrive after its "
            "record is deleted"
        )


def _capacity(values: Reliability, dedup_window: float) -> Iterator[str]:
    needed = values.messages_per_second * dedup_window
    if needed > values.dedup_capacity:
        yield (
            f"dedup capacity is {values.dedup_capacity} messages; it must be at least {math.ceil(needed)}: "
            f"{values.messages_per_second:g} messages/s × dedup window {dedup_window:g} s; otherwise new "
            "messages would have to wait until old ones are deleted"
        )


def _locks(values: Reliability, policies: Mapping[Kind, DeliveryPolicy]) -> Iterator[str]:
    for kind in sorted(LOCKING):
        window = policies[kind].retry_window
        if window is None:
            yield (
                f"{kind.name} is retried without limit, but a lock of {values.lock_ttl:g} s must be released "
                "in bounded time"
            )
        elif values.lock_ttl < values.all_ttls[kind] + window:
            yield (
                f"lock TTL is {values.lock_ttl:g} s; it must be at least {values.all_ttls[kind] + window:g} s: "
                f"TTL of {kind.name} {values.all_ttls[kind]} s + retry window {window:g} s"
            )
