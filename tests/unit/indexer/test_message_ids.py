"""A message id that is not the hash of its envelope: the running index marks it, and whoever asks sees it before that."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from bridge.protocol.message import Message
from bridge.protocol.status import Status
from indexer.lake.history import History
from indexer.store import tables
from indexer.store.reader import IndexReader
from tests.unit.indexer.logs import ALPHA
from tests.unit.indexer.runner import Runner
from tests.unit.indexer.world import START, Event, created, new_world, routed, sent_message

FORGED = bytes(30) + b"\xf0\x0d"


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    made = Runner(tmp_path / "index", new_world()).use(monkeypatch)
    for nonce in (1, 2, 3):
        made.chains[0].mine(*(forged if nonce == 2 else honest)(sent_message(nonce, quorum=1)))
        made.chains[1].mine()
    return made


def honest(sent: Message) -> list[Event]:
    return [created(sent), routed(sent)]


def forged(sent: Message) -> list[Event]:
    """Log and envelope state the same id, which is not the hash of what the envelope holds."""
    name, values = routed(sent)
    envelope = values["envelope"]
    return [
        ("MessageIdCreated", created(sent)[1] | {"message_id": FORGED}),
        (name, values | {"message_id": FORGED, "envelope": envelope[:1] + FORGED + envelope[33:]}),
    ]


def found(runner: Runner) -> list[tuple[str, bytes | None]]:
    store = runner.opened()
    try:
        with IndexReader(runner.settings.folder.store_url, clock=lambda: START) as reader:
            return [(one.kind, one.message_id) for one in reader.divergences()]
    finally:
        store.close()


def status(runner: Runner) -> Status:
    with IndexReader(runner.settings.folder.store_url, clock=lambda: START) as reader:
        shown = reader.message(FORGED)
    assert shown is not None
    return shown.status


def test_a_forged_id_is_found_at_once_and_marked_once_it_is_final(runner: Runner) -> None:
    runner.run()
    runner.look()
    assert found(runner) == []
    assert status(runner) is Status.ROUTED
    for chain in runner.chains:
        chain.mine()
    runner.finalise()
    runner.run()
    for _ in range(2):
        runner.look()
        assert found(runner) == [("ID_DIFFERS", FORGED)]
        assert status(runner) is Status.DIVERGED
    with IndexReader(runner.settings.folder.store_url, clock=lambda: START) as reader:
        (one,) = reader.divergences_of(FORGED)
    assert f"envelope is that of 0x{sent_message(2, quorum=1).id.hex()}" in one.evidence
    assert "MessageRouted in block 2, log 1" in one.evidence


def test_the_mark_goes_with_blocks_that_are_taken_back(runner: Runner) -> None:
    runner.finalise()
    runner.run()
    runner.look()
    runner.chains[0].reorganise(2, honest(sent_message(2, quorum=1)), honest(sent_message(3, quorum=1)))
    store = runner.opened()
    try:
        store.remove_above(ALPHA, runner.chains[0].range(2, 1, final=1))
        with store.engine.connect() as connection:
            assert connection.scalars(select(tables.marks.c.message_id)).all() == []
    finally:
        store.close()
    assert History(runner.opened().engine, runner.lake).ids_checked(ALPHA) == -1
