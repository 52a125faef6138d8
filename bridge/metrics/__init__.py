"""Exposes a relayer's state to Prometheus. Each scrape reads the store, so a restart does not reset counters."""

from __future__ import annotations

from bridge.metrics.catalogue import METRICS, Metric, MetricType
from bridge.metrics.monitor import Monitor
from bridge.metrics.samples import Samples

__all__ = ["METRICS", "Metric", "MetricType", "Monitor", "Samples"]
