"""Retrying messages over other GMPs."""

from __future__ import annotations

from bridge.recovery.planning import Planner
from bridge.recovery.recovery import Recovery, RecoverySettings, Retried, RetryFailedError

__all__ = ["Planner", "Recovery", "RecoverySettings", "Retried", "RetryFailedError"]
