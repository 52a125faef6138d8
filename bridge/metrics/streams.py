"""Metrics of the streams to Kafka."""

from __future__ import annotations

from bridge.metrics.samples import Samples
from bridge.store.streams import Streams


def add_streams(samples: Samples, streams: Streams, now: float) -> None:
    """Adds the numbers of waiting and published records. Adds nothing if no relayer has ever recorded streams."""
    found = streams.status()
    if not (found.recording or found.waiting or any(found.sent.values())):
        return
    samples.add("waybill_stream_waiting_records", found.waiting)
    samples.add("waybill_stream_oldest_seconds", 0.0 if found.oldest is None else max(0.0, now - found.oldest))
    samples.add("waybill_stream_halted", float(bool(found.halted)))
    for stream, count in found.sent.items():
        samples.add("waybill_stream_records_total", count, stream=stream)
