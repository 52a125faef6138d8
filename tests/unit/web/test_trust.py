"""The page of whom a lane trusts: what the command says, and what is wrong when nobody can say it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.domain.ports import UnansweredError
from tests.unit.indexer.world import routed, sent_message
from tests.unit.web.explorer import World, patient, text_of

KEY = "0x84eA74d481Ee0A5332c457a4d796187F6Ba67fEB"


def group(count: int, *among: str) -> dict[str, Any]:
    return {"size": count, "groups": [{"count": count, "among": list(among)}], "text": "in a terminal"}


SETS = {
    "smallest": 1,
    "complete": True,
    "sets": [group(1, "<b>Cluster</b>"), group(1, KEY), group(2, "0xa", "0xb", "0xc"), group(2, "0xa", "0xd", "0xe")],
}


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
        "because": "of a critical finding: ONE_OPERATOR",
        "quorum": 1,
        "roles": {KEY: "only verifier of layerzero", "0xd": "owner of Waybill's router"}
        | dict.fromkeys(("0xa", "0xb", "0xc"), "verifier of hyperlane"),
        "forgers": SETS,
        "gmps": [
            {"gmp": "hyperlane", "read": True, "verifiers": SETS, "finality": "final blocks"},
            {"gmp": "signet", "read": False, "reason": "this version has no reader of it"},
        ],
        "findings": [finding, finding | {"code": "GUARDIAN_MISSING", "severity": "serious"}],
        "stops": ["the guardian"],
        "couldChange": ["the owner"],
    }
    return {"lane": lane, "grade": "F", "directions": [direction, direction | {"direction": "beta → alpha"}]}


def test_the_page_says_who_could_forge_and_what_is_not_read(world: World) -> None:
    asked: list[str] = []

    def trust(lane: str) -> dict[str, Any]:
        asked.append(lane)
        return value(lane)

    world.alpha.mine(routed(sent_message()))
    world.index()
    explorer = world.explorer(trust=trust)
    assert "grade" not in text_of(explorer.get("/lanes").text).partition("whom it trusts")[2][:20]
    assert not asked, "a list makes no chain be asked"
    page = explorer.get("/lanes/alpha/beta/trust")
    said = text_of(page.text)
    assert page.status_code == 200
    assert "grade F" in said
    assert "ONE_OPERATOR : one operator is enough" in said
    assert "&lt;b&gt;Cluster" in page.text, "names come from files"
    assert "F because of a critical finding: ONE_OPERATOR." in said
    assert "B : notices only." in said, "the scale of grades"
    assert f"1 operator , only verifier of layerzero: {KEY}" in said
    assert "2 operators , 2 of these 3, each a verifier of hyperlane: 0xa , 0xb , 0xc" in said
    assert "2 of these 3: verifier of hyperlane 0xa , owner of Waybill's router 0xd , 0xe" in said
    assert '<span class="state bad">critical</span>' in page.text
    assert '<span class="state warn">serious</span>' in page.text, "another colour than a critical one"
    assert "1 GMP must deliver: that is the floor" in said
    assert "The way back: beta → alpha" in said
    for word in ("floor", "tripwire", "DVN", "ISM"):
        assert f"<dt>{word}</dt>" in page.text.partition("<footer")[2]
    assert "signet not read this version has no reader of it" in said
    assert "waybill trust alpha:beta" in said
    assert "1 message, whom it trusts: grade F" in text_of(explorer.get("/lanes").text)
    assert f'href="/address/{KEY}"' in page.text
    assert "Known as: only verifier of layerzero." in text_of(explorer.get(f"/address/{KEY}").text)
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


def test_a_page_that_waits_for_the_chains_loads_again_by_itself(world: World) -> None:
    told = threading.Event()

    def slow(lane: str) -> dict[str, Any]:
        told.wait(60)
        return value(lane)

    explorer = world.explorer(patient(patience=0.0), trust=slow)
    body = explorer.get("/lanes/alpha/beta/trust").text
    assert 'http-equiv="refresh"' in body
    assert "The page loads again by itself" in body
    told.set()
    until = time.monotonic() + 60
    while 'http-equiv="refresh"' in (body := explorer.get("/lanes/alpha/beta/trust").text):
        assert time.monotonic() < until
    assert "grade F" in text_of(body)
