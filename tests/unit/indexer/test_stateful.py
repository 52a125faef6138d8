"""Spark's state asks for the retries that the store's tick asks for, row by row, whatever happens on the chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester
from sqlalchemy import delete, text, update

from bridge.protocol.message import Kind, Message
from indexer.jobs import stateful
from indexer.jobs.stateful import bucket_of, check_stateful, known_state
from indexer.jobs.stateful_task import INPUT, LOOK_AGAIN, Overdue
from indexer.model import schemas
from indexer.model.errors import IndexerError, SettingsError
from indexer.model.settings import IndexFolder, IndexSettings, StallPolicy
from indexer.model.storage_location import StorageLocation
from indexer.store import tables
from indexer.store.limits import set_limits
from indexer.store.retries import arguments_of, overdue, request_retries
from indexer.store.store import Store
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.stories import change, fork_of, happening
from tests.unit.indexer.world import (
    START,
    SimulatedChain,
    contents,
    executed,
    new_world,
    received,
    routed,
    sent_message,
)

POLICY = StallPolicy(
    stall_after=100,
    max_lag=200,
    max_message_retries=3,
    requests_per_lane_minute=3,
    by_kind={Kind.STATE_SYNC: 60},
    by_lane={(BETA, ALPHA): 150},
)
BUCKETS = 2

REQUESTS = (tables.retry_requests, tables.retry_gmps)


class Both:
    """Two chains, a store with the tick, and a store to which the state says which messages are overdue."""

    def __init__(self) -> None:
        self.chains = new_world()
        self.known: list[list[bytes]] = [[], []]
        self.now = START
        self.ticking, self.told = Store("sqlite://"), Store("sqlite://")
        for store in (self.ticking, self.told):
            with store.engine.begin() as connection:
                first = tables.facts.c.name == "first_sequence"
                connection.execute(update(tables.facts).where(first).values(value=1))
        self.start()

    def close(self) -> None:
        self.ticking.close()
        self.told.close()

    def start(self) -> None:
        """The state is made new, as at the start of an index."""
        known = known_state(self.told.engine, BUCKETS).to_pylist()
        self.buckets = [
            TwsTester(
                Overdue(POLICY), initialStateRow=[(bucket, Row(**row)) for row in known if row["bucket"] == bucket]
            )
            for bucket in range(BUCKETS)
        ]

    def read(self, *sides: int) -> set[tuple[Any, ...]]:
        """A micro-batch with what is new on these chains; gives what the state says."""
        batch: list[Mapping[str, Any]] = []
        for side in sides:
            chain = self.chains[side]
            first, final = max(0, fork_of(chain, self.known[side]) + 1), max(-1, chain.head - 8)
            events = chain.events(first, chain.head)
            for store in (self.ticking, self.told):
                store.apply(events, {chain.chain_id: chain.range(first, final=final)})
            batch += events.to_pylist()
            batch.append(
                {
                    "chain_id": chain.chain_id,
                    "block_number": chain.head,
                    "block_time": chain.blocks[-1].time,
                    "range_first": first,
                    "final_block": final,
                    "message_id": None,
                }
            )
            self.known[side] = [block.hash for block in chain.blocks]
        found = []
        for bucket, tester in enumerate(self.buckets):
            rows = [
                row for row in batch if row["message_id"] is None or bucket_of(row["message_id"], BUCKETS) == bucket
            ]
            found += tester.test(bucket, [as_row(row, self.now) for row in rows])
        said = {tuple(row[name] for name in schemas.OVERDUE.names) for row in found}
        assert len(said) == len(found)
        return said

    def expected(self) -> set[tuple[Any, ...]]:
        """What the store's own query finds overdue, requests that stand left out of account."""
        set_limits(self.ticking.engine, POLICY)
        with self.ticking.engine.connect() as connection, connection.begin() as transaction:
            connection.execute(delete(tables.retry_requests))
            rows = connection.execute(text(overdue()), arguments_of(POLICY, self.now)).mappings().all()
            transaction.rollback()
        return {
            (
                row["message_id"],
                row["source_chain"],
                row["destination_chain"],
                row["attempts"] + 1,
                row["deadline"],
            )
            for row in rows
        }

    def request(self, said: set[tuple[Any, ...]]) -> int:
        """Each store writes its requests, which must be the same; how many there are now."""
        set_limits(self.told.engine, POLICY)
        request_retries(self.ticking.engine, POLICY, self.now)
        request_retries(self.told.engine, POLICY, self.now, [row[0] for row in said])
        ours, theirs = contents(self.told, *REQUESTS), contents(self.ticking, *REQUESTS)
        assert ours == theirs
        return len(ours["retry_requests"])


def as_row(values: Mapping[str, Any], now: int) -> Row:
    return Row(**{name: values.get(name) for name in INPUT} | {"now": now})


