"""Retrying messages over other GMPs, and bringing what is final to where it is not applied."""

from __future__ import annotations

from bridge.recovery.burial import Burial
from bridge.recovery.execution import Execution, ExecutionSettings
from bridge.recovery.planning import Planner
from bridge.recovery.propagation import Propagation, PropagationSettings, RoutePropagator
from bridge.recovery.recovery import Recovery, RecoverySettings, Retried, RetryFailedError

__all__ = [
    "Burial",
    "Execution",
    "ExecutionSettings",
    "Planner",
    "Propagation",
    "PropagationSettings",
    "Recovery",
    "RecoverySettings",
    "Retried",
    "RetryFailedError",
    "RoutePropagator",
]
