"""A chain that takes back what it had called final: nobody is left believing it, and the index can follow the chain again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from sqlalchemy import select

from bridge.evm.rpc_answers import TransientRpcError, UnknownBlockError
from bridge.protocol.status import Status
from indexer.jobs.history import History
from indexer.jobs.promotion import promote
from indexer.jobs.repair import find_violation, mark, repair
from indexer.jobs.stream import Stream
from indexer.model.settings import IndexFolder, IndexSettings, SourceLimits
from indexer.pipeline.bronze import Lake
from indexer.sources.chain import ChainConfig, ChainReader
from indexer.spark.outage import SparkOutage
from indexer.store import tables
from indexer.store.reader import IndexReader
from indexer.store.store import Store
from tests.unit.indexer.endpoint import Endpoint, no_wait, reader_of
from tests.unit.indexer.logs import ALPHA, BETA, EMITTERS
from tests.unit.indexer.world import (
    START,
    Block,
    SimulatedChain,
    apply,
    contents,
    executed,
    new_world,
    received,
    routed,
    sent_message,
)

SENT = [sent_message(nonce, quorum=1) for nonce in range(1, 4)]
STARTS = {ALPHA: 0, BETA: 0}


@dataclass
class World:
    folder: Path
    store: Store
    lake: Lake
    alpha: SimulatedChain
    beta: SimulatedChain
    before: SimulatedChain = field(default_factory=lambda: SimulatedChain(BETA))  # beta as the index has read it

    def cut(self, last: int) -> SimulatedChain:
        """What a node has that is behind."""
        return _of(self.before.blocks[: last + 1])

    @property
    def history(self) -> History:
        return History(self.store.engine, self.lake)

    def beta_reader(self) -> ChainReader:
        return reader_of(Endpoint(self.beta), SourceLimits())

    def asking(self, *nodes: SimulatedChain | Endpoint) -> ChainReader:
        """A reader of beta with an endpoint for each of them, in that order."""
        endpoints = [node if isinstance(node, Endpoint) else Endpoint(node) for node in nodes]
        return reader_of({f"http://node{place}": node for place, node in enumerate(endpoints)}, SourceLimits())

    def status(self, position: int) -> Status | None:
        with IndexReader(f"sqlite:///{self.folder / 'index.db'}", clock=lambda: START) as reader:
            found = reader.message(SENT[position].id)
            return None if found is None else found.status

    def divergences(self) -> list[tuple[str, bytes | None]]:
        with IndexReader(f"sqlite:///{self.folder / 'index.db'}", clock=lambda: START) as reader:
            return [(row.kind, row.message_id) for row in reader.divergences()]


def _of(blocks: list[Block]) -> SimulatedChain:
    chain = SimulatedChain(BETA)
    chain.blocks = blocks
    return chain


class Mistaken(Endpoint):
    """Answers with block 1, whichever it is asked for."""

    def _eth_getBlockByNumber(self, _tag: str, full: bool) -> dict[str, Any] | None:
        return Endpoint._eth_getBlockByNumber(self, "0x1", full)


def _down() -> Endpoint:
    return Endpoint(SimulatedChain(BETA), misbehave=lambda *_: httpx.Response(503))


@pytest.fixture(autouse=True)
def _retries_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.evm.endpoints.sleep", no_wait)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Three messages executed on beta, all of it final; then beta rewrites the second's and third's blocks."""
    store = Store(f"sqlite:///{tmp_path / 'index.db'}")
    made = World(tmp_path, store, Lake(tmp_path / "lake"), *new_world())
    for sent in SENT:
        made.alpha.mine(routed(sent))
        made.beta.mine(received(sent, 1), executed(sent))
    for chain in (made.alpha, made.beta):
        apply(store, chain, final=chain.head)
    promote(store, made.lake, STARTS)
    made.before = _of(made.beta.blocks[:])
    made.beta.reorganise(2, [received(SENT[1], 2), executed(SENT[1])], [], [])
    yield made
    store.close()


def test_nothing_is_violated_as_long_as_the_final_block_is_there(world: World) -> None:
    with reader_of(Endpoint(world.alpha), SourceLimits()) as reader:
        assert find_violation(reader, world.history) is None


@pytest.mark.parametrize("forked", [False, True], ids=["alone", "beside one of another fork"])
@pytest.mark.parametrize("silent", ["is behind", "does not answer", "answers with another block"])
def test_silent_endpoint_prevents_a_finality_verdict(world: World, silent: str, *, forked: bool) -> None:
    nodes = {
        "is behind": Endpoint(world.cut(2)),
        "does not answer": _down(),
        "answers with another block": Mistaken(world.beta),
    }
    before = world.lake.events(BETA, 0, 9)
    with (
        world.asking(*[world.beta] * forked, nodes[silent]) as reader,
        pytest.raises(
            TransientRpcError, match=rf"(?s)block 3 with hash 0x.*http://node{int(forked)}.*or remove an endpoint"
        ),
    ):
        find_violation(reader, world.history)
    assert world.lake.events(BETA, 0, 9) == before


