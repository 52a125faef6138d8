"""The relayer's HTTP API: health, metrics, messages, deliveries and lanes. What changes something asks for a token."""

from __future__ import annotations

from bridge.api.app import create_app
from bridge.api.backend import Backend, BackendError, DeliveryFilter, ErrorCode

__all__ = [
    "Backend",
    "BackendError",
    "DeliveryFilter",
    "ErrorCode",
    "create_app",
]
