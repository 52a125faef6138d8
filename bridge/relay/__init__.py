"""Observe → outbox → claim → attest → deliver → confirm."""

from __future__ import annotations

from bridge.relay.acknowledgements import CommitsHaltedError
from bridge.relay.breaker import BreakerSettings
from bridge.relay.commits import GUARANTEES, CommitSettings, CommitStrategy
from bridge.relay.relay import Relay
from bridge.relay.settings import Ordering, RelaySettings

__all__ = [
    "GUARANTEES",
    "BreakerSettings",
    "CommitSettings",
    "CommitStrategy",
    "CommitsHaltedError",
    "Ordering",
    "Relay",
    "RelaySettings",
]
