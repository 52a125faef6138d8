"""What a relayer's state says in numbers, for Prometheus. Read from the store at each scrape, so that no restart resets it."""

from __future__ import annotations

from bridge.metrics.catalogue import METRICS, Metric, MetricType
from bridge.metrics.monitor import IndexFigures, Monitor
from bridge.metrics.samples import Samples

__all__ = ["METRICS", "IndexFigures", "Metric", "MetricType", "Monitor", "Samples"]
