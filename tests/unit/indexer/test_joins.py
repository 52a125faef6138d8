"""Wherever two sources of truth are joined, their hashes are compared: store, lake and chains are of one history."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select, update
from structlog.testing import capture_logs

from indexer.jobs.history import History
from indexer.jobs.promotion import promote
from indexer.jobs.repair import find_violation
from indexer.jobs.repair import repair as jobs_repair
from indexer.jobs.verify import last_equal
from indexer.model.errors import RangeGapError
from indexer.pipeline.bronze import FinalBlocks, Lake
from indexer.store import tables
from indexer.store.reader import IndexReader
from tests.unit.indexer.clock import indexed_world
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.runner import Runner, naive, naive_messages, refused
from tests.unit.indexer.world import Event, apply, created, executed, new_world, received, routed, sent_message

SENT = [sent_message(nonce, quorum=1) for nonce in range(1, 20)]


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Two chains of some final blocks with messages, not yet indexed."""
    made = Runner(tmp_path / "index", new_world()).use(monkeypatch)
    for sent in SENT[:6]:
        tell(made, [created(sent), routed(sent)], [received(sent, 1), executed(sent)])
    made.finalise()
    return made


def tell(runner: Runner, of_alpha: list[Event], of_beta: list[Event]) -> None:
    for chain, events in zip(runner.chains, (of_alpha, of_beta), strict=True):
        chain.mine(*events)


def idle(runner: Runner, blocks: int) -> None:
    for _ in range(blocks):
        tell(runner, [], [])


def stored(runner: Runner) -> tuple[list[tuple[Any, ...]], dict[bytes, tuple[Any, ...]]]:
    """What store and lake serve, in the oracle's words."""
    store = runner.opened()
    try:
        history = History(store.engine, runner.lake)
        events = [
            (chain, row["block_number"], row["log_index"], row["block_hash"], row["event"])
            for chain, position in sorted(history.positions().items())
            for row in history.events(chain, 0, position.block).to_pylist()
        ]
        receipt = tables.receipts.c
        with store.engine.connect() as connection:
            receipts = connection.scalars(select(receipt.message_id).where(receipt.received_block.is_not(None))).all()
            rows = connection.execute(select(tables.messages)).mappings().all()
        found = {
            row["message_id"]: (
                row["source_block"] is not None,
                row["attempts"] or 0,
                receipts.count(row["message_id"]),
                row["executions"],
            )
            for row in rows
        }
        return events, found
    finally:
        store.close()


def expect_the_chains_and_nothing_else(runner: Runner) -> None:
    events, messages = stored(runner)
    assert events == naive(runner.chains)
    assert messages == naive_messages(runner.chains)
    store = runner.opened()
    try:
        with store.engine.connect() as connection:
            place = tables.events.c
            of_store = connection.execute(
                select(place.chain_id, place.block_number, place.log_index, place.block_hash, place.event).order_by(
                    place.chain_id, place.block_number, place.log_index
                )
            ).all()
    finally:
        store.close()
    assert [tuple(row) for row in of_store] == naive(runner.chains)


def test_lake_with_reverted_final_blocks_is_repaired(runner: Runner) -> None:
    idle(runner, 3)
    runner.finalise()
    runner.run()
    alpha, _ = runner.chains
    alpha.reorganise(5, [], [created(SENT[9]), routed(SENT[9])], [], [], [])
    idle(runner, 20)
    runner.finalise()
    in_lake = runner.lake.last_block(ALPHA)
    runner.run()
    assert runner.lake.last_block(ALPHA) == in_lake
    with IndexReader(runner.settings.folder.store_url) as reader:
        assert [bool(chain.halted) for chain in reader.chains()] == [True, False]
    repair(runner)
    runner.run()
    expect_the_chains_and_nothing_else(runner)


def repair(runner: Runner) -> None:
    store = runner.opened()
    try:
        for config in runner.configs:
            with runner.reader(config) as reader:
                violation = find_violation(reader, History(store.engine, runner.lake))
                if violation is not None:
                    jobs_repair(store, runner.lake, reader, violation, 1.0)
    finally:
        store.close()