def drawn_messages(random: Random) -> list[Message]:
    return [
        sent_message(
            nonce,
            quorum=random.randrange(1, 4),
            ttl=random.choice((0, 0, 300, 900)),
            kind=random.choice((Kind.PLAIN, Kind.STATE_SYNC, Kind.HEARTBEAT)),
        )
        for nonce in range(1, 13)
    ]


def play(seed: int) -> int:
    """A history whose second half one chain sits out; how many requests it gave rise to."""
    random, both = Random(seed), Both()
    messages = drawn_messages(random)
    for chain in both.chains:
        chain.mine(*[routed(one) for one in messages[::2] if one.source_chain == chain.chain_id], time=both.now)
    requests, halted, steps = 0, random.randrange(2), 16
    try:
        for step in range(steps):
            sides = [side for side in (0, 1) if step < steps // 2 or side != halted]
            both.now += random.choice((5, 20, 60, 90))
            for side in sides:
                grow(both.chains[side], random, side, messages, both.now)
            if random.random() < 0.15:
                both.start()
            said = both.read(*sides)
            assert said == both.expected(), f"seed {seed}, step {step}"
            requests = both.request(said)
    finally:
        both.close()
    return requests


def grow(chain: SimulatedChain, random: Random, side: int, messages: Sequence[Message], now: int) -> None:
    """New blocks, some in place of others, with whatever may happen in them."""
    depth = random.choice((0, 0, 0, 0, 1, 3))
    if depth:
        chain.branch += 1
        del chain.blocks[max(1, len(chain.blocks) - depth) :]
    for _ in range(depth + random.randrange(2)):
        events = [happening(side, messages, random.randint) for _ in range(random.randrange(3))]
        if random.random() < 0.2:
            events.append(change(messages, random.randint))
        chain.mine(*events, time=now)
    chain.mine(time=now)


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_the_state_finds_overdue_what_the_tick_does_in_twenty_histories_with_one_chain_halted(first: int) -> None:
    assert sum(play(seed) for seed in range(first, first + 5)) > 0


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_the_state_finds_overdue_what_the_tick_does_in_a_thousand_histories_with_one_chain_halted() -> None:
    assert sum(play(seed) for seed in range(20, 1_020)) > 1_000


def settings_in(folder: Path, **changes: Any) -> IndexSettings:
    return IndexSettings(folder=IndexFolder(path=folder), stateful=True, **changes)


def test_a_missing_package_is_named_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_stateful(settings_in(tmp_path), None)
    monkeypatch.setattr(stateful, "_PACKAGES", {"protobuf": "google.no_protobuf", "pandas": "no_pandas.at_all"})
    with pytest.raises(IndexerError, match=r"needs protobuf and pandas.*pip install 'waybill\[stateful\]'"):
        check_stateful(settings_in(tmp_path), None)


def test_a_state_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("a file where the folder would be")
    with pytest.raises(IndexerError, match=r"checkpoint: .*run without --stateful"):
        check_stateful(settings_in(tmp_path), None)


def test_learned_deadlines_do_not_go_with_a_state(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--learn-deadlines"):
        check_stateful(settings_in(tmp_path, stall=replace(POLICY, learn=True)), None)


@pytest.mark.parametrize("lake", [None, "s3://lake/mainnet"])
def test_on_a_cluster_the_state_needs_a_folder_that_executors_reach(tmp_path: Path, lake: str | None) -> None:
    shared = None if lake is None else StorageLocation.of(lake)
    folder = IndexFolder(path=tmp_path, shared_lake=shared)
    with pytest.raises(SettingsError, match="index_lake"):
        check_stateful(IndexSettings(folder=folder, stateful=True), "spark://master:7077")
    reached = IndexFolder(path=tmp_path, shared_lake=StorageLocation.of(tmp_path / "lake"))
    check_stateful(IndexSettings(folder=reached, stateful=True), "spark://master:7077")
    assert reached.state == tmp_path / "lake" / "state"


def test_a_message_that_has_ended_for_good_is_forgotten() -> None:
    both = Both()
    try:
        sent = sent_message(quorum=1)
        both.chains[0].mine(routed(sent), time=both.now)
        both.chains[1].mine(received(sent, 1), executed(sent), time=both.now)
        both.read(0, 1)
        tester, bucket = both.buckets[bucket_of(sent.id, BUCKETS)], bucket_of(sent.id, BUCKETS)
        assert tester.peekMapState("events", bucket).keys() == {(sent.id[-1],)}
        both.now += LOOK_AGAIN
        for chain in both.chains:
            for _ in range(10):
                chain.mine(time=both.now)
        both.read(0, 1)
        assert tester.peekMapState("events", bucket) == {}
        assert tester.peekMapState("timers", bucket) == {}
    finally:
        both.close()
