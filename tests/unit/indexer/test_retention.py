"""Store and lake stay small, and nothing is lost by it: what was pruned comes back when something happens to it."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from sqlalchemy import delete, update

from bridge.protocol.status import Status
from indexer.jobs.maintain import maintain
from indexer.jobs.pruning import pruned
from indexer.jobs.report import make_report
from indexer.jobs.tables import write_tables
from indexer.lake import bucketed_tables as bucketed
from indexer.lake import compaction
from indexer.lake.compaction import BUCKETS, bucket_of, slices_of
from indexer.lake.derived import files_of_table
from indexer.lake.files import write_files
from indexer.lake.history import History
from indexer.lake.lake import FinalBlocks, Lake
from indexer.lake.promotion import promote
from indexer.model.errors import IndexerError
from indexer.model.settings import IndexFolder, IndexSettings
from indexer.model.storage_location import StorageLocation
from indexer.store import tables
from indexer.store.reader import IndexReader
from indexer.store.store import Store
from tests.unit.indexer.lakes import chain_with_events, final, made_of
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import (
    START,
    SimulatedChain,
    apply,
    contents,
    executed,
    forget_ended,
    new_world,
    received,
    routed,
    sent_message,
)

STARTS = {ALPHA: 0, BETA: 0}
SENT = [sent_message(nonce, quorum=1) for nonce in range(1, 9)]
OLD = 5  # of them were executed long ago


@dataclass
class World:
    folder: Path
    store: Store
    lake: Lake
    alpha: SimulatedChain
    beta: SimulatedChain

    def index(self) -> None:
        for chain in (self.alpha, self.beta):
            position = self.store.positions().get(chain.chain_id)
            apply(self.store, chain, 0 if position is None else position.block + 1, final=chain.head)
            promote(self.store, self.lake, STARTS)

    def ids(self) -> set[bytes]:
        return {row[0] for row in contents(self.store)["messages"]}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    lake = Lake(tmp_path / "lake")
    store = Store(f"sqlite:///{tmp_path / 'index.db'}", archive=lake.events_of)
    made = World(tmp_path, store, lake, *new_world())
    for position, sent in enumerate(SENT):
        when = START + position
        made.alpha.mine(routed(sent), time=when)
        if position < OLD:
            made.beta.mine(received(sent, 1), executed(sent), time=when)
        if position % 4 == 3:
            made.index()
    yield made
    store.close()


def test_what_ended_before_is_let_go_of_and_what_is_open_or_recent_stays(world: World) -> None:
    assert forget_ended(world.store, START + 3) == 3
    assert world.ids() == {sent.id for sent in SENT[3:]}
    assert forget_ended(world.store, START + 10_000) == OLD - 3
    assert world.ids() == {sent.id for sent in SENT[OLD:]}
    assert forget_ended(world.store, START + 10_000) == 0


def test_events_that_the_lake_does_not_have_yet_are_kept(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'other.db'}")
    alpha, beta = new_world()
    alpha.mine(routed(SENT[0]))
    beta.mine(received(SENT[0], 1), executed(SENT[0]))
    for chain in (alpha, beta):
        apply(store, chain, final=chain.head)
    lake = Lake(tmp_path / "lake")
    assert forget_ended(store, START + 10_000) == 0
    promote(store, lake, STARTS)
    assert forget_ended(store, START + 10_000) == 1
    store.close()


def test_a_late_delivery_brings_its_message_back_whole(world: World) -> None:
    untouched = Store("sqlite://")
    forget_ended(world.store, START + 10_000)
    world.beta.mine(received(SENT[3], 2), time=START + 20_000)
    world.index()
    for chain in (world.alpha, world.beta):
        apply(untouched, chain)
    expected = {row[0]: row for row in contents(untouched)["messages"]}
    found = {row[0]: row for row in contents(world.store)["messages"]}
    assert found[SENT[3].id] == expected[SENT[3].id]
    assert found == {one: expected[one] for one in found}
    untouched.close()


def test_nonces_are_compared_with_all_messages_there_ever_were(world: World) -> None:
    with IndexReader(f"sqlite:///{world.folder / 'index.db'}") as reader:
        for before in (START + 2, START + 10_000):
            forget_ended(world.store, before)
            assert reader.divergences() == []
        world.beta.mine(received(SENT[3], 2))
        world.index()
        assert reader.divergences() == []


def test_history_is_whole_after_retention_compaction_and_vacuum(world: World) -> None:
    before = {chain: History(world.store.engine, world.lake).events(chain, 0, 999) for chain in (ALPHA, BETA)}
    settings = IndexSettings(folder=IndexFolder(path=world.folder), keep_ended=0, keep_versions=0)
    files = len(world.lake.files())
    again = partial(
        maintain,
        world.store,
        world.lake,
        settings,
        START + 10_000,
        least_files=2,
        make_tables=partial(write_tables, world.store.engine, world.lake),
    )
    done = again()
    assert (done.pruned, done.compacted, done.vacuumed >= files) == (OLD, files, True)
    assert {chain: History(world.store.engine, world.lake).events(chain, 0, 999) for chain in before} == before
    assert world.lake.events_of([SENT[2].id])["event"].to_pylist() == [
        "MessageRouted",
        "MessageReceived",
        "MessageExecuted",
    ]
    assert again().compacted == 0
    late = sent_message(9)
    world.alpha.mine(routed(late))
    world.index()
    assert world.lake.events(ALPHA, 9, 9) == world.alpha.events(9, 9)


def test_a_store_that_differs_from_the_lake_is_a_divergence_and_a_pruned_one_is_none(world: World) -> None:
    history = History(world.store.engine, world.lake)
    forget_ended(world.store, START + 3)
    assert list(history.disagreements()) == []
    event = tables.events.c
    with world.store.engine.begin() as connection:
        connection.execute(delete(tables.events).where(event.chain_id == BETA, event.block_number == 5))
        connection.execute(update(tables.events).where(event.block_number == 6).values(block_hash=bytes(32)))
    alpha, beta = history.disagreements()
    assert (alpha.kind, alpha.source_chain) == ("STORE_DIFFERS_FROM_LAKE", ALPHA)
    assert (
        "0 events of the lake are not in the store, 0 of the store not in the lake, 1 have other content"
        in alpha.evidence
    )
    assert "2 events of the lake are not in the store, 0 of the store not in the lake" in beta.evidence


@pytest.mark.parametrize("compacted", [False, True])
def test_lifecycles_of_the_lake_by_duckdb_are_those_of_the_store(world: World, *, compacted: bool) -> None:
    if compacted:
        world.lake.compact()
        world.index()
    expected = contents(world.store)["messages"]
    assert sorted(tuple(row.values()) for row in made_of("messages", world.lake).to_pylist()) == expected


@pytest.mark.parametrize("ordered", [True, False])
def test_lifecycles_made_a_slice_of_ids_at_a_time_are_those_of_the_store(
    world: World, monkeypatch: pytest.MonkeyPatch, *, ordered: bool
) -> None:
    if not ordered:  # as lakes are that an earlier Waybill compacted
        monkeypatch.setattr(compaction, "by_message", lambda events: events)
    monkeypatch.setattr(bucketed, "_EVENTS_IN_A_SLICE", 1)
    asked: list[bucketed.Ids] = []
    made = bucketed.table_text

    def noted(name: str, ids: bucketed.Ids, source: str) -> str:
        asked.append(ids)
        return made(name, ids, source)

    monkeypatch.setattr(bucketed, "table_text", noted)
    world.lake.compact()
    target = StorageLocation.of(world.folder / "made")
    (world.folder / "made").mkdir()
    written = bucketed.write_table("messages", world.lake.files(), world.lake.folder, target)
    table = pa.concat_tables(pq.read_table(world.folder / "made" / file["path"]) for file in written)
    assert sorted(tuple(row.values()) for row in table.to_pylist()) == contents(world.store)["messages"]
    assert len(asked) > len(written) > 1


def test_a_small_lake_has_one_file_of_each_table_though_it_was_compacted(world: World) -> None:
    world.lake.compact()
    assert len(world.lake.files()) > 1
    write_tables(world.store.engine, world.lake)
    assert [len(files_of_table(world.lake.place / name)) for name in bucketed.TABLES] == [1] * len(bucketed.TABLES)


def test_slices_hold_every_id_once() -> None:
    for slices in (0, 1, 3, 12, 1 << 30):
        edges = [edge for bucket in range(BUCKETS) for edge in slices_of(bucket, min(slices, 5_000))]
        assert (edges[0][0], edges[-1][1]) == (bytes(3), None)
        assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(edges))
        assert all(high is None or low < high for low, high in edges)
    assert [bucket_of(low) for low, _ in slices_of(5, 4)] == [5] * 4


def test_a_bucket_is_written_in_the_order_of_ids_so_that_slices_of_it_can_be_skipped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_ROWS_IN_A_GROUP", 2)
    events = world.lake.events(ALPHA, 0, 999)
    (manifest,) = compaction.write_bucket(world.lake.folder, 0, compaction.by_message(events))
    metadata = pq.read_metadata(Path(world.lake.folder.root) / manifest["path"])
    column = metadata.schema.names.index("message_id")
    found = [metadata.row_group(group).column(column).statistics for group in range(metadata.num_row_groups)]
    ids = sorted(events["message_id"].to_pylist())
    assert [(one.min, one.max) for one in found] == [
        (ids[at], ids[min(at + 1, len(ids) - 1)]) for at in range(0, len(ids), 2)
    ]


def test_the_state_of_an_earlier_version_can_still_be_asked_for(world: World) -> None:
    version = world.lake.version
    executed_then = made_of("messages", world.lake).column("status").to_pylist().count("EXECUTED")
    world.beta.mine(received(SENT[-1], 1), executed(SENT[-1]))
    world.index()
    world.lake.compact()
    statuses = made_of("messages", world.lake.at(version)).column("status").to_pylist()
    assert statuses.count("EXECUTED") == executed_then == OLD
    assert made_of("messages", world.lake).column("status").to_pylist().count("EXECUTED") == OLD + 1


def test_files_that_no_commit_names_are_swept_and_those_of_the_version_stay(world: World) -> None:
    orphan = Path(world.lake.folder.root) / "part-orphan.parquet"
    orphan.write_bytes(b"left by a crash")
    os.utime(orphan, (two_days_ago := time.time() - 2 * 86_400, two_days_ago))
    assert world.lake.vacuum(0) == [orphan.name]
    assert not orphan.exists()
    assert len(world.lake.events(ALPHA, 0, 999)) == len(SENT)


def test_files_that_somebody_is_about_to_commit_are_not_swept(tmp_path: Path) -> None:
    lake, chain = Lake(tmp_path / "lake"), chain_with_events(5)
    lake.append(chain.events(0, 3), final(chain, 0, 3))
    written = list(write_files(lake.folder, chain.events(4, 5).to_batches()))
    assert Lake(lake.place).vacuum(0) == []
    lake.commit(written, final(chain, 4, 5))
    assert lake.events(ALPHA, 0, 5) == chain.events(0, 5)


@pytest.mark.parametrize(
    "read", [lambda lake: lake.events(ALPHA, 0, 999), lambda lake: lake.events_of([SENT[2].id])], ids=["blocks", "ids"]
)
def test_whoever_reads_while_files_are_replaced_and_deleted_reads_all_the_same(
    world: World, read: Callable[[Lake], pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, keeper, opened = read(world.lake), Lake(world.lake.place), Lake._table

    def open_and_lose(lake: Lake) -> DeltaTable:
        table = opened(lake)
        if lake is not keeper and keeper.compact():
            assert keeper.vacuum(0)
        return table

    monkeypatch.setattr(Lake, "_table", open_and_lose)
    assert read(world.lake) == before


def in_between(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Lets somebody else act between the next look at the lake and what follows from it."""
    opened, acted = Lake._table, list[object]()

    def open_and_be_overtaken(lake: Lake) -> DeltaTable:
        table = opened(lake)
        if not acted:
            acted.append(None)
            act()
        return table

    monkeypatch.setattr(Lake, "_table", open_and_be_overtaken)


