"""Which deliveries are for an adapter that is about to be replaced: `waybill status` counts them."""

from __future__ import annotations

from dataclasses import replace

from bridge.protocol.addresses import created_adapter
from bridge.protocol.gmps import Gmp
from bridge.queries.replacements import replacement_values
from bridge.records.outbox import Delivered, ObservedDelivery
from bridge.store import Store
from tests.builders import ALPHA, BETA, block, message, observed_range, word
from tests.unit.gmps.test_adapter_dispatches import DEPLOYMENT

THERE = DEPLOYMENT.chain(BETA)
NEW = created_adapter(THERE.router, int(Gmp.AXELAR), 2)


def test_deliveries_are_counted_by_adapter(store: Store) -> None:
    former = THERE.adapter(Gmp.AXELAR)
    seen = observed_range(*map(message, (1, 2, 3)), gmps=(Gmp.AXELAR,))
    carried = tuple(
        replace(one, dispatch=replace(one.dispatch, evidence={"destination_address": addressee}))
        for one, addressee in zip(seen.dispatches, (former, former, NEW), strict=True)
    )
    store.observations.record(replace(seen, dispatches=carried))
    numbers = {("beta", Gmp.AXELAR): 2}
    (shown,) = replacement_values(DEPLOYMENT, numbers, store)
    assert shown == {"chain": "beta", "gmp": "axelar", "former": former, "new": NEW, "toFormer": 2, "toNew": 1}

    (claimed,) = store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=200, lease=30)
    store.outbox.finish([Delivered(claimed.current_claim, ObservedDelivery(block(7), word("delivery")))], 201)
    (shown,) = replacement_values(DEPLOYMENT, numbers, store)
    assert (shown["toFormer"], shown["toNew"]) == (1, 1)
    assert store.outbox.under_way(ALPHA, Gmp.AXELAR) == store.outbox.under_way(BETA, Gmp.WORMHOLE) == []
