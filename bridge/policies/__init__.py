"""How hard a message is tried: the table by kind, what a sender asked for instead, and what must hold between the values."""

from __future__ import annotations

from bridge.policies.guarantee import DeliveryGuarantee, guarantee_of
from bridge.policies.invariants import Reliability, reliable
from bridge.policies.retries import (
    DEFAULT_POLICIES,
    JITTER,
    PolicyError,
    RetryPolicy,
    Spent,
    becomes_dead_letter,
    classify,
    retry_delay,
    validated,
    why_spent,
)

__all__ = [
    "DEFAULT_POLICIES",
    "JITTER",
    "DeliveryGuarantee",
    "PolicyError",
    "Reliability",
    "RetryPolicy",
    "Spent",
    "becomes_dead_letter",
    "classify",
    "guarantee_of",
    "reliable",
    "retry_delay",
    "validated",
    "why_spent",
]
