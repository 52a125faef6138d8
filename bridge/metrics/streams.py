"""How far the streams out are."""

from __future__ import annotations

from bridge.domain.figures import Counted
from bridge.domain.webhooks import WebhookState
from bridge.metrics.samples import Samples
from bridge.store.counters import Counters
from bridge.store.streams import Streams
from bridge.store.webhooks import Webhooks


def add_streams(samples: Samples, streams: Streams, now: float) -> None:
    """Adds what waits and what was sent; nothing where no relayer has ever recorded streams."""
    found = streams.status()
    if not (found.recording or found.waiting or any(found.sent.values())):
        return
    samples.add("waybill_stream_waiting_records", found.waiting)
    samples.add("waybill_stream_oldest_seconds", 0.0 if found.oldest is None else max(0.0, now - found.oldest))
    samples.add("waybill_stream_halted", float(bool(found.halted)))
    for stream, count in found.sent.items():
        samples.add("waybill_stream_records_total", count, stream=stream)


def add_webhooks(samples: Samples, webhooks: Webhooks, counters: Counters, now: float) -> None:
    """Adds how each target's deliveries are; nothing where there never was one."""
    for (target, result), count in counters.counted(Counted.WEBHOOK).items():
        samples.add("waybill_webhook_tries_total", count, target=str(target), result=str(result))
    for target, found in webhooks.figures().items():
        samples.add("waybill_webhook_deliveries", found.pending, target=target, state=WebhookState.PENDING.value)
        samples.add("waybill_webhook_deliveries", found.dead, target=target, state=WebhookState.DEAD.value)
        age = 0.0 if found.oldest is None else max(0.0, now - found.oldest)
        samples.add("waybill_webhook_oldest_seconds", age, target=target)
