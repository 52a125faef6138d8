"""How many retry requests each lane may get, whatever the other lanes are in need of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bridge.protocol.message import Message
from tests.unit.indexer.clock import POLICY, World, indexed_world
from tests.unit.indexer.logs import ALPHA, BETA, ROUTERS
from tests.unit.indexer.world import routed, sent_message

MANY = 600  # more than are written in one transaction


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with indexed_world(tmp_path) as made:
        yield made


def other_way(nonce: int) -> Message:
    routers = {"source_router": ROUTERS[BETA].rjust(32, b"\0"), "destination_router": ROUTERS[ALPHA].rjust(32, b"\0")}
    return sent_message(nonce, source_chain=BETA, destination_chain=ALPHA, **routers)


def requested(world: World) -> Counter[tuple[int, int]]:
    return Counter((one.source_chain, one.destination_chain) for one in world.requests())


def test_lane_stays_within_its_ceiling(world: World) -> None:
    for nonce in range(1, 13):
        world.send(sent_message(nonce))
    world.let_pass(100)
    assert [world.ask(), world.ask()] == [5, 0]
    world.let_pass(60)
    assert world.ask() == 5
    world.let_pass(60)
    assert world.ask() == 2
    assert len({request.message_id for request in world.requests()}) == 12


def test_overdue_lane_takes_nothing_from_another(
    world: World,
) -> None:
    world.happens(world.alpha, *[routed(sent_message(nonce)) for nonce in range(1, MANY + 1)])
    world.let_pass(1)
    world.happens(world.beta, routed(other_way(1)), routed(other_way(2)))
    world.let_pass(100)
    with capture_logs() as logs:
        assert [world.ask(), world.ask(), world.ask()] == [POLICY.requests_per_lane_minute + 2, 0, 0]
    assert requested(world) == {(ALPHA, BETA): POLICY.requests_per_lane_minute, (BETA, ALPHA): 2}
    warnings = [(line["lane"], line["waiting"]) for line in logs if line["log_level"] == "warning"]
    assert warnings == [((ALPHA, BETA), MANY - POLICY.requests_per_lane_minute)] * 3


def test_lanes_take_turns_across_transactions(world: World) -> None:
    world.happens(world.alpha, *[routed(sent_message(nonce)) for nonce in range(1, MANY + 1)])
    world.let_pass(1)
    world.happens(world.beta, *[routed(other_way(nonce)) for nonce in range(1, 11)])
    world.let_pass(100)
    generous = replace(POLICY, requests_per_lane_minute=MANY)
    assert world.ask(generous) == 500
    assert requested(world) == {(ALPHA, BETA): 490, (BETA, ALPHA): 10}
    assert world.ask(generous) == MANY - 490
