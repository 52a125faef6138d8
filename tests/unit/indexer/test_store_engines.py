"""The index's store in SQLite and in PostgreSQL: the same story gives the same tables, and the same answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, delete, text

from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import MessageFilter
from bridge.protocol.status import Status
from bridge.store.index_requests import IndexRequests
from indexer.model.errors import IndexerError, StoreVersionError
from indexer.model.settings import StallPolicy
from indexer.store import tables
from indexer.store.browser import IndexBrowser
from indexer.store.engine import reading_engine
from indexer.store.limits import set_limits
from indexer.store.retries import request_retries
from indexer.store.store import Store
from tests.postgresql import Server
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.stories import fork_of
from tests.unit.indexer.test_store_apply import MESSAGES, steps
from tests.unit.indexer.world import (
    START,
    SimulatedChain,
    apply,
    contents,
    forget_ended,
    new_world,
    routed,
    sent_message,
)

pytestmark = pytest.mark.long

POLICY = StallPolicy(stall_after=2, max_lag=1_000, max_message_retries=3, silence_after=5)


class Pair:
    """A store of each kind, to both of which the same is told."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = urls
        self.stores = [Store(url) for url in urls]
        self.empty()

    def empty(self) -> None:
        self.chains = new_world()
        self.known: list[list[bytes]] = [[], []]
        for store in self.stores:
            with store.engine.begin() as connection:
                for table in reversed(tables.metadata.sorted_tables):
                    connection.execute(delete(table))
                facts = {"schema_version": tables.SCHEMA_VERSION, "first_sequence": 1}
                for name, value in facts.items():
                    connection.execute(tables.facts.insert().values(name=name, value=value))

    @property
    def now(self) -> int:
        return max(chain.blocks[-1].time for chain in self.chains)

    def read(self, side: int, *, replayed: int = 0, left_out: int = 0) -> None:
        chain = self.chains[side]
        fork = fork_of(chain, self.known[side])
        first = max(0, fork + 1 - replayed)
        last = max(first - 1, chain.head - left_out, fork)
        if last >= 0:
            for store in self.stores:
                apply(store, chain, first, last, final=max(-1, last - 6))
            self.known[side] = [block.hash for block in chain.blocks[: last + 1]]

    def look_after(self, *, pruned: bool) -> None:
        """What the running index does now and then."""
        did = []
        for store in self.stores:
            set_limits(store.engine, POLICY)
            written = request_retries(store.engine, POLICY, self.now)
            for chain in self.chains:
                store.note_lake({chain.chain_id: chain.head})
            did.append((written, forget_ended(store, self.now) if pruned else 0))
        assert did[0] == did[1]

    def check_same(self) -> None:
        both = [contents(store, *tables.metadata.sorted_tables) for store in self.stores]
        assert both[0] == both[1]
        answers = [self._answers(url) for url in self.urls]
        for first, second in zip(*answers, strict=True):
            assert first == second

    def _answers(self, url: str) -> list[Any]:
        with IndexBrowser(url, POLICY, clock=lambda: self.now) as index:
            ids = [sent.id for sent in MESSAGES]
            wanted = [
                MessageFilter(),
                MessageFilter(status=Status.STALLED),
                MessageFilter(status=Status.EXECUTED, gmp=Gmp.HYPERLANE),
            ]
            wanted += [
                MessageFilter(source_chain=ALPHA, destination_chain=BETA),
                MessageFilter(account=MESSAGES[0].sender),
            ]
            return [
                index.messages(),
                index.messages(status=Status.ORPHANED),
                [index.message(one) for one in ids],
                [index.receipts(one) for one in ids],
                [index.events(one) for one in ids],
                index.chains(),
                index.tallies(START, START + 1_500),
                index.divergences(),
                index.retry_requests(),
                index.by_status(),
                [index.page(one, limit=2) for one in wanted],
                asyncio.run(IndexRequests(url).requests_after(0, 100)),
            ]


@pytest.fixture(scope="module")
def pair(postgresql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair([f"sqlite:///{tmp_path_factory.mktemp('index')}/index.db", postgresql.new_url()])
    yield made
    for store in made.stores:
        store.close()


def play(pair: Pair, story: list[dict[str, Any]]) -> None:
    pair.empty()
    for step in story:
        pair.chains[step["side"]].reorganise(step["taken_back"], *step["mined"])
        pair.read(step["side"], replayed=step["replayed"], left_out=step["left_out"])
        pair.look_after(pruned=False)
    for side in range(2):
        pair.read(side)
    pair.check_same()
    pair.look_after(pruned=True)
    pair.check_same()


STORIES = st.lists(steps(), max_size=6)
FROM_ONE_FIXTURE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.mark.long
@settings(max_examples=100, deadline=None, suppress_health_check=FROM_ONE_FIXTURE)
@given(story=STORIES)
def test_both_engines_give_the_same_tables_in_many_stories(pair: Pair, story: list[dict[str, Any]]) -> None:
    play(pair, story)


def test_two_threads_that_write_to_postgresql_exclude_each_other(postgresql: Server) -> None:
    url = postgresql.new_url()
    store = Store(url)
    chain = SimulatedChain(ALPHA)
    chain.mine(*[routed(sent_message(number, sent_at=START)) for number in range(1, 21)])
    beta = SimulatedChain(BETA)
    for one in (chain, beta):
        one.mine(time=START + 100)
        apply(store, one)
    written: list[int] = []

    def ask() -> None:
        written.append(request_retries(store.engine, POLICY, START + 100))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    with IndexBrowser(url, POLICY) as index:
        requests = index.retry_requests()
    store.close()
    assert sum(written) == len(requests) == 20
    assert len({request.message_id for request in requests}) == 20


def test_a_reader_of_postgresql_sees_one_state_and_can_not_write(postgresql: Server) -> None:
    url = postgresql.new_url()
    store = Store(url)
    alpha, _ = new_world()
    apply(store, alpha)
    engine = reading_engine(url)
    with engine.connect() as connection:
        before = connection.execute(text("select block from chains")).scalar_one()
        alpha.mine(routed(MESSAGES[0]))
        apply(store, alpha)
        assert connection.execute(text("select block from chains")).scalar_one() == before
        with pytest.raises(Exception, match="read-only transaction"):
            connection.execute(text("delete from events"))
    engine.dispose()
    store.close()


def test_schema_with_other_tables_is_refused(postgresql: Server) -> None:
    url = postgresql.new_url()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("create table somebody_elses (id int)"))
    engine.dispose()
    with pytest.raises(IndexerError, match="schema of its own") as refused:
        Store(url.replace("waybill@", "waybill:secret@"))
    assert "secret" not in str(refused.value)


def test_a_postgresql_store_of_another_version_is_refused(postgresql: Server) -> None:
    url = postgresql.new_url()
    store = Store(url)
    with store.engine.begin() as connection:
        connection.execute(tables.facts.update().values(value=99).where(tables.facts.c.name == "schema_version"))
    store.close()
    for open_ in (Store, reading_engine):
        with pytest.raises(StoreVersionError, match="version 99"):
            open_(url)


@pytest.mark.parametrize(
    ("url", "text_"),
    [
        ("nonsense", "is not a store's URL"),
        ("mysql://host/index", "use SQLite or PostgreSQL"),
        ("postgresql://user:secret@127.0.0.1:9/index", r"postgresql://user:\*\*\*@127\.0\.0\.1:9/index can't be"),
    ],
)
def test_url_without_a_store_is_an_error(url: str, text_: str) -> None:
    for open_ in (Store, reading_engine):
        with pytest.raises(IndexerError, match=text_):
            open_(url)
