"""Numbers of one moment, and how Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from bridge.metrics.catalogue import METRICS, Metric, MetricType

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Family = GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily


class Samples(Collector):
    """What was read, by metric."""

    def __init__(self) -> None:
        self._families = {metric.name: _family(metric) for metric in METRICS}
        self._labels = {metric.name: metric.labels for metric in METRICS}
        self._used: set[str] = set()

    def add(self, name: str, value: float, **labels: str) -> None:
        """Adds a number.

        Raises:
            KeyError: no such metric, or not with those labels.
        """
        family = self._families[name]
        assert not isinstance(family, HistogramMetricFamily)
        family.add_metric(self._values(name, labels), value)
        self._used.add(name)

    def add_histogram(
        self, name: str, bounds: Sequence[float], within: Sequence[int], total: float, count: int, **labels: str
    ) -> None:
        """Adds a distribution.

        Args:
            name: of a histogram.
            bounds: upper bounds, growing.
            within: how many lie at or below each of them.
            total: the sum of all values.
            count: how many there are.
            labels: whose.
        """
        family = self._families[name]
        assert isinstance(family, HistogramMetricFamily)
        buckets: list[tuple[str, float]] = [(str(bound), found) for bound, found in zip(bounds, within, strict=True)]
        family.add_metric(self._values(name, labels), [*buckets, ("+Inf", count)], total)
        self._used.add(name)

    def collect(self) -> Iterable[Family]:
        """What there is a number for."""
        return [family for name, family in self._families.items() if name in self._used]

    def _values(self, name: str, labels: dict[str, str]) -> list[str]:
        if set(labels) != set(self._labels[name]):
            raise KeyError(f"{name} has the labels {', '.join(self._labels[name])}, not {', '.join(labels)}")
        return [labels[label] for label in self._labels[name]]

    def exposition(self) -> bytes:
        """All of it in Prometheus' text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)


def _family(metric: Metric) -> Family:
    match metric.type:
        case MetricType.GAUGE:
            return GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        case MetricType.COUNTER:
            return CounterMetricFamily(metric.name, metric.meaning, labels=metric.labels)
        case MetricType.HISTOGRAM:
            return HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
