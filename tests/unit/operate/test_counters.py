"""Counters never fall: a day of traffic with retention, restarts, takeovers, replays and reorgs, judged by Prometheus itself."""

from __future__ import annotations

import random
import subprocess
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from bridge.evm.chain import EvmChain
from bridge.metrics import METRICS, MetricType, Monitor
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, Fees
from bridge.records.figures import Counted
from bridge.records.observations import BlockRef
from bridge.records.outbox import Dead, Delivered, ObservedDelivery, OutboxEntry, OutboxState, TryAgain
from bridge.records.transactions import Inclusion, SignedVersion, SlotRequest
from bridge.service.settings import Settings
from bridge.store import Store, open_store
from scripts.debian import find_program
from tests.builders import ALPHA, BETA, block, message, observed_range, word
from tests.support.stores import memory_dead_letters
from tests.unit.cli.network import write_network
from tests.unit.dead_letters.world import StillClock
from tests.unit.evm.rpc_server import RpcServer
from tests.unit.operate.test_metrics import answers

ROOT = Path(__file__).resolve().parents[3]
ACCOUNT = "0x" + "aa" * 20
STEP, STEPS = 600, 144  # seconds between scrapes, and scrapes in a day
RETENTION = 3600  # seconds
_COUNTERS = {metric.name for metric in METRICS if metric.type is MetricType.COUNTER}


class Day:
    """Traffic from alpha to beta over Axelar, and what of it happened since the first scrape."""

    def __init__(self, url: str, clock: StillClock) -> None:
        self.url, self.clock = url, clock
        self.store: Store = open_store(url)
        self.happened: dict[str, int] = defaultdict(int)
        self._random = random.Random(7)
        self._nonce = self._height = 0
        self._previous: BlockRef | None = None

    def passes(self, step: int) -> None:
        """Ten minutes."""
        self._observe(3)
        if step % 40 == 17:
            self._reorganise()
        for entry in self._claim(f"worker {step}", 4):
            self._end(entry)
        if step % 25 == 3:  # a worker dies with its claims, and another one takes them over
            lost = self._claim("dies", 2)
            self.clock.time += 31
            self._claim("takes over", 0)
            self.happened["failures"] += len(lost)
            self.happened["retries"] += len(lost)
        if step % 30 == 5:
            self._replay()
        if step % 20 == 9:
            self.store.close()
            self.store = open_store(self.url)
        self.store.outbox.forget(self.clock.now() - RETENTION, 1000)
        self.store.counters.add({(Counted.COMMIT, (BETA, "success")): 2})
        self.happened["commits"] += 2

    def _observe(self, count: int) -> None:
        sent = [message(self._nonce + number) for number in range(1, count + 1)]
        self._nonce += count
        self._height += 1
        position = block(self._height)
        self.store.observations.record(
            observed_range(*sent, previous=self._previous, position=position, gmps=(Gmp.AXELAR,), now=self.clock.now())
        )
        self._previous = position
        self.happened["observed"] += count

    def _reorganise(self) -> None:
        """The last block falls, with what no worker has claimed of it, and comes back."""
        fallen = self.store.observations.rewind(ALPHA, block(self._height - 1), self.clock.now())
        assert fallen.dropped > 0
        self._height -= 1
        self._nonce -= 3
        self._previous = block(self._height)
        self._observe(3)

    def _claim(self, worker: str, limit: int) -> list[OutboxEntry]:
        return self.store.outbox.claim(
            worker=worker, destination_chain=BETA, gmps={Gmp.AXELAR}, limit=limit, now=self.clock.now(), lease=30
        )

    def _end(self, entry: OutboxEntry) -> None:
        now = self.clock.now() + self._random.uniform(1, 20)
        if self._random.random() < 0.25:
            failure = Failure(at=now, kind=FailureKind.TRANSIENT, code="NotAttestedError", message="no proof")
            dies = self._random.random() < 0.2
            self.store.outbox.finish(
                [
                    Dead(entry.current_claim, replace(failure, letter=True))
                    if dies
                    else TryAgain(entry.current_claim, failure, now)
                ],
                now,
            )
            self.happened["failures"] += 1
            self.happened["retries"] += not dies
            return
        self._use_a_nonce(entry, now)
        self.store.outbox.finish([Delivered(entry.current_claim, ObservedDelivery(block(9), word("delivery")))], now)
        self.store.outbox.confirm([entry.event_id], now)
        self.happened["deliveries"] += 1

    def _use_a_nonce(self, entry: OutboxEntry, now: float) -> None:
        ledger, call = self.store.transactions, Call(to=ACCOUNT, data=b"", gas=100)
        (slot,) = ledger.reserve(BETA, ACCOUNT, [SlotRequest(entry.event_id, call)], first_nonce=0, now=now)
        assert slot is not None
        key = word(f"{entry.event_id}/{slot.nonce}")
        version = SignedVersion(hash=key, raw=b"", fees=Fees(20, 2), signed_at=now, is_noop=False)
        ledger.sign(slot.slot_id, version, replaces=None)
        for _ in range(2 if self._random.random() < 0.1 else 1):  # a reorg takes it out of its block, now and then
            if ledger.slot(slot.slot_id).included is not None:
                ledger.orphan(slot.slot_id)
            ledger.include([(slot.slot_id, Inclusion(key, block(9), succeeded=True))])
            self.happened["transactions"] += 1

    def _replay(self) -> None:
        for entry in self.store.outbox.listed(state=OutboxState.DELIVERED, limit=2):
            self.store.outbox.replay(entry.event_id, "an operator asks for it", self.clock.now())


