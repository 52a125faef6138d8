"""What the relay's tests ask of a store and change in a bridge."""

from __future__ import annotations

from bridge.records import Store
from bridge.records.outbox import OutboxEntry
from bridge.simulation import SimulatedBridge, World
from bridge.simulation.adapter import SimulatedAdapter
from bridge.simulation.contracts import GMPS
from bridge.simulation.world import Sent


def only_entry(store: Store, sent: Sent) -> OutboxEntry:
    (entry,) = store.outbox.entries(sent.message.id)
    return entry


def with_adapter(bridge: SimulatedBridge, world: World, kind: type[SimulatedAdapter]) -> SimulatedBridge:
    for deliveries_ in bridge.relay.deliveries.values():
        deliveries_._adapters = {gmp: kind(gmp, world.chains) for gmp in GMPS}
    return bridge
