"""The index proves that it has every message: its lanes add up to the routers' own totals, or the blocks are found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from sqlalchemy import delete

from indexer.jobs.history import History
from indexer.jobs.lane_totals import Direction
from indexer.jobs.promotion import promote
from indexer.jobs.verify import Verdict, correct, last_equal, store_checks, verify
from indexer.jobs.watch import Watch
from indexer.model.settings import IndexFolder, IndexSettings, SourceLimits
from indexer.pipeline.bronze import Lake
from indexer.store import tables
from indexer.store.store import Store
from tests.unit.indexer.endpoint import Endpoint, WithRouter, reader_of
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import (
    SimulatedChain,
    apply,
    contents,
    created,
    executed,
    new_world,
    received,
    routed,
    sent_message,
    unfunded,
)

LIMITS = SourceLimits()


@dataclass
class World:
    store: Store
    lake: Lake
    alpha: SimulatedChain
    beta: SimulatedChain
    endpoints: list[WithRouter] = field(default_factory=list)

    def tell(self, messages: int) -> None:
        for nonce in range(1, messages + 1):
            sent = sent_message(nonce, quorum=1)
            if nonce % 5 == 0:
                self.alpha.mine(created(sent), unfunded(sent))
                self.alpha.mine(routed(sent))
            else:
                self.alpha.mine(created(sent), routed(sent))
            self.beta.mine(received(sent, 1), executed(sent))

    def index(self, *, in_lake: bool = True) -> None:
        for chain in (self.alpha, self.beta):
            apply(self.store, chain, final=chain.head)
        if in_lake:
            promote(self.store, self.lake, {ALPHA: 0, BETA: 0})

    def check(self, **options: Any) -> list[Any]:
        self.endpoints = [WithRouter(chain, **options) for chain in (self.alpha, self.beta)]
        readers = [reader_of(endpoint, SourceLimits()) for endpoint in self.endpoints]
        try:
            return verify(readers, History(self.store.engine, self.lake))
        finally:
            for reader in readers:
                reader.close()

    def lose(self, chain: SimulatedChain, *blocks: int) -> None:
        """Takes the events of blocks out of lake and store, as a bug or a broken disk might."""
        for number in blocks:
            if (self.lake.last_block(chain.chain_id) or -1) >= number:
                nothing = self.lake.events(chain.chain_id, number, number).slice(0, 0)
                self.lake.replace(chain.chain_id, number, number, nothing, "lost")
            place = tables.events.c
            with self.store.engine.begin() as connection:
                connection.execute(
                    delete(tables.events).where(place.chain_id == chain.chain_id, place.block_number == number)
                )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    store = Store(f"sqlite:///{tmp_path / 'index.db'}")
    yield World(store, Lake(tmp_path / "lake"), *new_world())
    store.close()


def verdicts(checks: Sequence[Any]) -> dict[tuple[int, str], str]:
    return {(check.chain_id, check.direction.value): check.verdict.value for check in checks}


ALL_EQUAL = {(chain, direction): "equal" for chain in (ALPHA, BETA) for direction in ("sent", "executed")}


@pytest.mark.parametrize("in_lake", [True, False])
def test_complete_index_equals_the_routers_totals(world: World, *, in_lake: bool) -> None:
    world.tell(12)
    world.index(in_lake=in_lake)
    checks = world.check()
    assert verdicts(checks) == ALL_EQUAL
    (sent,) = [check for check in checks if (check.chain_id, check.direction) == (ALPHA, Direction.SENT)]
    assert (sent.indexed.count, sent.block, sent.block_hash) == (12, world.alpha.head, world.alpha.blocks[-1].hash)


@pytest.mark.parametrize("pruned_below", [0, 10_000])
def test_lost_blocks_are_found_read_again_and_corrected(world: World, pruned_below: int) -> None:
    for _ in range(900):
        world.beta.mine()
    world.tell(30)
    for _ in range(900):
        world.alpha.mine()
    world.index()
    before = contents(world.store)
    world.lose(world.beta, 903, 925)
    world.lose(world.alpha, 7)
    checks = world.check(pruned_below=min(pruned_below, world.alpha.head, world.beta.head))
    assert verdicts(checks) == ALL_EQUAL | {(ALPHA, "sent"): "different", (BETA, "executed"): "different"}
    ranges = [found for check in checks for found in check.wrong]
    assert sum(found.missing for found in ranges if found.chain_id == BETA) == 4
    assert all(found.surplus == 0 for found in ranges)
    if not pruned_below:
        assert all(found.last - found.first < 200 for found in ranges)
        assert all(len(endpoint.asked) < 30 for endpoint in world.endpoints)
    for found in ranges:
        correct(world.store, world.lake, found)
    assert verdicts(world.check()) == ALL_EQUAL
    assert contents(world.store) == before
    assert world.lake.events(BETA, 0, 9_999) == world.beta.events(0, world.beta.head)


def test_a_log_that_the_lake_has_twice_shows(world: World) -> None:
    world.tell(3)
    world.index()
    once = world.lake.events(BETA, 2, 2)
    world.lake.replace(BETA, 2, 2, pa.concat_tables([once, once]), "doubled")
    checks = world.check()
    assert verdicts(checks)[BETA, "executed"] == "different"


def test_lane_without_router_state_is_unverified(world: World) -> None:
    world.tell(3)
    world.index()
    checks = world.check(pruned_below=10**9)
    assert {check.verdict for check in checks} == {Verdict.UNVERIFIED}
    assert all("missing trie node" in check.reason for check in checks)


def test_a_chain_without_a_final_block_is_unverified(world: World) -> None:
    world.tell(3)
    for chain in (world.alpha, world.beta):
        apply(world.store, chain)
    assert {check.verdict for check in world.check()} == {Verdict.UNVERIFIED}


def test_miscounting_router_is_told_from_a_lost_block(world: World) -> None:
    world.tell(3)
    world.index()
    name, values = world.beta.blocks[2].events[1]
    hidden = SimulatedChain(BETA)
    hidden.blocks = list(world.beta.blocks)
    hidden.blocks[2] = type(hidden.blocks[2])(
        hash=hidden.blocks[2].hash, time=hidden.blocks[2].time, events=(*hidden.blocks[2].events, (name, values))
    )
    world.lake = Lake(world.lake.place / "none")
    world.store.correct(BETA, 2, 2, hidden.events(2, 2))
    endpoint = WithRouter(world.beta)
    with reader_of(WithRouter(world.alpha), SourceLimits()) as alpha, reader_of(endpoint, SourceLimits()) as beta:
        checks = verify([alpha, beta], History(world.store.engine, world.lake))
    (found,) = [check for check in checks if check.verdict is Verdict.DIFFERENT]
    assert [(range_.missing, range_.surplus) for range_ in found.wrong] == [(0, 1)]


class Hiding(WithRouter):
    """Leaves the logs of block 5 out, but tells the truth of its router's state."""

    def _eth_getLogs(self, query: dict[str, Any]) -> list[dict[str, Any]]:
        return [log for log in Endpoint._eth_getLogs(self, query) if log["blockNumber"] != hex(5)]


