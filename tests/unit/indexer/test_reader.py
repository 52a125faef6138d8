"""What the index answers, and what it says to bad input."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from bridge.protocol.status import Status
from indexer.model.errors import IndexerError, SettingsError, StoreVersionError
from indexer.model.settings import SourceLimits, StallPolicy
from indexer.store import tables
from indexer.store.reader import IndexReader
from indexer.store.retries import request_retries
from indexer.store.store import Store
from tests.cases import for_each_case
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import (
    START,
    Event,
    apply,
    cancellation_requested,
    cancelled,
    expired,
    new_world,
    received,
    routed,
    sent_message,
)

POLICY = StallPolicy(stall_after=100, max_lag=30)


class Index:
    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.store = Store(self.url)
        self.alpha, self.beta = new_world()

    def read(self, now: int = START) -> IndexReader:
        for chain in (self.alpha, self.beta):
            apply(self.store, chain)
        return IndexReader(self.url, POLICY, clock=lambda: now)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    made = Index(tmp_path / "index.db")
    yield made
    made.store.close()


def test_a_message_is_found_with_everything_that_is_known_of_it(index: Index) -> None:
    sent = sent_message(quorum=2, gas_limit=2**64 - 1, kind=Kind.QUERY)
    index.alpha.mine(routed(sent, gmps=0b11))
    index.beta.mine(received(sent, 2))
    with index.read() as reader:
        found = reader.message(sent.id)
        first, second = reader.receipts(sent.id)
    assert found is not None
    assert (found.status, found.kind, found.gas_limit) == (Status.RECEIVED, Kind.QUERY, 2**64 - 1)
    assert found.dispatched == frozenset({Gmp.HYPERLANE, Gmp.AXELAR})
    assert found.received == frozenset({Gmp.AXELAR})
    assert (found.source_time, found.retriable) == (START + 1, True)
    assert (first.gmp, first.received_block) == (1, None)
    assert (second.gmp, second.received_chain, second.received_block) == (2, BETA, 1)


def test_an_unknown_message_is_none(index: Index) -> None:
    with index.read() as reader:
        assert reader.message(bytes(32)) is None
        assert reader.receipts(bytes(32)) == []


def test_orphan_names_its_successor(index: Index) -> None:
    lost, again = sent_message(1, sent_at=START), sent_message(1, sent_at=START + 7)
    index.alpha.mine(routed(lost))
    with index.read() as reader:
        assert reader.message(lost.id) is not None
    transaction = index.alpha.logs(1, 1)[0]["transactionHash"]
    index.alpha.reorganise(1, [], [routed(again)])
    index.alpha.transactions[again.id] = transaction
    with index.read() as reader:
        orphan = reader.message(lost.id)
        assert [found.message_id for found in reader.messages(status=Status.ORPHANED)] == [lost.id]
        assert [found.message_id for found in reader.messages()] == [again.id]
    assert orphan is not None
    assert (orphan.status, orphan.replaced_by) == (Status.ORPHANED, again.id)


def test_chains_tell_how_far_they_are_and_how_late(index: Index) -> None:
    index.alpha.mine()
    index.alpha.mine()
    with index.read(now=START + 50) as reader:
        alpha, beta = reader.chains()
    assert (alpha.chain_id, alpha.block, alpha.head_block, alpha.lag_seconds, alpha.halted) == (ALPHA, 2, 2, 48, None)
    assert (beta.chain_id, beta.block, beta.lag_seconds) == (BETA, 0, 50)


def test_malformed_event_is_listed_with_its_reason(index: Index) -> None:
    sent = sent_message()
    name, values = routed(sent)
    index.alpha.mine((name, values), (name, values | {"envelope": b"short"}))
    with index.read() as reader:
        found = reader.message(sent.id)
    place = tables.events.c
    with index.store.engine.connect() as connection:
        (bad,) = connection.execute(select(place.chain_id, place.event, place.error).where(place.error.is_not(None)))
    assert tuple(bad) == (ALPHA, "MessageRouted", "the envelope has fewer than 239 bytes")
    assert found is not None
    assert found.status is Status.ROUTED


def test_readers_take_the_running_indexs_idea_of_stalled(index: Index) -> None:
    sent = sent_message()
    index.alpha.mine(routed(sent), time=START)
    for chain in (index.alpha, index.beta):
        chain.mine(time=START + 50)
    index.store.save_policy(StallPolicy(stall_after=50, max_lag=30))
    index.read().close()
    with IndexReader(index.url, clock=lambda: START + 50) as reader:
        found = reader.message(sent.id)
    assert found is not None
    assert found.status == Status.STALLED


@pytest.mark.parametrize(
    ("version", "advice"),
    [(99, rf"version 99.*reads version {tables.SCHEMA_VERSION}:"), (tables.SCHEMA_VERSION - 1, "delete it")],
)
def test_store_of_another_version_is_refused(index: Index, version: int, advice: str) -> None:
    with index.store.engine.begin() as connection:
        connection.execute(update(tables.facts).where(tables.facts.c.name == "schema_version").values(value=version))
    for opening in (Store, IndexReader):
        with pytest.raises(StoreVersionError, match=advice):
            opening(index.url)


def test_missing_store_names_the_command_that_creates_it(tmp_path: Path) -> None:
    with pytest.raises(IndexerError, match="waybill index run"):
        IndexReader(f"sqlite:///{tmp_path / 'none.db'}")
    assert not (tmp_path / "none.db").exists()


def test_a_database_of_something_else_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("create table dogs (name)")
    connection.commit()
    connection.close()
    for opening in (Store, IndexReader):
        with pytest.raises(IndexerError, match=r"other\.db"):
            opening(f"sqlite:///{path}")


def test_a_file_that_is_no_database_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("not a database, but long enough to be looked at as one" * 20)
    for opening in (Store, IndexReader):
        with pytest.raises(IndexerError, match=r"text\.db"):
            opening(f"sqlite:///{path}")


@for_each_case(
    "make",
    [
        lambda: StallPolicy(stall_after=0),
        lambda: StallPolicy(requests_per_lane_minute=-1),
        lambda: SourceLimits(hash_window=1),
        lambda: SourceLimits(poll_interval=0),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Any) -> None:
    with pytest.raises(SettingsError, match="must be"):
        make()


@pytest.mark.parametrize(("ended", "status"), [(expired, Status.EXPIRED), (cancelled, Status.CANCELLED)])
def test_ended_message_is_never_stalled(index: Index, ended: Callable[[Message], Event], status: Status) -> None:
    sent = sent_message(quorum=2, ttl=1)
    index.alpha.mine(routed(sent, gmps=0b11), *([cancellation_requested(sent)] if ended is cancelled else []))
    index.beta.mine(received(sent, 2))
    index.beta.mine(ended(sent))
    late = START + 10 * POLICY.stall_after
    for chain in (index.alpha, index.beta):
        chain.mine(time=late)
    with index.read(now=late) as reader:
        found = reader.message(sent.id)
    assert found is not None
    assert found.status is status
    assert request_retries(index.store.engine, POLICY, late) == 0