def test_lake_of_another_history_is_refused(runner: Runner) -> None:
    runner.run()
    elsewhere = Runner(runner.folder.with_name("elsewhere"), new_world())
    elsewhere.chains[0].branch = 7
    for sent in SENT[:6]:
        tell(elsewhere, [created(sent), routed(sent)], [])
    other = Lake(elsewhere.folder / "lake")
    events = elsewhere.chains[0].events(0, 3)
    other.append(events, {ALPHA: FinalBlocks(0, 3, elsewhere.chains[0].blocks[3].hash)})
    shutil.rmtree(runner.folder / "lake")
    shutil.copytree(elsewhere.folder / "lake", runner.folder / "lake")
    store = runner.opened()
    try:
        assert promote(store, runner.lake, {ALPHA: 0, BETA: 0}) == {BETA: 6}
        assert runner.lake.last_block(ALPHA) == 3
    finally:
        store.close()
    assert "but the lake was filled when it was" in refused(runner.catch_up)


def test_a_range_whose_join_can_not_be_compared_is_refused(runner: Runner) -> None:
    idle(runner, 12)
    runner.run()
    store, (alpha, _) = runner.opened(), runner.chains
    try:
        before = store.positions()[ALPHA]
        assert before.known_hash(8) is None
        with pytest.raises(RangeGapError, match="does not know the hash of block 8, which the new range follows"):
            apply(store, alpha, first=9)
        with pytest.raises(RangeGapError, match="claims that block 9 is the first, but the store has earlier events"):
            store.apply(alpha.events(9, 18), {ALPHA: replace(alpha.range(9), parent_hash=None)})
        apply(store, alpha, first=7)  # joins final block 6, whose hash is kept however long ago it was
        assert store.positions()[ALPHA].block == before.block
    finally:
        store.close()


def test_check_from_a_reverted_block_begins_again(runner: Runner) -> None:
    idle(runner, 2)
    runner.finalise()
    runner.run()
    runner.look()
    store = runner.opened()
    assert {checked.block for checked in last_equal(store.engine).values()} == {8}
    store.close()
    runner.chains[0].reorganise(4, [], [created(SENT[6]), routed(SENT[6])], [], [])
    idle(runner, 2)
    runner.finalise()
    repair(runner)
    runner.run()
    runner.look()
    store = runner.opened()
    try:
        with store.engine.connect() as connection:
            assert set(connection.scalars(select(tables.lane_checks.c.verdict))) == {"equal"}
    finally:
        store.close()
    expect_the_chains_and_nothing_else(runner)


def test_restored_store_continues_its_sequence(tmp_path: Path) -> None:
    """Readers never look below the highest sequence that they have seen; an older copy of the store does not know it."""
    with indexed_world(tmp_path) as world:
        world.send(sent_message(1))
        world.let_pass(150)
        with world.store.engine.begin() as connection:
            connection.execute(update(tables.facts).where(tables.facts.c.name == "first_sequence").values(value=1))
        assert world.ask() == 1
        (seen,) = world.requests()
        with world.store.engine.begin() as connection:  # as it was before
            connection.execute(delete(tables.retry_requests))
        world.now += 1
        assert world.ask() == 1
        (again,) = world.requests()
        assert again.sequence > seen.sequence


def steps(data: st.DataObject, runner: Runner, nonces: Iterator[int]) -> None:
    """One thing that happens to chains, index or disk."""
    what = data.draw(
        st.sampled_from([*["mine"] * 3, "idle", "reorg", "away", "final", "read", *["run"] * 2, "watch", "disk"])
    )
    match what:
        case "mine":
            sent = sent_message(next(nonces), quorum=1)
            tell(runner, [created(sent), routed(sent)], [received(sent, 1), executed(sent)])
        case "idle":
            idle(runner, data.draw(st.integers(1, 9)))
        case "reorg":
            reorganise(data, runner)
        case "away":  # nobody looks while blocks are taken back, and much becomes final
            runner.run()
            reorganise(data, runner)
            idle(runner, data.draw(st.integers(4, 9)))
            runner.finalise(depth=data.draw(st.integers(0, 2)))
        case "final":
            runner.finalise(depth=data.draw(st.integers(0, 6)))
        case "read":
            runner.follow(rounds=data.draw(st.integers(1, 2)))
        case "run":
            runner.run()
        case "watch":
            runner.look()
        case "disk":
            disk(data, runner)