def take_back(world: World) -> None:
    world.lake.take_back(ALPHA, FinalBlocks(2, 2, b"\2" * 32), "the chain has them no longer")


def put_in_place(world: World) -> None:
    world.lake.replace(ALPHA, 1, 2, world.alpha.events(1, 2), "the lake lacked one")


@pytest.mark.parametrize("other", [lambda world: Lake(world.lake.place).compact(), take_back, put_in_place])
def test_a_compaction_that_is_overtaken_doubles_nothing_and_brings_nothing_back(
    world: World, other: Callable[[World], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = len(SENT) if other is not take_back else 2
    in_between(monkeypatch, lambda: other(world))
    assert world.lake.compact() == 0
    assert len(world.lake.events(ALPHA, 0, 999)) == expected


@pytest.mark.parametrize("repair", [take_back, put_in_place])
def test_a_repair_that_is_overtaken_by_a_compaction_says_so_and_changes_nothing(
    world: World, repair: Callable[[World], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.lake.events(ALPHA, 0, 999)
    in_between(monkeypatch, lambda: Lake(world.lake.place).compact())
    with pytest.raises(IndexerError, match="try again when it has ended"):
        repair(world)
    assert world.lake.events(ALPHA, 0, 999) == before


def test_an_append_beside_a_compaction_goes_in_and_so_does_the_compaction(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = sent_message(9)
    world.alpha.mine(routed(late))
    in_between(monkeypatch, world.index)
    assert world.lake.compact() > 0
    assert world.lake.events(ALPHA, 0, 999) == world.alpha.events(0, world.alpha.head)


def test_a_compaction_cut_off_before_its_commit_changes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.lake.events(ALPHA, 0, 999)

    def cut(*_: object, **__: object) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patched:
        patched.setattr("deltalake.DeltaTable.create_write_transaction", cut)
        with pytest.raises(RuntimeError, match="power cut"):
            world.lake.compact()
    assert world.lake.events(ALPHA, 0, 999) == before
    assert world.lake.compact() > 1
    assert world.lake.events(ALPHA, 0, 999) == before


def test_pruned_messages_are_counted_once_however_often_they_come_back(world: World) -> None:
    for _ in range(3):
        forget_ended(world.store, START + 30_000)
        world.beta.mine(received(SENT[3], 2), time=START + 20_000)
        world.index()
    forget_ended(world.store, START + 30_000)
    (row,) = contents(world.store, tables.pruned_lanes)["pruned_lanes"]
    assert row[-1] == OLD


def test_the_report_counts_what_the_store_has_let_go_of_once_the_tables_of_the_lake_have_it(world: World) -> None:
    with IndexReader(f"sqlite:///{world.folder / 'index.db'}") as reader:
        before = make_report(reader)
        forget_ended(world.store, START + 3)
        without = make_report(reader, gone=pruned(reader, world.lake.place))
        assert (without.messages, without.not_counted) == (len(SENT) - 3, 3)
        write_tables(world.store.engine, world.lake)
        forget_ended(world.store, START + 10_000)
        world.beta.mine(received(SENT[3], 2), time=START + 20_000)
        world.index()  # which brings one back
        after = make_report(reader, gone=pruned(reader, world.lake.place))
    assert (
        (after.messages, after.executed, after.not_counted)
        == (before.messages, before.executed, 0)
        == (len(SENT), OLD, 0)
    )
    assert after.late_receipts == before.late_receipts + 1
    assert (after.latency_p50_ms, after.latency_p95_ms) == (before.latency_p50_ms, before.latency_p95_ms)
    assert after.by_status[Status.EXECUTED] == before.by_status[Status.EXECUTED] == OLD
    assert {gmp: counts.dispatched for gmp, counts in after.per_gmp.items()} == {
        gmp: counts.dispatched for gmp, counts in before.per_gmp.items()
    }
