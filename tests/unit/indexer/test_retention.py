"""The store stays small, and what it has pruned is still judged when something happens to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridge.protocol.status import Status
from indexer.jobs.promotion import promote
from indexer.pipeline.bronze import Lake
from indexer.store import tables
from indexer.store.reader import IndexReader
from indexer.store.store import Store
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import (
    START,
    Event,
    SimulatedChain,
    absorbed,
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
    store = Store(f"sqlite:///{tmp_path / 'index.db'}")
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


def test_pruning_keeps_open_and_recent_messages(world: World) -> None:
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


def test_a_late_receipt_of_a_pruned_message_is_no_forgery(world: World) -> None:
    forget_ended(world.store, START + 10_000)
    world.alpha.mine(time=START + 40_000)
    world.beta.mine(received(SENT[3], 2), absorbed(SENT[3], 1), time=START + 20_000)
    world.index()
    with IndexReader(f"sqlite:///{world.folder / 'index.db'}") as reader:
        message = reader.message(SENT[3].id)
        assert message is not None
        assert (message.status, message.source_chain) == (Status.EXECUTED, ALPHA)
        assert reader.divergences_of(SENT[3].id) == []


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (received(SENT[3], 9), "RECEIPT_OVER_UNUSED_GMP"),
        (("MessageReceived", received(SENT[3], 2)[1] | {"payload_hash": bytes(32)}), "PAYLOAD_DIFFERS"),
        (received(sent_message(99), 2), "RECEIPT_WITHOUT_CREATION"),
    ],
)
def test_a_late_forgery_about_a_pruned_message_is_found(world: World, event: Event, kind: str) -> None:
    forget_ended(world.store, START + 10_000)
    world.alpha.mine(time=START + 40_000)
    world.beta.mine(event, time=START + 20_000)
    world.index()
    with IndexReader(f"sqlite:///{world.folder / 'index.db'}") as reader:
        assert kind in {one.kind for one in reader.divergences()}


def test_nonces_are_compared_with_all_messages_there_ever_were(world: World) -> None:
    with IndexReader(f"sqlite:///{world.folder / 'index.db'}") as reader:
        for before in (START + 2, START + 10_000):
            forget_ended(world.store, before)
            assert reader.divergences() == []
        world.beta.mine(received(SENT[3], 2))
        world.index()
        assert reader.divergences() == []


def test_pruned_messages_are_counted_once(world: World) -> None:
    for _ in range(3):
        forget_ended(world.store, START + 30_000)
        world.beta.mine(received(SENT[3], 2), time=START + 20_000)
        world.index()
    forget_ended(world.store, START + 30_000)
    (row,) = contents(world.store, tables.pruned_lanes)["pruned_lanes"]
    assert row[-1] == OLD
