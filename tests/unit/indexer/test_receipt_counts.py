"""How many receipts count, and how many are needed: what the destination's router says, by its rules as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.status import Status
from indexer.store.effective_status import ROUTER_EVENTS
from tests.unit.indexer.clock import World, indexed_world
from tests.unit.indexer.logs import ALPHA
from tests.unit.indexer.world import (
    START,
    Event,
    adapter_added,
    adapter_revoked,
    deferred,
    floor_set,
    gmp_pause_set,
    policy_set,
    received,
    sent_message,
)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with indexed_world(tmp_path) as made:
        yield made


def counted(world: World, sent: Message) -> tuple[int, int | None]:
    with world.reader() as reader:
        found = reader.message(sent.id)
    assert found is not None
    return found.receipts, found.quorum


def test_voided_receipt_does_not_count(world: World) -> None:
    world.happens(world.beta, *(adapter_added(gmp, bytes([gmp]) * 20) for gmp in (1, 2)))
    before, after = world.send(sent_message(1, quorum=2)), world.send(sent_message(2, quorum=2))
    world.happens(world.beta, received(before, 1), received(after, 1), received(after, 2, 2), deferred(after))
    world.happens(world.beta, adapter_revoked(1, bytes([1]) * 20), received(before, 2))
    assert (counted(world, before), counted(world, after)) == ((1, 2), (1, 2))
    assert world.status(after) is Status.EXECUTION_DEFERRED
    world.happens(world.beta, adapter_added(1, bytes([1]) * 20))
    world.let_pass(100)
    assert (world.status(before), world.status(after), world.ask()) == (Status.STALLED, Status.STALLED, 2)
    assert {request.received_gmps for request in world.requests()} == {frozenset({Gmp.AXELAR})}
    world.happens(world.beta, received(before, 1, 2), received(after, 1, 2))
    assert (world.status(before), counted(world, before)) == (Status.RECEIVED, (2, 2))


def test_receipt_outside_the_policy_does_not_count(world: World) -> None:
    sent = sent_message(quorum=1)
    world.happens(world.beta, policy_set(sent.recipient, ALPHA, 0b110, quorum=1))
    world.send(sent)
    world.happens(world.beta, received(sent, 1, receipts=0))
    assert counted(world, sent) == (0, 1)
    world.let_pass(100)
    assert (world.status(sent), world.ask()) == (Status.STALLED, 1)


@pytest.mark.parametrize(
    ("first", "rules", "expected"),
    [
        (3, [policy_set(sent_message().recipient, ALPHA, 0b111, quorum=2)], (2, 2)),  # lowered: may be executed
        (2, [policy_set(sent_message().recipient, ALPHA, 0b111, quorum=3)], (2, 3)),  # a raise applies at once
        (2, [policy_set(sent_message().recipient, ALPHA, 0b110, quorum=2)], (1, 2)),
        (3, [policy_set(sent_message().recipient, 999, 0b110, quorum=2)], (2, 3)),  # of another lane
        (3, [floor_set(ALPHA, 2)], (2, 2)),
        (3, [floor_set(ALPHA, 1)], (2, 1)),  # the sender asked for one only
        (3, [policy_set(sent_message().recipient, ALPHA, 0b111, quorum=3), floor_set(ALPHA, 1)], (2, 3)),
        (2, [gmp_pause_set(1, START + 5_000)], (1, 2)),
        (2, [gmp_pause_set(1, START + 1)], (2, 2)),  # over
    ],
)
def test_receipt_counts_follow_the_routers_current_rules(
    world: World, first: int, rules: list[Event], expected: tuple[int, int]
) -> None:
    sent = world.send(sent_message(quorum=1))
    world.happens(world.beta, received(sent, 1, 1, quorum=first), received(sent, 2, 2, quorum=first))
    world.happens(world.beta, *rules)
    world.let_pass(100)
    assert counted(world, sent) == expected
    assert world.status(sent) is (Status.RECEIVED if expected[0] >= expected[1] else Status.STALLED)


def test_policies_of_strangers_are_left_out_and_all_others_kept(world: World) -> None:
    """Anybody may set a policy; the one at the block of an execution counts, which may not be the newest."""
    sent, stranger = sent_message(quorum=1), bytes(12) + b"s" * 20
    policies = [policy_set(sent.recipient, ALPHA, gmps) for gmps in (0b110, 0b111)]
    world.happens(world.beta, *policies, *(policy_set(stranger, ALPHA, 0b1) for _ in range(3)))
    world.send(sent)
    with create_engine(world.url).connect() as connection:
        found = connection.execute(text(f"select recipient, gmps from {ROUTER_EVENTS} where event = 'PolicySet'")).all()
    assert sorted(row.gmps for row in found) == [0b110, 0b111]
    assert {row.recipient for row in found} == {sent.recipient}
