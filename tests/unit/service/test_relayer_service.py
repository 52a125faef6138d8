"""A relayer is put together as its settings say: what they choose reaches the part that works by it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from bridge.domain.jobs import SyncJob
from bridge.domain.lanes import Lane
from bridge.evm.chain import EvmChain
from bridge.gmps.attestation import JsonDocuments
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.deployment import Deployment
from bridge.protocol.message import Kind
from bridge.relayer.delivery import Deliveries
from bridge.service.relayer_service import RelayerService
from bridge.service.startup_checks import check_relayer
from bridge.settings import Settings
from bridge.store import SqlStore, WorkingLock
from tests.builders import ALPHA, BETA, message, observed_range
from tests.unit.dead_letters.test_review import RoutingChain, deployed

KEY = "0x" + "11" * 32
SENDER = "0x" + "0a" * 20
LANE = Lane(ALPHA, BETA)


class Nobody:
    """Stands for the lock of a store that nobody else works on."""

    def renew(self) -> None:
        """Holds it anyway."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(
        relayer_key=KEY,
        store=f"sqlite:///{tmp_path}/bridge.db",
        policies={"query": {"max_retries": 2, "base": 3}},
        phase_timeouts={"attest": 50},
        phase_limits=[{"source": "alpha", "kind": "state_sync", "attest": 4}],
        asset_classes={"regulatory": {"members": {"beta": [SENDER]}}},
        deny_senders=[SENDER],
        dlq={"retention_days": 7},
    )


@pytest.fixture
def service(settings: Settings) -> Iterator[RelayerService]:
    network = Deployment.model_validate(
        {"version": 1, "network": "test", "chains": [deployed(ALPHA, "alpha"), deployed(BETA, "beta")]}
    )
    with closing(SqlStore(settings.store)) as store:
        yield RelayerService(
            network,
            {chain_id: cast(EvmChain, RoutingChain(chain_id)) for chain_id in (ALPHA, BETA)},
            store,
            settings,
            keys=check_relayer(settings, network, has_attesters=True),
            worker="worker",
            lock=cast(WorkingLock, Nobody()),
            web=cast(JsonDocuments, None),  # asks nothing
            attesters=lambda *_: {},
        )


def deliveries_of(service: RelayerService) -> Deliveries:
    return service.relayer.deliveries[BETA]


@pytest.mark.requirement("OIP-60", "OIP-64", "OIP-65", "OIP-73", "OBX-30", "OBX-49")
def test_deliveries_and_retries_go_by_the_settings_rows(settings: Settings, service: RelayerService) -> None:
    rows = settings.delivery_policies()
    assert (rows[Kind.QUERY].max_retries, rows[Kind.QUERY].base) == (2, 3)
    assert deliveries_of(service)._policies == service.recovery._exhaustion._policies == rows


@pytest.mark.requirement("OIP-71", "OIP-72")
def test_no_two_waits_are_drawn_alike(service: RelayerService) -> None:
    drawn = [deliveries_of(service)._random() for _ in range(1_000)]
    assert len(set(drawn)) > 990
    assert 0 <= min(drawn) < 0.05
    assert 0.95 < max(drawn) < 1


@pytest.mark.requirement("OIP-29")
def test_phases_end_after_the_settings_times(service: RelayerService) -> None:
    phases_of = deliveries_of(service)._settings.phases_of
    assert phases_of(LANE, Kind.STATE_SYNC)["attest"] == 4
    assert phases_of(Lane(BETA, ALPHA), Kind.STATE_SYNC)["attest"] == 50
    assert phases_of(LANE, Kind.LOCK_MANAGEMENT)["attest"] == 50


@pytest.mark.requirement("OIP-34", "OIP-94")
def test_senders_asset_classes_and_letters_are_those_of_the_settings(service: RelayerService) -> None:
    relaying = deliveries_of(service)._settings
    assert relaying.acceptance.withheld_senders == {to_bytes32(SENDER)}
    assert [(one.name, one.min_ttl, one.members) for one in relaying.asset_classes] == [
        ("regulatory", 600, frozenset({(BETA, to_bytes32(SENDER))}))
    ]
    assert service.dead_letter_service.dead_letter_queue._settings.retention == 7 * 86_400


@pytest.mark.requirement("OIP-132", "OIP-162")
async def test_a_relayer_at_work_follows_state_changes_and_signs_how_far_they_are(service: RelayerService) -> None:
    change = message(kind=Kind.STATE_SYNC)
    service.store.observations.record(observed_range(change))
    work = asyncio.create_task(service.run())
    try:
        async with asyncio.timeout(60):
            while not (beats := service.store.finality_records.heartbeats()):
                assert not work.done()
                await asyncio.sleep(0.05)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    assert service.store.jobs.newest(SyncJob, change.id) is not None
    assert [(one.lane, one.progress.primary_final, one.progress.applied) for one in beats] == [(LANE, 1, 0)]
