"""Collects the values of one scrape, and formats them for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from bridge.metrics.catalogue import METRICS, MetricType

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Family = GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily

_FAMILIES: Final = {
    MetricType.GAUGE: GaugeMetricFamily,
    MetricType.COUNTER: CounterMetricFamily,
    MetricType.HISTOGRAM: HistogramMetricFamily,
}


class Samples(Collector):
    """The values of one scrape, by metric."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {
            metric.name: _FAMILIES[metric.type](metric.name, metric.meaning, labels=metric.labels) for metric in METRICS
        }
        self._labels = {metric.name: metric.labels for metric in METRICS}

    def add(self, name: str, value: float, **labels: str) -> None:
        """Adds a value.

        Raises:
            KeyError: the metric is unknown, or has different labels.
        """
        family = self._families[name]
        assert not isinstance(family, HistogramMetricFamily)
        family.add_metric(self._values(name, labels), value)

    def add_histogram(
        self, name: str, bounds: Sequence[float], within: Sequence[int], total: float, count: int, **labels: str
    ) -> None:
        """Adds a distribution.

        Args:
            name: the histogram's name.
            bounds: upper bounds, ascending.
            within: the number of values at or below each bound.
            total: the sum of all values.
            count: the number of values.
            labels: the labels' values.
        """
        family = self._families[name]
        assert isinstance(family, HistogramMetricFamily)
        buckets: list[tuple[str, float]] = [(str(bound), found) for bound, found in zip(bounds, within, strict=True)]
        family.add_metric(self._values(name, labels), [*buckets, ("+Inf", count)], total)

    def collect(self) -> Iterable[Family]:
        """Returns the metrics that have a value."""
        return [family for family in self._families.values() if family.samples]

    def _values(self, name: str, labels: dict[str, str]) -> list[str]:
        if set(labels) != set(self._labels[name]):
            raise KeyError(f"metric {name} has the labels {', '.join(self._labels[name])}, not {', '.join(labels)}")
        return [labels[label] for label in self._labels[name]]

    def exposition(self) -> bytes:
        """Returns all values in Prometheus' text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)
