"""Deliveries of webhooks, for all faces."""

from __future__ import annotations

from typing import Any

from bridge.domain.webhooks import WebhookDelivery


def webhook_value(found: WebhookDelivery) -> dict[str, Any]:
    """A delivery as JSON, without its body; times in Unix seconds."""
    return {
        "id": found.id,
        "target": found.target,
        "state": found.state.value,
        "event": found.event,
        "key": found.key,
        "version": found.version,
        "failedTries": found.tries,
        "createdAt": found.created_at,
        "nextTryAt": found.next_at if found.ended_at is None else None,
        "endedAt": found.ended_at,
        "error": found.error or None,
    }
