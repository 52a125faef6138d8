"""`Store.apply`: whatever order blocks are read in, and however often, the tables follow from the chains alone."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, delete, select, update

from indexer.model.errors import RangeGapError
from indexer.model.settings import StallPolicy
from indexer.store import store as store_module
from indexer.store import tables
from indexer.store.blocks import in_pieces
from indexer.store.retries import request_retries
from indexer.store.store import Store
from tests.unit.indexer.logs import ADAPTERS, ALPHA, BETA
from tests.unit.indexer.stories import change, fork_of, happening
from tests.unit.indexer.world import (
    START,
    Event,
    SimulatedChain,
    absorbed,
    adapter_added,
    adapter_revoked,
    apply,
    cancellation_requested,
    cancelled,
    contents,
    contradicted,
    deferred,
    executed,
    expired,
    failed,
    late_receipt,
    new_world,
    received,
    reported,
    retried,
    routed,
    sent_message,
    unfunded,
)

MESSAGES = [sent_message(nonce, quorum=1) for nonce in range(1, 5)]
MORTAL = sent_message(1, quorum=1, ttl=1, sent_at=1)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = Store(
        f"sqlite:///{tmp_path / 'index.db'}"
        if request.param == "sqlite"
        else request.getfixturevalue("postgresql").new_url()
    )
    yield opened
    opened.close()


@st.composite
def events(draw: st.DrawFn, side: int) -> Event:
    def number(least: int, most: int) -> int:
        return draw(st.integers(least, most))

    return happening(side, MESSAGES, number) if side == 0 or number(0, 2) else change(MESSAGES, number)


def blocks(event: st.SearchStrategy[Event]) -> st.SearchStrategy[list[list[Event]]]:
    return st.lists(st.lists(event, max_size=3), max_size=5)


@st.composite
def steps(draw: st.DrawFn) -> dict[str, Any]:
    """Something happens on one chain, and then it is read: perhaps some of it again, perhaps not up to the head."""
    side = draw(st.integers(0, 1))
    return {
        "side": side,
        "taken_back": draw(st.integers(0, 8)),
        "mined": draw(blocks(events(side))),
        "replayed": draw(st.integers(0, 6)),
        "left_out": draw(st.sampled_from([0, 0, 0, 1, 4])),
    }


@settings(max_examples=12, deadline=None)
@given(story=st.lists(steps(), max_size=10), pieces=st.integers(1, 4))
def test_any_order_of_batches_gives_the_chains_tables(story: list[dict[str, Any]], pieces: int) -> None:
    world = new_world()
    known: list[list[bytes]] = [[], []]
    store, fresh = Store("sqlite://", max_rows=pieces), Store("sqlite://")
    try:
        for step in story:
            chain = world[step["side"]]
            chain.reorganise(step["taken_back"], *step["mined"])
            read(store, chain, known, step["side"], replayed=step["replayed"], left_out=step["left_out"])
        for side, chain in enumerate(world):
            read(store, chain, known, side, replayed=0, left_out=0)
            apply(fresh, chain)
        assert contents(store) == contents(fresh)
        for table in (tables.chains, tables.pauses):
            assert contents(store, table) == contents(fresh, table)
    finally:
        store.close()
        fresh.close()


def read(
    store: Store, chain: SimulatedChain, known: list[list[bytes]], side: int, *, replayed: int, left_out: int
) -> None:
    """As the source does: from the fork on, some of it again, and not always up to the head."""
    fork = fork_of(chain, known[side])
    first = max(0, fork + 1 - replayed)
    last = max(first - 1, chain.head - left_out, fork)
    if last < 0:
        return
    apply(store, chain, first, last)
    known[side] = [block.hash for block in chain.blocks[: last + 1]]


@pytest.mark.parametrize(
    ("source", "destination", "status"),
    [
        ([routed(MESSAGES[0])], [], "ROUTED"),
        ([routed(MESSAGES[0])], [received(MESSAGES[0], 1)], "RECEIVED"),
        ([routed(MESSAGES[0])], [received(MESSAGES[0], 1), executed(MESSAGES[0])], "EXECUTED"),
        ([routed(MESSAGES[0])], [received(MESSAGES[0], 1), failed(MESSAGES[0])], "EXECUTION_FAILED"),
        ([routed(MESSAGES[0])], [received(MESSAGES[0], 1), deferred(MESSAGES[0])], "EXECUTION_DEFERRED"),
        (
            [routed(MESSAGES[0])],
            [received(MESSAGES[0], 1), deferred(MESSAGES[0]), received(MESSAGES[0], 2, 2), failed(MESSAGES[0])],
            "EXECUTION_FAILED",
        ),
        (
            [routed(MESSAGES[0])],
            [received(MESSAGES[0], 1), failed(MESSAGES[0]), executed(MESSAGES[0]), absorbed(MESSAGES[0], 1)],
            "EXECUTED",
        ),
        ([routed(MESSAGES[0])], [failed(MESSAGES[0]), executed(MESSAGES[0])], "DIVERGED"),
        ([routed(MESSAGES[0])], [executed(MESSAGES[0]), executed(MESSAGES[0])], "DIVERGED"),
        ([], [received(MESSAGES[0], 1), executed(MESSAGES[0])], "UNKNOWN"),
        ([], [received(MESSAGES[0], 1)], "UNKNOWN"),
        ([unfunded(MESSAGES[0])], [], "UNFUNDED"),
        ([unfunded(MESSAGES[0]), routed(MESSAGES[0])], [], "ROUTED"),
        ([unfunded(MESSAGES[0]), cancellation_requested(MESSAGES[0])], [cancelled(MESSAGES[0])], "CANCELLED"),
        ([routed(MORTAL)], [expired(MORTAL), late_receipt(MORTAL, 1)], "EXPIRED"),
        ([routed(MESSAGES[0])], [expired(MESSAGES[0])], "DIVERGED"),
        ([routed(MESSAGES[0]), reported(MESSAGES[0], 2)], [], "ROUTED"),
        ([routed(MESSAGES[0]), reported(MESSAGES[0], 3)], [], "ROUTED"),
        ([routed(MESSAGES[0]), reported(MESSAGES[0], 1)], [], "ROUTED"),
        ([routed(MESSAGES[0]), contradicted(MESSAGES[0], 2, 1)], [expired(MESSAGES[0])], "DIVERGED"),
    ],
)
def test_status_follows_from_the_events(
    store: Store, source: list[Event], destination: list[Event], status: str
) -> None:
    alpha, beta = new_world()
    alpha.mine(*source)
    beta.mine(*destination)
    apply(store, beta)
    apply(store, alpha)
    with store.engine.connect() as connection:
        assert connection.scalars(select(tables.messages.c.status)).all() == [status]


def test_a_message_and_its_receipts_carry_what_its_events_say(store: Store) -> None:
    alpha, beta = new_world()
    sent = sent_message(gas_limit=2**64 - 1, quorum=2)
    alpha.mine(routed(sent, gmps=0b011))
    alpha.mine(retried(sent, 1, gmps=0b100), time=2_000_000)
    beta.mine(received(sent, 1))
    beta.mine(received(sent, 3, receipts=2), failed(sent, b"first"))
    again = (adapter_revoked(3, ADAPTERS[BETA]), adapter_added(3, ADAPTERS[BETA]), received(sent, 3, receipts=2))
    beta.mine(*again, failed(sent, b"second"))
    beta.mine(executed(sent), absorbed(sent, 3), absorbed(sent, 3))
    for chain in (alpha, beta):
        apply(store, chain)
    with store.engine.connect() as connection:
        (row,) = connection.execute(select(tables.messages)).mappings()
        receipts = connection.execute(select(tables.receipts).order_by(tables.receipts.c.gmp)).mappings().all()
    expected = {
        "message_id": sent.id,
        "status": "EXECUTED",
        "sender": sent.sender,
        "recipient": sent.recipient,
        "nonce": 1,
        "gas_limit": 2**64 - 1,
        "quorum": 2,
        "attempts": 1,
        "attempted_block": 2,
        "attempted_time": 2_000_000,
        "dispatched": 0b111,
        "received": 0b101,
        "receipts": 2,
        "executions": 1,
        "executed_block": 4,
        "failures": 2,
        "failure_reason": b"second",
        "duplicates": 2,
        "payload_differs": False,
        "retriable": True,
    }
    assert {name: row[name] for name in expected} == expected
    assert [(r["gmp"], r["dispatches"], r["last_attempt"], r["received_block"], r["duplicates"]) for r in receipts] == [
        (1, 1, 0, 1, 0),
        (2, 1, 0, None, 0),
        (3, 1, 1, 2, 2),
    ]


def test_orphaned_message_is_kept_until_it_returns(store: Store) -> None:
    alpha, _ = new_world()
    sent = sent_message()
    alpha.mine(routed(sent))
    apply(store, alpha)
    alpha.reorganise(1, [])
    apply(store, alpha, first=1)
    assert not contents(store)["messages"]
    assert [row[0] for row in contents(store, tables.orphans)["orphans"]] == [sent.id]
    alpha.mine(routed(sent))
    apply(store, alpha, first=2)
    assert [row[0] for row in contents(store)["messages"]] == [sent.id]
    assert contents(store, tables.orphans)["orphans"] == []


def test_unfunded_message_is_described_and_undispatched(store: Store) -> None:
    alpha, _ = new_world()
    sent = sent_message(quorum=2)
    alpha.mine(unfunded(sent, gmps=0b11))
    apply(store, alpha)
    with store.engine.connect() as connection:
        (row,) = connection.execute(select(tables.messages)).mappings()
        assert connection.execute(select(tables.receipts)).all() == []
    assert (row["sender"], row["quorum"], row["dispatched"]) == (sent.sender, 2, 0)
    assert (row["source_block"], row["attempts"], row["attempted_time"]) == (1, None, None)
    alpha.mine(routed(sent, gmps=0b01))
    apply(store, alpha)
    with store.engine.connect() as connection:
        (row,) = connection.execute(select(tables.messages)).mappings()
    assert (row["source_block"], row["attempts"], row["attempted_block"], row["dispatched"]) == (2, 0, 2, 0b01)
    alpha.reorganise(1, [])
    apply(store, alpha, first=2)
    with store.engine.connect() as connection:
        assert connection.scalars(select(tables.messages.c.status)).all() == ["UNFUNDED"]
        assert connection.execute(select(tables.orphans)).all() == []


def test_blocks_that_leave_a_gap_are_refused_and_change_nothing(store: Store) -> None:
    alpha, _ = new_world()
    for _ in range(4):
        alpha.mine()
    apply(store, alpha, last=2)
    before = contents(store, *tables.metadata.sorted_tables)
    with pytest.raises(RangeGapError, match="the store ends at block 2, but the new range begins at block 4"):
        apply(store, alpha, first=4)
    assert contents(store, *tables.metadata.sorted_tables) == before


def test_blocks_of_another_branch_are_refused(store: Store) -> None:
    alpha, _ = new_world()
    alpha.mine()
    apply(store, alpha)
    alpha.reorganise(1, [], [])
    with pytest.raises(RangeGapError, match="does not extend stored block 1: "):
        apply(store, alpha, first=2)


def test_crash_in_a_transaction_changes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    alpha, _ = new_world()
    alpha.mine(routed(MESSAGES[0]))
    apply(store, alpha)
    before = contents(store, *tables.metadata.sorted_tables)
    alpha.reorganise(1, [routed(MESSAGES[1])])

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patched:
        patched.setattr(store_module, "_save_position", fail)
        with pytest.raises(RuntimeError, match="power cut"):
            apply(store, alpha, first=1)
    assert contents(store, *tables.metadata.sorted_tables) == before
    apply(store, alpha, first=1)
    assert [row[0] for row in contents(store)["messages"]] == [MESSAGES[1].id]


@given(sizes=st.lists(st.integers(0, 6), min_size=1, max_size=10), most=st.integers(1, 8))
def test_pieces_of_a_range_join_to_the_whole(sizes: list[int], most: int) -> None:
    chain = SimulatedChain(ALPHA)
    for number, size in enumerate(sizes):
        chain.mine(*[retried(MESSAGES[0], attempt) for attempt in range(size)], time=number)
    whole, range_ = chain.events(0, chain.head), chain.range(0)
    pieces = list(in_pieces(whole, range_, most))
    assert [row for events, _ in pieces for row in events.to_pylist()] == whole.to_pylist()
    assert pieces[-1][1].position == range_.position
    first = 0
    for events, part in pieces:
        assert part.first == first
        first = part.position.block + 1
        numbers = set(events["block_number"].to_pylist())
        assert all(part.first <= number <= part.position.block for number in numbers)
        assert len(events) <= most or len(numbers) == 1
        assert part.position.hash_at(part.position.block) == chain.blocks[part.position.block].hash[:16]


def test_statuses_of_other_queries_are_recomputed_once(store: Store) -> None:
    alpha, beta = new_world()
    sent = [sent_message(nonce, quorum=1) for nonce in range(1, 4)]
    alpha.mine(*[routed(one) for one in sent], cancellation_requested(sent[0]), retried(sent[0], 1))
    beta.mine(received(sent[1], 1), executed(sent[1]))
    assert store.recompute_if_outdated() == 0
    for chain in (alpha, beta):
        apply(store, chain)
    assert store.recompute_if_outdated() == 0
    store.mark(ALPHA, [(sent[2].id, 1, "gone")], 1.0)
    request_retries(store.engine, StallPolicy(stall_after=1), START + 100)
    before = contents(store, *tables.metadata.sorted_tables)
    with store.engine.begin() as connection:  # as an older Waybill has left it
        connection.execute(update(tables.messages).values(status="ROUTED", conflicts=0))
        connection.execute(delete(tables.facts).where(tables.facts.c.name == "derivation_fingerprint"))
    assert store.recompute_if_outdated() == 3
    assert contents(store, *tables.metadata.sorted_tables) == before
    assert store.recompute_if_outdated() == 0


def test_a_recomputation_that_is_cut_off_begins_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    alpha, _ = new_world()
    alpha.mine(*[routed(sent_message(nonce)) for nonce in range(1, 4)])
    apply(store, alpha)

    recompute, calls = store_module._recompute, itertools.count(1)

    def stop(connection: Connection, ids: Collection[bytes]) -> None:
        if next(calls) == 2:
            raise KeyboardInterrupt
        recompute(connection, ids)

    with monkeypatch.context() as patched:
        patched.setattr(store_module, "_IDS_IN_A_STATEMENT", 1)
        patched.setattr(store_module, "_recompute", stop)
        with pytest.raises(KeyboardInterrupt):
            store.recompute_if_outdated()
    assert store.recompute_if_outdated() == 3