def test_repair_goes_to_the_last_block_any_endpoint_has(world: World) -> None:
    deeper = world.cut(0)
    deeper.branch = 5
    for _ in range(6):
        deeper.mine()
    with world.asking(deeper, world.beta) as reader:
        violation = find_violation(reader, world.history)
        assert violation is not None
        assert (violation.fork, violation.fork_hash) == (1, world.before.blocks[1].hash)
        repair(world.store, world.lake, reader, violation, 5.0)
    assert world.lake.last_known(BETA) == (1, world.before.blocks[1].hash)
    assert world.store.positions()[BETA].final_hash == world.before.blocks[1].hash


def test_repair_without_a_known_fork_changes_nothing(world: World) -> None:
    before, version = contents(world.store, *tables.metadata.sorted_tables), world.lake.version
    with world.beta_reader() as reader:
        violation = find_violation(reader, world.history)
        assert violation is not None
        world.beta.reorganise(4, [], [], [], [])
        with pytest.raises(UnknownBlockError, match="has reverted fork block 1 as well: run the repair again"):
            repair(world.store, world.lake, reader, violation, 5.0)
    assert (contents(world.store, *tables.metadata.sorted_tables), world.lake.version) == (before, version)


def test_messages_with_lost_final_events_are_diverged(world: World) -> None:
    with world.beta_reader() as reader:
        violation = find_violation(reader, world.history)
    assert violation is not None
    assert (violation.chain_id, violation.fork, len(violation.events)) == (BETA, 1, 4)
    assert mark(world.store, violation, 1.0) == 2
    assert mark(world.store, violation, 2.0) == 2
    assert [world.status(position) for position in range(3)] == [Status.EXECUTED, Status.DIVERGED, Status.DIVERGED]
    assert world.divergences() == [("FINALITY_VIOLATED", one) for one in sorted(sent.id for sent in SENT[1:])]
    (_, block, evidence), *_ = sorted(violation.marks(), key=lambda found: found[1])
    assert block == 2
    assert "had called block 3 final" in evidence
    assert "MessageExecuted in block 2" in evidence


def test_repair_rewinds_and_the_index_follows_again(world: World) -> None:
    before = world.lake.events(BETA, 0, 9)
    with world.beta_reader() as reader:
        violation = find_violation(reader, world.history)
        assert violation is not None
        repair(world.store, world.lake, reader, violation, 5.0)
        assert world.lake.last_block(BETA) == 1
        assert world.lake.last_known(BETA) == (1, world.beta.blocks[1].hash)
        assert find_violation(reader, world.history) is None
        repair(world.store, world.lake, reader, violation, 6.0)
    assert [world.status(position) for position in range(3)] == [Status.EXECUTED, Status.ROUTED, Status.ROUTED]
    assert world.lake.events(BETA, 0, 9) == before.slice(0, 2)
    apply(world.store, world.beta, first=2, final=world.beta.head)
    promote(world.store, world.lake, STARTS)
    assert world.lake.events(BETA, 0, 9) == world.beta.events(0, world.beta.head)
    fresh = Store("sqlite://")
    for chain in (world.alpha, world.beta):
        apply(fresh, chain)
    assert contents(world.store) == contents(fresh)
    fresh.close()
    assert world.divergences() == []


@pytest.mark.parametrize("step", ["take_back", "note_lake", "remove_above", "note_repair"])
def test_a_repair_cut_off_after_any_step_is_finished_by_the_next(
    world: World, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object, **__: object) -> None:
        raise RuntimeError("power cut")

    with world.beta_reader() as reader:
        violation = find_violation(reader, world.history)
        assert violation is not None
        with monkeypatch.context() as patched:
            patched.setattr(Lake if step == "take_back" else Store, step, cut)
            with pytest.raises(RuntimeError, match="power cut"):
                repair(world.store, world.lake, reader, violation, 5.0)
        again = find_violation(reader, world.history) or violation
        repair(world.store, world.lake, reader, again, 6.0)
    apply(world.store, world.beta, first=2, final=world.beta.head)
    promote(world.store, world.lake, STARTS)
    assert world.lake.events(BETA, 0, 9) == world.beta.events(0, world.beta.head)
    assert [world.status(position) for position in range(3)] == [Status.EXECUTED, Status.EXECUTED, Status.ROUTED]


def test_halted_silent_chain_stops_no_other(world: World) -> None:
    class Unused:
        """No query is started."""

    chains = [
        ChainConfig(chain_id=chain, urls=("http://127.0.0.1:1",), start_block=0, emitters=EMITTERS[chain])
        for chain in (ALPHA, BETA)
    ]
    settings = IndexSettings(folder=IndexFolder(path=world.folder))
    stream = Stream(
        cast("Any", Unused()),
        chains,
        settings,
        store=world.store,
        lake=world.lake,
        clock=lambda: START,
        outage=SparkOutage(),
    )
    stream._note_halts({BETA: "beta took back block 3"})
    stream._mark_violations()
    with world.store.engine.connect() as connection:
        halted = {row.chain_id: row.halted for row in connection.execute(select(tables.chains))}
    assert halted == {ALPHA: None, BETA: "beta took back block 3"}
