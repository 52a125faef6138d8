"""Metrics are read from store and chains at each scrape: a restart resets none, and what is documented is what is there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bridge.dead_letters.signing import KeySealer
from bridge.evm.chain import EvmChain
from bridge.metrics import METRICS, Monitor
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import ChainRecord, DivergenceRecord, IndexSource
from bridge.protocol.lanes import Lane, LaneChange, LaneState
from bridge.protocol.message import Kind
from bridge.protocol.ports import Call, Fees
from bridge.protocol.status import Status
from bridge.records.dead_letters import Decision, RecordKind
from bridge.records.figures import Counted
from bridge.records.finality_records import FOLLOWED, Heartbeat
from bridge.records.jobs import UNRESOLVED, RetryJob, RetryState, SyncJob, SyncState
from bridge.records.outbox import STUCK_AFTER, Dead, Delivered, ObservedDelivery, OutboxState, TryAgain
from bridge.records.spending import GWEI, Blocked, Bound, SpentFor
from bridge.records.transactions import Inclusion, SignedVersion, SlotRequest
from bridge.service.settings import Settings
from bridge.store import Store, open_dead_letters, open_store
from bridge.store.dead_letters import DeadLetterLog
from bridge.store.streams import Streams
from tests.builders import ALPHA, BETA, block, message, observed_range, retry_request, word
from tests.support.stores import memory_dead_letters, memory_store
from tests.unit.cli.network import write_network
from tests.unit.dead_letters.world import SEALER, StillClock, entered, happened
from tests.unit.evm.rpc_server import Answer, RpcServer

SEAL = KeySealer(SEALER)
ACCOUNT = "0x" + "aa" * 20
NOW = 4_000_000_000  # Unix seconds, later than the database's own clock, which dates stream records
LANE = {"source": "alpha", "destination": "beta"}
Exposed = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Index:
    """An index that is behind and has seen a contradiction."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def chains(self) -> list[ChainRecord]:
        return [
            ChainRecord(
                chain_id=ALPHA,
                block=7,
                block_time=1,
                final_block=5,
                head_block=9,
                lake_block=3,
                halted="a reorg past finality",
                lag_seconds=30,
            )
        ]

    def counts_by_status(self, _divergences: Sequence[DivergenceRecord]) -> dict[Status, int]:
        return {Status.STALLED: 2}

    def divergences(self) -> list[DivergenceRecord]:
        silent = DivergenceRecord(
            kind="SILENT",
            message_id=bytes(32),
            source_chain=ALPHA,
            destination_chain=BETA,
            evidence="",
            severity="medium",
            next_action="",
        )
        return [silent, replace(silent, kind="NEVER_SENT", severity="low")]


def answers(method: str, _params: list[object]) -> Answer:
    header = {"number": "0x64", "hash": "0x" + "01" * 32, "parentHash": "0x" + "02" * 32}
    if method == "eth_getBlockByNumber":
        return {"result": {**header, "timestamp": hex(NOW - 5)}}
    return {"result": "0x2a"}


@pytest.fixture
async def servers() -> AsyncIterator[list[RpcServer]]:
    started = [await RpcServer(answers, chain_id=chain_id).start() for chain_id in (ALPHA, BETA)]
    yield started
    for server in started:
        await server.stop()


@pytest.fixture
async def chains(servers: list[RpcServer]) -> AsyncIterator[dict[int, EvmChain]]:
    opened = {
        server.chain_id: await EvmChain.connect(server.chain_id, [server.url], try_seconds=0.2) for server in servers
    }
    yield opened
    for chain in opened.values():
        await chain.close()


