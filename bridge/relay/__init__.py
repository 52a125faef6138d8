"""Observe → outbox → claim → attest → deliver → confirm."""

from __future__ import annotations

from bridge.relay.breaker import BreakerSettings
from bridge.relay.relay import Relay
from bridge.relay.settings import RelaySettings

__all__ = ["BreakerSettings", "Relay", "RelaySettings"]
