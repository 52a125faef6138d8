"""A relayer is put together as its settings say: what they choose reaches the part that works by it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from bridge.evm.chain import EvmChain
from bridge.gmps.attestation import JsonDocuments
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.deployment import Deployment
from bridge.protocol.lanes import Lane
from bridge.protocol.message import Kind
from bridge.records.jobs import SyncJob
from bridge.relayer.delivery import Deliveries
from bridge.service.relayer_service import RelayerService
from bridge.service.settings import Settings
from bridge.service.startup_checks import check_relayer
from bridge.store import Store
from tests.asking_index import asking_index
from tests.builders import ALPHA, BETA, message, observed_range, retry_request
from tests.unit.dead_letters.test_review import RoutingChain, deployed
from tests.waiting import eventually_true

KEY = "0x" + "11" * 32
SENDER = "0x" + "0a" * 20
LANE = Lane(ALPHA, BETA)
DAY = 86_400  # seconds


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(
        relayer_key=KEY,
        store=f"sqlite:///{tmp_path}/bridge.db",
        index_store=f"sqlite:///{tmp_path}/index.db",
        policies={"query": {"max_retries": 2, "base": 3}},
        phase_timeouts={"attest": 50},
        asset_classes={"regulatory": {"members": {"beta": [SENDER]}}},
        deny_senders=[SENDER],
        dlq={"retention_days": 7},
        sender_choices={"max_retries": 7},
        retention=20 * DAY,
        reliability={"dedup_capacity": 2_000_000, "lock_ttl": 1_200},
        sync={"threshold": 77},
        actions={"coordinators": {"alpha": ["0x" + "0c" * 20]}},
    )


@pytest.fixture
def service(settings: Settings) -> Iterator[RelayerService]:
    network = Deployment.model_validate(
        {"version": 1, "network": "test", "chains": [deployed(ALPHA, "alpha"), deployed(BETA, "beta")]}
    )
    paying, sealer = check_relayer(settings, network, has_attesters=True)
    with closing(Store(settings.store)) as store:
        yield RelayerService(
            network,
            {chain_id: cast(EvmChain, RoutingChain(chain_id)) for chain_id in (ALPHA, BETA)},
            store,
            settings,
            paying=paying,
            sealer=sealer,
            worker="worker",
            web=cast(JsonDocuments, None),  # asks nothing
            attesters=lambda *_: {},
        )


def deliveries_of(service: RelayerService) -> Deliveries:
    return service.relayer.deliveries[BETA]


def test_deliveries_go_by_the_settings_rows(settings: Settings, service: RelayerService) -> None:
    rows = settings.delivery_policies()
    assert (rows[Kind.QUERY].max_retries, rows[Kind.QUERY].base) == (2, 3)
    policies = deliveries_of(service)._policies
    assert policies.operator.rows == rows
    assert policies.operator.bounds.max_retries == 7


def test_phases_end_after_the_settings_times(service: RelayerService) -> None:
    timeouts_of = deliveries_of(service)._settings.phase_timeouts_of
    assert timeouts_of(Kind.LOCK_MANAGEMENT) == {"attest": 50, "deliver": 900}
    assert timeouts_of(Kind.QUERY) == {}
    assert Settings.load().phase_timeouts.model_dump() == {"attest": 120, "deliver": 900}, "the defaults"


def test_settings_reach_senders_classes_and_letters(service: RelayerService) -> None:
    assert deliveries_of(service)._acceptance.withheld_senders == {to_bytes32(SENDER)}
    classes = service.relayer.observers[BETA]._asset_classes
    assert [(one.name, one.min_ttl, one.members) for one in classes] == [
        ("regulatory", 600, frozenset({(BETA, to_bytes32(SENDER))}))
    ]
    assert service.dead_letter_service.dead_letter_queue._settings.retention == 7 * DAY


async def test_relayer_follows_state_changes_and_signs_progress(service: RelayerService) -> None:
    change = message(kind=Kind.STATE_SYNC)
    service.store.observations.record(observed_range(change))
    work = asyncio.create_task(service.run())
    try:
        await eventually_true(lambda: work.done() or service.store.finality_records.heartbeats(), "a heartbeat")
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    assert service.store.jobs.newest(SyncJob, change.id) is not None
    beats = service.store.finality_records.heartbeats()
    assert [(one.lane, one.progress.primary_final, one.progress.applied) for one in beats] == [(LANE, 1, 0)]


def test_seen_messages_are_bounded_by_the_settings(service: RelayerService) -> None:
    assert service.relayer._settings.retention == 20 * DAY
    assert {one._capacity._capacity for one in service.relayer.observers.values()} == {2_000_000}


def test_state_changes_are_forwarded_under_their_lock(service: RelayerService) -> None:
    following = service.propagation
    assert (following._settings.threshold, following._lock_ttl) == (77, 1_200)


def under_way() -> set[str]:
    """What this process does at once: the steps that it repeats, and whatever else runs."""
    found = set()
    for task in asyncio.all_tasks():
        work = cast(Any, task.get_coro())
        found.add(work.cr_frame.f_locals["name"] if work.__name__ == "run_forever" else work.__qualname__)
    return found


async def test_a_running_relayer_does_all_of_its_work_at_once(service: RelayerService) -> None:
    wanted = {
        "Relayer.run", "counters", "retention", f"send on {ALPHA}", f"send on {BETA}",
        "Recovery.run", "copy retry requests", "Execution.run",
        "DeadLetterService.run", "verify dead letters", "close dead letters",
        "Propagation.run", "follow state changes", "heartbeat",
        "follow actions",
    }  # fmt: skip
    running = asyncio.create_task(service.run())
    try:
        await eventually_true(lambda: wanted <= under_way(), lambda: f"missing: {wanted - under_way()}")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_requests_of_the_index_become_jobs_of_the_relayer(service: RelayerService, tmp_path: Path) -> None:
    with closing(asking_index(tmp_path / "index.db", retry_request(3))):
        await service.recovery.copy()
    assert service.store.jobs.request_cursor() == 3
