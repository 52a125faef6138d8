"""The page of whom a lane trusts: what the command says, and what is wrong when nobody can say it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.domain.ports import UnansweredError
from tests.unit.web.explorer import World, text_of

SETS = {"smallest": 1, "complete": True, "sets": [{"size": 1, "groups": [], "text": "<b>Cluster</b>"}]}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.relayer.close()
    made.store.close()


def value(lane: str) -> dict[str, Any]:
    finding = {"code": "ONE_OPERATOR", "severity": "critical", "gmp": None, "text": "one operator is enough"}
    direction = {
        "direction": "alpha → beta",
        "grade": "F",
        "quorum": 1,
        "forgers": SETS,
        "gmps": [
            {"gmp": "hyperlane", "read": True, "verifiers": SETS, "finality": "final blocks"},
            {"gmp": "signet", "read": False, "reason": "this version has no reader of it"},
        ],
        "findings": [finding],
        "stops": ["the guardian"],
        "couldChange": ["the owner"],
    }
    return {"lane": lane, "grade": "F", "directions": [direction]}


def test_the_page_says_who_could_forge_and_what_is_not_read(world: World) -> None:
    asked: list[str] = []

    def trust(lane: str) -> dict[str, Any]:
        asked.append(lane)
        return value(lane)

    explorer = world.explorer(trust=trust)
    page = explorer.get("/lanes/alpha/beta/trust")
    said = text_of(page.text)
    assert page.status_code == 200
    assert "grade F" in said
    assert "ONE_OPERATOR : one operator is enough" in said
    assert "&lt;b&gt;Cluster" in page.text, "names come from files"
    assert "signet not read this version has no reader of it" in said
    assert "waybill trust alpha:beta" in said
    explorer.get("/lanes/alpha/beta/trust")
    assert asked == ["alpha:beta"], "visitors do not make the chains be asked again"


def test_a_lane_that_is_none_and_a_chain_without_an_answer_are_said(world: World) -> None:
    def away(_lane: str) -> dict[str, Any]:
        raise UnansweredError("https://secret:key@rpc.example is away")

    explorer = world.explorer(trust=away)
    assert explorer.get("/lanes/alpha/nowhere/trust").status_code == 404
    page = explorer.get("/lanes/alpha/beta/trust")
    assert page.status_code == 200
    assert "no usable answer" in page.text
    assert "secret" not in page.text


def test_an_explorer_without_chains_says_that_it_has_nothing_yet(world: World) -> None:
    assert "being read" in world.explorer().get("/lanes/beta/alpha/trust").text