def fill(store: Store) -> None:
    """Four messages over Axelar: one delivered, one dead, one that failed, one untouched; and all else that can be counted."""
    now = NOW
    store.observations.record(observed_range(*map(message, (1, 2, 3, 4)), gmps=(Gmp.AXELAR,), now=now - 50))
    claims = [
        entry.current_claim
        for entry in store.outbox.claim(
            worker="w", destination_chain=BETA, gmps={Gmp.AXELAR}, limit=3, now=now - 40, lease=30
        )
    ]
    failure = Failure(at=now - 37, kind=FailureKind.TRANSIENT, code="NotAttestedError", message="no proof")
    store.outbox.finish(
        [
            Delivered(claims[0], ObservedDelivery(block(9), word("delivery"))),
            Dead(claims[1], replace(failure, letter=True)),
            TryAgain(claims[2], failure, now + 60),
        ],
        now - 38,
    )
    store.spending.note_blocked(
        Blocked("it", message(3).id, Lane(ALPHA, BETA), Bound.MESSAGE, "too dear", now - 60, now - 1)
    )
    call = Call(to=ACCOUNT, data=b"", value=5, gas=100)
    slots = store.transactions.reserve(
        BETA,
        ACCOUNT,
        [SlotRequest(claims[0].event_id, call, spent_for=SpentFor.of(message(1))), SlotRequest("stuck", call)],
        first_nonce=0,
        now=now - 39,
    )
    for slot in slots:
        assert slot is not None
        version = SignedVersion(
            hash=word(slot.named_keys), raw=b"", fees=Fees(20 * GWEI, 2), signed_at=now, is_noop=False
        )
        store.transactions.sign(slot.slot_id, version, replaces=None)
    assert slots[0] is not None
    store.transactions.include([(slots[0].slot_id, Inclusion(word(slots[0].named_keys), block(9), succeeded=False))])
    store.observations.record(
        observed_range(
            message(5, kind=Kind.STATE_SYNC),
            previous=block(10),
            position=block(11),
            gmps=(Gmp.HYPERLANE,),
            now=now - 400,
        )
    )
    store.finality_records.collect(FOLLOWED, 0)
    (waiting,) = store.jobs.listed(SyncJob, UNRESOLVED, 100)
    store.jobs.save(replace(waiting, state=SyncState.DIVERGED), fence=0)
    for lane, progress in store.finality_records.progress(now - 7).items():
        store.finality_records.beat(Heartbeat(lane=lane, at=now - 7, progress=progress))
    store.counters.add(
        {
            (Counted.COMMIT, (BETA, "success")): 3,
            (Counted.UNRECOGNISED, (BETA,)): 6,
        }
    )
    held = LaneChange(lane=Lane(BETA, ALPHA), state=LaneState.PAUSED, reason="upgrade", by="ann", at=now)
    store.lanes.change(held)
    store.jobs.copy_requests([retry_request(number, message(number)) for number in (1, 2, 3)], 3, now)
    _, impossible, postponed = store.jobs.due(RetryJob, now, 3)
    store.jobs.save(impossible.settled(RetryState.IMPOSSIBLE, "not retriable", now), fence=impossible.fence)
    store.jobs.save(postponed.reschedule("tomorrow", now), fence=postponed.fence)


