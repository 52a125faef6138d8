"""The store prunes nothing that the lake's tables lack, so that no figure of the report falls by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from indexer.jobs.maintain import covered, let_go_of_ended, maintain
from indexer.jobs.pruning import TABLES, pruned
from indexer.jobs.report import make_report
from indexer.jobs.table_builder import TablesAside
from indexer.jobs.tables import write_tables
from indexer.lake.derived import DerivedTable
from indexer.lake.lake import FinalBlocks, Lake
from indexer.lake.promotion import promote
from indexer.model import schemas
from indexer.model.errors import IndexerError
from indexer.model.settings import IndexFolder, IndexSettings, TableEngineName
from indexer.model.storage_location import StorageLocation
from indexer.store import tables
from indexer.store.reader import IndexReader
from indexer.store.records import Report
from indexer.store.store import Store
from indexer.store.traffic import tally_all
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import (
    START,
    SimulatedChain,
    absorbed,
    apply,
    contents,
    executed,
    failed,
    forget_ended,
    new_world,
    received,
    retried,
    routed,
    sent_message,
)

SENT = [sent_message(nonce, quorum=1) for nonce in range(1, 13)]
OLD = 8  # of them ended, one a second from START on
LATE = START + 10_000


@dataclass
class World:
    folder: Path
    store: Store
    lake: Lake
    alpha: SimulatedChain
    beta: SimulatedChain
    made: int = 0  # how often the tables were made

    def index(self) -> None:
        for chain in (self.alpha, self.beta):
            position = self.store.positions().get(chain.chain_id)
            apply(self.store, chain, 0 if position is None else position.block + 1, final=chain.head)
        promote(self.store, self.lake, {ALPHA: 0, BETA: 0})

    def pruned(self, before: int) -> int:
        return let_go_of_ended(self.store, self.lake, before, self.make_tables)

    def make_tables(self) -> None:
        self.made += 1
        write_tables(self.store.engine, self.lake)

    def covered(self) -> dict[int, int]:
        return covered(self.lake, {chain: position.final_block for chain, position in self.store.positions().items()})

    def report(self) -> Report:
        """All figures of messages that are of all there ever were; the others are of those in the store."""
        with IndexReader(str(self.store.engine.url)) as reader:
            found = make_report(reader, gone=pruned(reader, self.lake.place))
        return replace(found, chains=(), stages=(), shares=(), alternatives=(), left_out=(), health=())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    lake = Lake(tmp_path / "lake")
    made = World(tmp_path, Store(f"sqlite:///{tmp_path / 'index.db'}", archive=lake.events_of), lake, *new_world())
    for number, sent in enumerate(SENT):
        made.alpha.mine(routed(sent, gmps=0b11), *[retried(sent, 1)] * (number % 2), time=START + number)
        ends = [absorbed(sent, 1)] * (number % 3) + [failed(sent), executed(sent)] * (number < OLD)
        made.beta.mine(received(sent, 1), *ends, *[received(sent, 2)] * (number % 4 == 0), time=START + number)
    made.index()
    yield made
    made.store.close()


def test_no_figure_of_the_report_changes_when_the_store_lets_go_of_what_ended(world: World) -> None:
    before = world.report()
    settings = IndexSettings(folder=IndexFolder(path=world.folder), keep_ended=0)
    gone = []
    for now in (START + 2, START + 5, LATE):
        gone.append(
            maintain(world.store, world.lake, settings, now, least_files=2, make_tables=world.make_tables).pruned
        )
        assert world.report() == before
    assert gone == [2, 3, 3]
    assert before.not_counted == 0
    world.beta.mine(received(SENT[2], 2), time=LATE)
    world.index()  # which brings one back
    later = world.report()
    assert (later.messages, later.late_receipts) == (before.messages, before.late_receipts + 1)
    assert maintain(world.store, world.lake, settings, LATE + 1, make_tables=world.make_tables).pruned == 1
    assert world.report() == later


def test_histories_are_of_the_messages_that_the_store_has(world: World) -> None:
    def tallied() -> object:
        return contents(world.store, tables.traffic)

    settings = IndexSettings(folder=IndexFolder(path=world.folder), keep_ended=0)
    every = tallied()
    assert maintain(world.store, world.lake, settings, LATE, least_files=2, make_tables=world.make_tables).pruned
    kept = tallied()
    world.beta.mine(received(SENT[2], 2), time=LATE)
    world.index()  # which brings one back
    back = tallied()
    assert len({str(one) for one in (every, kept, back)}) == 3
    with world.store.engine.begin() as connection:
        tally_all(connection)
    assert tallied() == back


def test_the_tables_are_made_only_when_something_is_let_go_of_that_they_lack(world: World) -> None:
    assert (world.pruned(START), world.made) == (0, 0)
    assert (world.pruned(START + 3), world.made) == (3, 1)
    assert (world.pruned(LATE), world.made) == (OLD - 3, 1)
    for sent in SENT[OLD : OLD + 2]:
        world.beta.mine(executed(sent), time=LATE)
        world.index()
    assert (world.pruned(LATE), world.made) == (0, 1)
    assert (world.pruned(LATE + 1), world.made) == (2, 2)


@pytest.mark.parametrize("fails", [True, False])
def test_while_tables_can_not_be_made_or_are_not_made_yet_the_store_keeps_what_they_lack(
    world: World, *, fails: bool
) -> None:
    before = world.report()

    def make() -> None:
        if fails:
            raise IndexerError("another process writes them too")

    assert let_go_of_ended(world.store, world.lake, LATE, make) == 0
    assert world.report() == before
    assert world.pruned(LATE) == OLD


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_which_one_is_missing_or_was_not_replaced_cover_nothing_that_is_new(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make = DerivedTable.replace

    def cut(table: DerivedTable, *arguments: object) -> None:
        if table.folder.root.endswith(name):
            raise RuntimeError("power cut")
        make(table, *arguments)  # type: ignore[arg-type]  # passed on as they are

    with monkeypatch.context() as patched:
        patched.setattr(DerivedTable, "replace", cut)
        with pytest.raises(RuntimeError, match="power cut"):
            world.pruned(LATE)
        assert world.covered() == {}
    world.make_tables()
    assert world.covered() == {ALPHA: world.alpha.head, BETA: world.beta.head}
    head = world.beta.head
    world.beta.mine(executed(SENT[-1]), time=LATE)
    world.index()
    with monkeypatch.context() as patched:
        patched.setattr(DerivedTable, "replace", cut)
        with pytest.raises(RuntimeError, match="power cut"):
            world.make_tables()
    assert world.covered() == {ALPHA: world.alpha.head, BETA: head}


def test_tables_made_before_the_lake_was_corrected_cover_nothing_and_are_made_anew(world: World) -> None:
    corrections: list[Callable[[], None]] = [
        lambda: world.lake.replace(BETA, 3, 3, world.lake.events(BETA, 3, 3), "logs were missing"),
        lambda: world.lake.take_back(BETA, FinalBlocks(8, 7, b"7"), "the chain took them back"),
    ]
    for correct in corrections:
        world.pruned(START + 2)
        assert world.covered()[ALPHA] == world.alpha.head
        correct()
        assert world.covered() == {}
    made = world.made
    world.pruned(START + 2)
    assert (world.made, world.covered()) == (made + 1, {ALPHA: world.alpha.head, BETA: 7})


def test_tables_cover_nothing_that_the_lake_itself_has_lost(world: World) -> None:
    world.make_tables()
    (world.folder / "lake" / "events").rename(world.folder / "gone")
    Lake(world.folder / "lake").append(schemas.EVENTS.empty_table(), {BETA: FinalBlocks(0, 2, b"2")})
    assert world.covered() == {BETA: 2}


def test_what_an_earlier_waybill_let_go_of_without_tables_is_counted_after_the_next_maintenance(world: World) -> None:
    before = world.report()
    forget_ended(world.store, START + 4)
    assert world.report().not_counted == 4
    assert world.pruned(START) == 0
    assert world.report() == before


def until_it_ended(aside: TablesAside) -> None:
    deadline = time.monotonic() + 60
    while aside.is_running():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_process_beside_the_index_makes_the_tables_and_one_that_fails_is_told_of(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = IndexFolder(path=world.folder)
    aside = TablesAside(folder, TableEngineName.DUCKDB)
    assert let_go_of_ended(world.store, world.lake, LATE, aside.start) == 0
    until_it_ended(aside)
    assert let_go_of_ended(world.store, world.lake, LATE, aside.start) == OLD
    assert not aside.is_running()
    (world.folder / "elsewhere").touch()
    wrong = TablesAside(
        replace(folder, shared_lake=StorageLocation(str(world.folder / "elsewhere"))), TableEngineName.DUCKDB
    )
    wrong.start()
    until_it_ended(wrong)
    assert "could not be made" in capsys.readouterr().out


def test_a_process_that_makes_tables_ends_with_the_index(world: World) -> None:
    aside = TablesAside(IndexFolder(path=world.folder), TableEngineName.DUCKDB)
    aside.start()
    process = aside._process
    assert process is not None
    aside.start()
    assert aside._process is process
    aside.close()
    assert process.returncode is not None
    assert not aside.is_running()