@pytest.fixture
async def chains() -> AsyncIterator[dict[int, EvmChain]]:
    servers = [await RpcServer(answers, chain_id=chain_id).start() for chain_id in (ALPHA, BETA)]
    opened = {
        server.chain_id: await EvmChain.connect(server.chain_id, [server.url], try_seconds=0.2) for server in servers
    }
    yield opened
    for chain in opened.values():
        await chain.close()
    for server in servers:
        await server.stop()


def counters(exposition: bytes) -> dict[str, float]:
    """By series, what each counter is at; histograms as well."""
    return {
        f"{sample.name}{{{','.join(f'{name}={value!r}' for name, value in sorted(sample.labels.items()))}}}": sample.value
        for family in text_string_to_metric_families(exposition.decode())
        for sample in family.samples
        if sample.name in _COUNTERS or sample.name.startswith("waybill_delivery_seconds")
    }


@pytest.mark.long
async def test_after_a_day_with_retention_prometheus_sees_no_reset_and_the_true_increase(
    chains: dict[int, EvmChain], tmp_path: Path
) -> None:
    clock = StillClock(1_700_000_000.0)
    day = Day(f"sqlite:///{tmp_path}/bridge.db", clock)
    deployment, settings = write_network(tmp_path), Settings.load(store=day.url)
    series: defaultdict[str, list[float]] = defaultdict(list)
    with closing(day.store):
        for step in range(STEPS):
            clock.time += STEP
            day.passes(step)
            watching = Monitor(
                deployment, chains, day.store, clock, settings, dead_letters=memory_dead_letters(), accounts=()
            )
            for name, value in counters(await watching.exposition()).items():
                series[name].append(value)
            if step == 0:
                day.happened.clear()
        kept = sum(count.count for count in day.store.outbox.counts())
    assert kept < sum(value for name, (*_, value) in series.items() if name.startswith("waybill_observed")) / 2
    queue = '{source="alpha",destination="beta",gmp="axelar"}'
    expected = {
        f"waybill_observed_total{queue}": day.happened["observed"],
        f"waybill_deliveries_total{queue}": day.happened["deliveries"],
        f"waybill_delivery_seconds_count{queue}": day.happened["deliveries"],
        f"waybill_delivery_failures_total{queue}": day.happened["failures"],
        f"waybill_delivery_retries_total{queue}": day.happened["retries"],
        'waybill_transactions_total{chain="beta"}': day.happened["transactions"],
        'waybill_commits_total{destination="beta",result="success"}': day.happened["commits"],
    }
    prometheus(tmp_path, series, expected)


def prometheus(home: Path, series: dict[str, list[float]], expected: dict[str, int]) -> None:
    """Has promtool evaluate `resets` and `increase` over the day, and the alert on failures at every hour."""
    longest = max(map(len, series.values()))
    padded = {
        name: ["_"] * (longest - len(values)) + [f"{value:g}" for value in values] for name, values in series.items()
    }
    end = f"{(longest - 1) * STEP}s"
    tests = [
        {"expr": f"sum(resets({name}[1d]))", "eval_time": end, "exp_samples": [{"value": 0, "labels": "{}"}]}
        for name in sorted({name.partition("{")[0] for name in series})
    ]
    for selector, truth in expected.items():
        close = f"abs(sum(increase({selector}[1d])) / {truth} - 1) < bool 0.02"  # it extrapolates
        tests.append({"expr": close, "eval_time": end, "exp_samples": [{"value": 1, "labels": "{}"}]})
    (home / "alerts.yml").write_text((ROOT / "ops" / "alerts.yml").read_text())
    (home / "day.test.yml").write_text(
        yaml.safe_dump(
            {
                "rule_files": ["alerts.yml"],
                "evaluation_interval": "10m",
                "tests": [
                    {
                        "interval": f"{STEP}s",
                        "input_series": [
                            {"series": name.replace("'", '"'), "values": " ".join(values)}
                            for name, values in padded.items()
                        ],
                        "promql_expr_test": tests,
                        "alert_rule_test": [
                            {"alertname": "WaybillDeliveriesFail", "eval_time": f"{hour}h", "exp_alerts": []}
                            for hour in range(1, 24)
                        ],
                    }
                ],
            }
        )
    )
    done = subprocess.run(
        [find_program("promtool", "prometheus", with_dependencies=False), "test", "rules", home / "day.test.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
