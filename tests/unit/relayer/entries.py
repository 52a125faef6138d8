"""What the relay's tests ask of a store and change in a bridge."""

from __future__ import annotations

from bridge.records.outbox import OutboxEntry
from bridge.store import Store
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.contracts import GMPS
from tests.support.simulation.world import Sent


def only_entry(store: Store, sent: Sent) -> OutboxEntry:
    (entry,) = store.outbox.entries(sent.message.id)
    return entry


def with_adapter(bridge: SimulatedRelayer, world: World, kind: type[SimulatedAdapter]) -> SimulatedRelayer:
    for deliveries_ in bridge.relayer.deliveries.values():
        deliveries_._adapters = {gmp: kind(gmp, world.chains) for gmp in GMPS}
    return bridge