def exposed(text: bytes) -> Exposed:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def value(found: Exposed, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def letters_of(store: Store) -> DeadLetterLog:
    """One letter that waits for a decision, for the delivery that died."""
    log = memory_dead_letters()
    (dead,) = store.outbox.listed(state=OutboxState.DEAD)
    log.append(entered(dead.event_id, sourceChainId=ALPHA, destinationChainId=BETA, gmp="axelar"), SEAL)
    return log


def monitor(
    store: Store,
    chains: dict[int, EvmChain],
    home: Path,
    dead_letters: DeadLetterLog | None = None,
    *,
    streams: Streams | None = None,
) -> Monitor:
    settings = Settings.load(
        asset_classes={"regulatory": {"members": {"alpha": [ACCOUNT]}}},
        paused_gmps="wormhole",
        spending={"lane_per_day": 9_000},
        store="sqlite:///bridge.db",
    )
    return Monitor(
        write_network(home),
        chains,
        store,
        StillClock(NOW),
        settings,
        dead_letters=dead_letters or letters_of(store),
        streams=streams,
        accounts=[ACCOUNT],
        index=cast(IndexSource, Index),
    )


async def test_decided_letter_stays_counted(chains: dict[int, EvmChain], tmp_path: Path) -> None:
    log, store = memory_dead_letters(), memory_store()
    drafts = [
        entered("one", gmp="axelar"),
        happened("one", RecordKind.DECIDED, 1, decisionType=Decision.REQUEUE),
        happened("one", RecordKind.RETURNED, 2),
        happened("one", RecordKind.DECIDED, 3, decisionType=Decision.ABANDON),
    ]
    counted = []
    for draft in drafts:
        log.append(draft, SEAL)
        found = exposed(await monitor(store, chains, tmp_path, dead_letters=log).exposition())
        names = ("waybill_dead_letters", "waybill_dead_letters_entered_total")
        counted.append(tuple(value(found, name, **LANE, gmp="axelar") for name in names))
    assert counted == [(1, 1), (0, 1), (1, 2), (0, 2)]


async def test_metrics_equal_store_and_chains_after_a_restart(chains: dict[int, EvmChain], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bridge.db"
    store = open_store(url)
    fill(store)
    store.close()
    store = open_store(url)
    found = exposed(await monitor(store, chains, tmp_path).exposition())
    store.close()
    axelar = {**LANE, "gmp": "axelar"}
    for state, count in (("PENDING", 2), ("CLAIMED", 0), ("DELIVERED", 1), ("DEAD", 1)):
        assert value(found, "waybill_outbox_entries", **axelar, state=state) == count
    expected = {"lag_messages": 2, "observed_total": 4, "deliveries_total": 1, "dead_letters": 1}
    expected |= {"delivery_seconds_count": 1, "delivery_retries_total": 1}
    assert {name: value(found, f"waybill_{name}", **axelar) for name in expected} == expected
    assert value(found, "waybill_outbox_oldest_seconds", **axelar) == 50
    assert value(found, "waybill_delivery_seconds_bucket", **axelar, le="30.0") == 1
    assert value(found, "waybill_delivery_seconds_bucket", **axelar, le="5.0") == 0
    labels = {**axelar, "kind": "TRANSIENT", "code": "NotAttestedError"}
    assert value(found, "waybill_delivery_failures_total", **labels) == 2
    account = {"chain": "beta", "account": ACCOUNT}
    assert value(found, "waybill_nonce_oldest_open_seconds", **account) == 39
    assert value(found, "waybill_account_balance_wei", **account) == 42
    assert value(found, "waybill_spend_reserved_wei", **LANE, chain="beta") == (100 * 20 + 1) * GWEI
    assert value(found, "waybill_spend_limit_wei", **LANE, chain="beta") == 9_000
    assert value(found, "waybill_spend_blocked", **LANE, bound="spending.message") == 1
    assert value(found, "waybill_lane_held", source="beta", destination="alpha", state="PAUSED") == 1
    assert value(found, "waybill_sync_lag_seconds", **LANE) == 400
    states = {state: value(found, "waybill_sync_messages", **LANE, state=state) for state in ("PENDING", "DIVERGED")}
    assert states == {"PENDING": 0, "DIVERGED": 1}
    assert value(found, "waybill_chain_read_lag_blocks", chain="alpha") == 89
    assert value(found, "waybill_chain_head_age_seconds", chain="alpha") == 5
    assert value(found, "waybill_index_lag_seconds", chain="alpha") == 30
    assert value(found, "waybill_dead_letters_entered_total", **axelar) == 1
    assert value(found, "waybill_commits_total", destination="beta", result="success") == 3
    assert value(found, "waybill_commits_total", destination="beta", result="failure") == 0
    assert value(found, "waybill_unrecognised_dispatches_total", chain="beta") == 6
    assert value(found, "waybill_unrecognised_dispatches_total", chain="alpha") == 0
    assert value(found, "waybill_messages", status="STALLED") == 2
    severities = {name: value(found, "waybill_divergences", severity=name) for name in ("critical", "high", "medium")}
    assert severities == {"critical": 0, "high": 0, "medium": 1}, "time explains an absence"
    assert ("waybill_divergences", frozenset({("severity", "low")})) not in found, "any stranger can cause it"


async def test_retries_and_breakers_are_exposed(chains: dict[int, EvmChain], tmp_path: Path) -> None:
    now, silent = NOW, Failure(at=0, kind=FailureKind.TRANSIENT, code="NotAttestedError", message="no proof")
    with closing(open_store(f"sqlite:///{tmp_path}/bridge.db")) as store:
        fill(store)
        wormhole = map(message, range(10, 20))
        store.observations.record(
            observed_range(*wormhole, previous=block(11), position=block(12), gmps=(Gmp.WORMHOLE,), now=now)
        )
        found = store.outbox.claim(worker="w", destination_chain=BETA, gmps={Gmp.WORMHOLE}, limit=10, now=now, lease=30)
        failed = [TryAgain(entry.current_claim, replace(silent, at=now), now + 60) for entry in found]
        store.outbox.finish(failed, now)
        shown = exposed(await monitor(store, chains, tmp_path).exposition())
    assert {state: value(shown, "waybill_retry_requests", state=state) for state in ("OPEN", "IMPOSSIBLE")} == {
        "OPEN": 2,
        "IMPOSSIBLE": 1,
    }
    breakers = {
        gmp: value(shown, "waybill_breaker_open", gmp=gmp, destination="beta") for gmp in ("axelar", "wormhole")
    }
    assert breakers == {"axelar": 0, "wormhole": 1}
    assert value(shown, "waybill_index_halted", chain="alpha") == 1
    assert value(shown, "waybill_dedup_capacity_messages") == 5_000_000
    assert value(shown, "waybill_dedup_messages") == 15


async def test_a_delivery_that_is_set_back_again_and_again_is_stuck(
    chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    now, silent = NOW, Failure(at=0, kind=FailureKind.UNANSWERED, code="UnansweredError", message="no answer")
    with closing(open_store(f"sqlite:///{tmp_path}/bridge.db")) as store:
        store.observations.record(observed_range(message(1), message(2), gmps=(Gmp.AXELAR,), now=now - 50))
        (dead,) = store.outbox.claim(worker="w", destination_chain=BETA, gmps={Gmp.AXELAR}, limit=1, now=now, lease=30)
        store.outbox.finish([Dead(dead.current_claim, silent)], now)
        for setbacks, stuck in ((STUCK_AFTER - 1, 0), (1, 1)):
            for _ in range(setbacks):
                (entry,) = store.outbox.claim(
                    worker="w", destination_chain=BETA, gmps={Gmp.AXELAR}, limit=1, now=now, lease=30
                )
                store.outbox.finish([TryAgain(entry.current_claim, silent, now)], now)
            found = exposed(await monitor(store, chains, tmp_path).exposition())
            assert value(found, "waybill_outbox_stuck_entries", **LANE, gmp="axelar") == stuck


async def test_streams_that_wait_were_sent_and_have_halted_are_counted(
    chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    with closing(open_store(f"sqlite:///{tmp_path}/bridge.db")) as store:
        watching = partial(monitor, store, chains, tmp_path, memory_dead_letters(), streams=store.streams)
        assert b"waybill_stream" not in await watching().exposition()
        store.streams.start()
        store.observations.record(observed_range(message()))
        first = store.streams.claim("worker", now=NOW, lease=30, limit=1) or []
        store.streams.sent(first[0].version)
        store.streams.count_refused()
        store.streams.halt("the topic is gone")
        found, oldest = exposed(await watching().exposition()), store.streams.status().oldest
    assert value(found, "waybill_stream_waiting_records") == 2
    assert oldest is not None
    assert value(found, "waybill_stream_oldest_seconds") == NOW - oldest
    assert value(found, "waybill_stream_records_total", stream="messages") == 1
    assert value(found, "waybill_stream_records_total", stream="refused") == 1
    assert value(found, "waybill_stream_halted") == 1


async def test_every_metric_of_the_catalogue_is_exposed_and_no_other(
    chains: dict[int, EvmChain], servers: list[RpcServer], tmp_path: Path
) -> None:
    store = memory_store()
    fill(store)
    store.accusations.note_look(1.0)
    with closing(open_store(f"sqlite:///{tmp_path}/bridge.db")) as recording:
        recording.streams.start()
        watching = monitor(store, chains, tmp_path, streams=recording.streams)
        samples = await watching.samples()
        await servers[0].stop()
        names = {family.name for family in samples.collect()} | {
            family.name for family in (await watching.samples()).collect()
        }
    expected = {metric.name.removesuffix("_total") for metric in METRICS}
    assert names == expected


async def test_a_chain_that_is_down_hides_no_other_number(
    chains: dict[int, EvmChain], servers: list[RpcServer], tmp_path: Path
) -> None:
    store = memory_store()
    fill(store)
    await servers[1].stop()
    watching = monitor(store, chains, tmp_path)
    found = exposed(await watching.exposition())
    assert value(found, "waybill_chain_up", chain="alpha") == 1
    assert value(found, "waybill_chain_up", chain="beta") == 0
    assert value(found, "waybill_scrape_problem", part="beta") == 1
    assert value(found, "waybill_endpoint_up", chain="beta", endpoint=servers[1].url) == 0
    assert value(found, "waybill_lag_messages", **LANE, gmp="axelar") == 2


async def test_dead_letters_that_are_away_hide_no_other_number(chains: dict[int, EvmChain], tmp_path: Path) -> None:
    store = memory_store()
    fill(store)
    away = tmp_path / "letters.db"
    away.write_text("this is no database")
    found = exposed(await monitor(store, chains, tmp_path, open_dead_letters(f"sqlite:///{away}")).exposition())
    assert value(found, "waybill_scrape_problem", part="dead letters") == 1
    assert value(found, "waybill_lag_messages", **LANE, gmp="axelar") == 2
    assert "waybill_dead_letters" not in {name for name, _ in found}
