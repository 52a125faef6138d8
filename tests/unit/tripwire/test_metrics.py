"""The tripwire's metrics are what its store says."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from bridge.domain.observations import BlockRef
from bridge.metrics import METRICS
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.service.tripwire_service import tripwire_samples
from bridge.tripwire.journal import Deed
from bridge.tripwire.judgement import Judgement
from bridge.tripwire.store import Reading, TripwireStore
from bridge.tripwire.tripwire import Tripwire
from tests.unit.tripwire.test_store import HERE, SIGNER, THERE, receipt


def chain(chain_id: int, name: str) -> ChainDeployment:
    return ChainDeployment(
        chain_id=chain_id,
        name=name,
        rpc_urls=("http://nowhere",),
        start_block=0,
        confirmations=1,
        router="0x" + "11" * 20,
        adapters={},
        gmps={},
    )


NETWORK = Deployment(version=1, network="unit", chains=(chain(HERE, "here"), chain(THERE, "there")))


def test_incidents_are_counted_by_chain_and_a_gmp_that_is_not_paused_is_told_apart(tmp_path: Path) -> None:
    with closing(TripwireStore(tmp_path / "tripwire.db", SIGNER)) as store:
        tripwire = cast("Tripwire", SimpleNamespace(store=store, read_at={HERE: 77.0}))

        def shown() -> dict[tuple[str, str], float]:
            exposed = tripwire_samples(tripwire, NETWORK).exposition().decode().splitlines()
            rows = (line.rsplit(" ", 1) for line in exposed if line and not line.startswith("#"))
            found = {}
            for name, value in rows:
                metric, _, labels = name.partition("{")
                found[metric.removeprefix("waybill_tripwire_"), labels.rstrip("}")] = float(value)
            return found

        here, there = 'chain="here"', 'chain="there"'
        nothing = {
            ("read_timestamp_seconds", here): 77.0,  # `there` was never read to its end
            ("incidents", here): 0,
            ("incidents", there): 0,
            ("unpaused", here): 0,
            ("unpaused", there): 0,
            ("findings", ""): 0,
        }
        assert shown() == nothing
        assert {f"waybill_tripwire_{name}" for name, _ in nothing} == {
            metric.name for metric in METRICS if metric.name.startswith("waybill_tripwire_")
        }

        for gmp in (2, 3):
            store.apply(Reading(chain_id=THERE, tips=[BlockRef(5, b"b" * 32)], receipts=[receipt(gmp=gmp)]))
            (seen,) = store.waiting()
            store.accuse(seen, Judgement.RECEIPT_WITHOUT_CREATION, {}, 1.0, lambda _: [])
        assert shown() == nothing | {("incidents", there): 2, ("unpaused", there): 2}

        first, second = store.incidents()
        store.settle(first, Deed.PAUSED, {}, 2.0, until=5_000, block=9)
        store.settle(second, Deed.NOT_PAUSED, {"reason": "no allowance"}, 2.0)
        store.note("finding/x", Deed.FINDING, {}, 3.0)
        assert shown() == nothing | {("incidents", there): 2, ("unpaused", there): 1, ("findings", ""): 1}
