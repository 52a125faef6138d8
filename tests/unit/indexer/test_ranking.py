"""Over which GMPs a retry request asks to retry, in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.store.index_requests import IndexRequests
from indexer.store.ranking import Dispatch, gmp_health, recent_dispatches
from tests.unit.indexer.clock import World
from tests.unit.indexer.world import (
    Event,
    adapter_added,
    adapter_revoked,
    executed,
    gmp_pause_set,
    policy_set,
    received,
    retried,
    routed,
    sent_message,
)

H, A, W, L, C = Gmp
ALL = 0b11111


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(f"sqlite:///{tmp_path / 'index.db'}")
    for chain in (made.alpha, made.beta):
        chain.mine(*[adapter_added(gmp, bytes([gmp]) * 20) for gmp in Gmp], time=made.now)
        made.read(chain)
    yield made
    made.store.close()


def history(world: World, **seconds: int | None) -> None:
    """Ten messages over all GMPs, of which those named deliver after some seconds, or (None) never."""
    messages = [sent_message(nonce, quorum=1) for nonce in range(1, 11)]
    world.happens(world.alpha, *[routed(one, gmps=ALL) for one in messages])
    took = sorted((after, Gmp[name.upper()]) for name, after in seconds.items() if after is not None)
    for position, (after, gmp) in enumerate(took):
        world.let_pass(after - (took[position - 1][0] if position else 0), world.alpha)
        first: list[Event] = [executed(one) for one in messages] if position == 0 else []
        world.happens(world.beta, *[received(one, gmp) for one in messages], *first)
    world.let_pass(200)


def ranking(world: World, sent: Message) -> tuple[Gmp, ...]:
    """What the bridge reads for the one request of this message."""
    assert world.ask() >= 1
    (request,) = [one for one in world.requests() if one.message_id == sent.id]
    return asyncio.run(IndexRequests(world.url).ranking(request.sequence))


def stalled(world: World, gmps: int = 0b1, nonce: int = 11, **changes: int) -> Message:
    sent = world.send(sent_message(nonce, sent_at=world.now, **changes), gmps=gmps)
    world.let_pass(100)
    return sent


def test_ranking_prefers_healthy_then_untried_gmps(world: World) -> None:
    history(world, hyperlane=1, axelar=None, wormhole=9, layerzero=3, ccip=5)
    assert ranking(world, stalled(world, gmps=0b1)) == (L, C, W, A, H)


def test_gmp_of_a_retry_is_ranked_by_its_own_time(world: World) -> None:
    silent, retried_over, slow = sent_message(1, quorum=1), sent_message(2, quorum=1), sent_message(3, quorum=1)
    world.happens(world.alpha, *(routed(one, gmps=0b10) for one in (silent, retried_over)), routed(slow, gmps=0b100))
    world.let_pass(60, world.alpha)
    world.happens(world.alpha, retried(retried_over, 1, gmps=0b1000))
    world.let_pass(2, world.alpha)
    world.happens(world.beta, *(received(*one) for one in ((retried_over, L), (slow, W))), executed(slow))
    with world.reader() as reader, reader.engine.connect() as connection:
        dispatches = recent_dispatches(connection, 50, (world.alpha.chain_id, world.beta.chain_id))
    seconds = {one.gmp: one.seconds for one in dispatches if one.seconds is not None}
    assert seconds == {L: 2, W: 62}
    world.let_pass(200)
    assert ranking(world, stalled(world, gmps=0b1, nonce=4))[:2] == (L, W)


def test_unused_gmp_is_ranked_neutrally(world: World) -> None:
    messages = [sent_message(nonce, quorum=1) for nonce in range(1, 5)]
    world.happens(world.alpha, *[routed(one, gmps=0b10011) for one in messages])  # Hyperlane, Axelar, CCIP
    world.happens(world.beta, *[received(one, C) for one in messages], *[executed(one) for one in messages])
    world.let_pass(200)
    assert ranking(world, stalled(world, gmps=0b1, nonce=5)) == (C, W, L, A, H)


def test_a_gmp_that_has_delivered_is_not_asked_for_again(world: World) -> None:
    sent = world.send(sent_message(quorum=2), gmps=0b11)
    world.happens(world.beta, received(sent, A))
    world.let_pass(100)
    assert ranking(world, sent) == (W, L, C, H)


def test_revoked_or_paused_gmp_is_left_out(world: World) -> None:
    world.happens(world.alpha, adapter_revoked(A, bytes([A]) * 20), gmp_pause_set(W, world.now + 50))
    world.happens(world.beta, adapter_revoked(L, bytes([L]) * 20), gmp_pause_set(C, world.now + 500))
    assert ranking(world, stalled(world, nonce=1)) == (W, H)  # Wormhole's pause has ended by then


def test_gmp_outside_the_recipients_policy_is_left_out(world: World) -> None:
    recipient = sent_message().recipient
    world.happens(world.beta, policy_set(recipient, world.alpha.chain_id, 0b00011), policy_set(bytes(32), 1, 0b1))
    first = stalled(world, nonce=1)
    assert ranking(world, first) == (A, H)
    world.happens(world.beta, policy_set(recipient, world.alpha.chain_id, 0, quorum=0))
    assert ranking(world, stalled(world, nonce=2)) == (A, W, L, C, H)


def test_unregistered_gmps_seen_on_the_lane_count(tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path / 'index.db'}")
    for chain in (world.alpha, world.beta):
        world.read(chain)
    history(world, hyperlane=1, axelar=2)
    assert ranking(world, stalled(world, gmps=0b100)) == (H, A, L, C, W)
    world.store.close()


def test_the_healthiest_gmp_delivered_most_and_then_soonest() -> None:
    some = ((1, 9), (1, None), (2, 5), (3, 7), (4, None))
    dispatches = [
        *(Dispatch(gmp=gmp, seconds=seconds) for gmp, seconds in some),
        *(Dispatch(gmp=2, seconds=5) for _ in range(199)),
    ]
    health = gmp_health(dispatches)
    assert [
        (gmp, health[gmp].dispatched, health[gmp].delivered, health[gmp].latency_p50)
        for gmp in sorted(health, key=lambda gmp: health[gmp].rank)
    ] == [(2, 200, 200, 5), (3, 1, 1, 7), (1, 2, 1, 9), (4, 1, 0, None)]
