"""The relayer's HTTP API: health, metrics, messages, deliveries and lanes. What changes something asks for a token."""

from __future__ import annotations

from bridge.api.app import create_app
from bridge.api.backend import Backend, BackendError, DeliveryFilter, ErrorCode
from bridge.api.server import ListeningError, listening_at, serving

__all__ = [
    "Backend",
    "BackendError",
    "DeliveryFilter",
    "ErrorCode",
    "ListeningError",
    "create_app",
    "listening_at",
    "serving",
]