def reorganise(data: st.DataObject, runner: Runner) -> None:
    """Takes blocks back that are not final; some of their events come again, in other blocks."""
    chain = data.draw(st.sampled_from(runner.chains))
    depth = data.draw(st.integers(0, chain.head - runner.final.get(chain.chain_id, 0)))
    gone = [block.events for block in chain.blocks[chain.head - depth + 1 :]]
    again = data.draw(st.permutations(gone[: data.draw(st.integers(0, len(gone)))]))
    chain.reorganise(depth, *again, *[[]] * data.draw(st.integers(0, 2)))


def disk(data: st.DataObject, runner: Runner) -> None:
    """Store or lake are lost, or put back as they were earlier."""
    copy = runner.folder.with_name("copy")
    runner.folder.mkdir(parents=True, exist_ok=True)
    match data.draw(
        st.sampled_from(["copy", "copy", "store back", "lake back", "both back", "store lost", "lake lost"])
    ):
        case "copy":
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(runner.folder, copy)
        case "store lost":
            remove(runner.folder, "index.db*")
        case "lake lost":
            remove(runner.folder, "lake")
        case back if copy.exists():
            for name in {"store back": ["index.db*"], "lake back": ["lake"], "both back": ["index.db*", "lake"]}[back]:
                remove(runner.folder, name)
                for found in copy.glob(name):
                    place = runner.folder / found.name
                    shutil.copytree(found, place) if found.is_dir() else shutil.copy2(found, place)


def remove(folder: Path, name: str) -> None:
    for found in folder.glob(name):
        shutil.rmtree(found) if found.is_dir() else found.unlink()


def whatever_happens(data: st.DataObject, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with pytest.MonkeyPatch.context() as monkeypatch:
        keep_ended = data.draw(st.sampled_from([10**9, 10_000 - 5]))
        runner = Runner(folder / "index", new_world(), backfill_blocks=3, keep_ended=keep_ended)
        runner.use(monkeypatch)
        nonces = iter(range(1, 1_000))
        for _ in range(data.draw(st.integers(3, 14))):
            steps(data, runner, nonces)
        runner.run()
        runner.look()
        events, messages = stored(runner)
        assert events == naive(runner.chains)
        true = naive_messages(runner.chains)
        store = runner.opened()
        try:
            with store.engine.connect() as connection:
                pruned = set(connection.scalars(select(tables.pruned_messages.c.message_id)))
        finally:
            store.close()
        whole = {one: row for one, row in messages.items() if one not in pruned}
        assert {one: true.get(one) for one in whole} == whole
        assert true.keys() == messages.keys() | (pruned & true.keys())
        assert not pruned or runner.keep_ended < 10**9


SEARCH = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[
        Phase.explicit,
        Phase.reuse,
        Phase.generate,
    ],  # an example takes half a second: shrinking one takes too long
)


@settings(SEARCH, max_examples=3)
@given(data=st.data())
def test_any_history_leaves_the_chains_own_index(tmp_path: Path, data: st.DataObject) -> None:
    whatever_happens(data, tmp_path / "sample")


@pytest.mark.long
@settings(SEARCH, max_examples=100)
@given(data=st.data())
def test_many_histories_leave_the_chains_own_index(tmp_path: Path, data: st.DataObject) -> None:
    whatever_happens(data, tmp_path / "sweep")


def test_new_version_recomputes_statuses_at_its_start(runner: Runner) -> None:
    runner.run()
    store = runner.opened()
    with store.engine.begin() as connection:
        connection.execute(update(tables.messages).values(status="ROUTED", conflicts=1024))
        connection.execute(update(tables.facts).where(tables.facts.c.name == "derivation_fingerprint").values(value=1))
    store.close()
    with capture_logs() as logs:
        runner.run()
        runner.run()
    told = [line for line in logs if "statuses" in line["event"]]
    assert [line.get("messages") for line in told] == [6]
    expect_the_chains_and_nothing_else(runner)
    store = runner.opened()
    with store.engine.connect() as connection:
        assert connection.execute(select(tables.messages.c.status, tables.messages.c.conflicts)).all() == [
            ("EXECUTED", 0)
        ] * len(SENT[:6])
    store.close()