def test_logs_that_do_not_add_up_correct_nothing(world: World) -> None:
    world.tell(12)
    world.index()
    world.lose(world.beta, 3)
    with reader_of(WithRouter(world.alpha), LIMITS) as alpha, reader_of(Hiding(world.beta), LIMITS) as beta:
        checks = verify([alpha, beta], History(world.store.engine, world.lake))
    (found,) = [check for check in checks if check.verdict is Verdict.DIFFERENT]
    assert found.wrong == ()
    assert "contain 11 messages of the lane, but its router counts 12" in found.reason
    assert "use another endpoint" in found.reason


def watch_of(world: World, monkeypatch: pytest.MonkeyPatch, *endpoints: WithRouter) -> Watch:
    by_chain = {endpoint.chain.chain_id: endpoint for endpoint in endpoints}
    monkeypatch.setattr("indexer.jobs.watch.ChainReader", lambda chain, _: reader_of(by_chain[chain.chain_id], LIMITS))
    chains = [reader_of(endpoint, LIMITS).config for endpoint in endpoints]
    settings = IndexSettings(folder=IndexFolder(path=Path(world.lake.place.root)), verify_interval=300.0)
    return Watch(chains, settings, store=world.store, lake=world.lake, clock=lambda: 7.0)


def test_watch_corrects_lost_blocks_and_notes_where_to_go_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.tell(12)
    world.index()
    before = contents(world.store)
    world.lose(world.beta, 3, 9)
    watch = watch_of(world, monkeypatch, WithRouter(world.alpha), WithRouter(world.beta))
    watch.look()
    assert contents(world.store) == before
    assert world.lake.events(BETA, 0, 99) == world.beta.events(0, world.beta.head)
    assert (BETA, (Direction.EXECUTED, ALPHA)) not in last_equal(world.store.engine)  # until it was compared again
    watch.look()
    assert {checked.block for checked in last_equal(world.store.engine).values()} == {world.alpha.head, world.beta.head}
    assert len(last_equal(world.store.engine)) == len(ALL_EQUAL)


def test_unreachable_chain_does_not_end_the_check(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.tell(3)
    world.index()
    down = WithRouter(world.beta, misbehave=lambda *_: httpx.Response(401))
    watch_of(world, monkeypatch, WithRouter(world.alpha), down).look()
    assert last_equal(world.store.engine) == {}
    watch_of(world, monkeypatch, WithRouter(world.alpha), WithRouter(world.beta)).look()
    assert len(last_equal(world.store.engine)) == len(ALL_EQUAL)


def test_next_check_begins_at_the_last_equal_block(world: World) -> None:
    world.tell(4)
    world.index()
    store_checks(world.store.engine, world.check(), 1.0)
    since = last_equal(world.store.engine)
    assert {checked.block for checked in since.values()} == {world.alpha.head, world.beta.head}
    late = sent_message(99, quorum=1)
    world.alpha.mine(created(late), routed(late))
    world.beta.mine(received(late, 1), executed(late))
    world.index()
    world.lose(world.beta, 2)  # before the base: a check from there on does not read it
    readers = [reader_of(WithRouter(chain), SourceLimits()) for chain in (world.alpha, world.beta)]
    checks = verify(readers, History(world.store.engine, world.lake), since=since)
    for reader in readers:
        reader.close()
    assert verdicts(checks) == ALL_EQUAL
    assert verdicts(world.check())[BETA, "executed"] == "different"
