"""`waybill quote`: prices of real GMPs beside what an index knows of a lane."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bridge.devnet import Devnet
from bridge.protocol.message import Message
from indexer.store.store import Store
from tests.anvil.command import Waybill, new_home
from tests.unit.indexer.world import SimulatedChain, apply, received, routed, sent_message

HYPERLANE, AXELAR, WORMHOLE = 1, 2, 3
BITS = 0b111
MESSAGES = 200


@pytest.fixture
def waybill(devnet: Devnet, tmp_path: Path) -> Waybill:
    """The command, with an index of 200 messages over three GMPs, of which Axelar is late with every fourth."""
    waybill = Waybill(new_home(devnet, tmp_path))
    alpha, beta = (SimulatedChain(one.chain_id) for one in devnet.deployment.chains[:2])
    begin = int(time.time()) - 50_000
    for number in range(1, MESSAGES + 1):
        at = begin + number * 100
        sent: Message = sent_message(number, sent_at=at)
        alpha.mine(routed(sent, gmps=BITS), time=at)
        late = 90 if number % 4 == 0 else 0
        beta.mine(received(sent, HYPERLANE), received(sent, WORMHOLE), time=at + 5)
        beta.mine(received(sent, AXELAR), time=at + 6 + late)
    folder = waybill.home / ".waybill" / devnet.deployment.network
    folder.mkdir(parents=True)
    store = Store(f"sqlite:///{folder / 'index.db'}")
    for chain in (alpha, beta):
        apply(store, chain)
    store.close()
    return waybill


def test_the_cheapest_choice_that_history_shows_to_meet_the_goal_is_named(waybill: Waybill) -> None:
    quoted = waybill.json("quote", "--within", "1m", "--confidence", "90", "--max-corrupt", "1")
    assert quoted["messages"] == MESSAGES
    meeting = [one for one in quoted["choices"] if one["meets"]]
    assert quoted["cheapest"] == min(meeting, key=lambda one: one["fee"])
    assert quoted["cheapest"]["gmps"] == ["hyperlane", "wormhole"]
    assert quoted["cheapest"]["quorum"] == 2
    axelar = next(one for one in quoted["choices"] if one["gmps"] == ["hyperlane", "axelar"])
    assert (axelar["messages"], axelar["inTime"], axelar["meets"]) == (MESSAGES, MESSAGES * 3 // 4, False)
    assert all(one["messages"] == 0 for one in quoted["choices"] if "ccip" in one["gmps"])
    fee = waybill.json("send", "--payload", "x" * 100, "--gmps", "hyperlane,wormhole", "--quorum", "2")["fee"]
    assert quoted["cheapest"]["fee"] == fee
    said = waybill("quote", "--within", "1m", "--confidence", "90", "--max-corrupt", "1")
    assert "--gmps hyperlane,wormhole --quorum 2" in said.err


def test_too_little_data_and_a_goal_that_nothing_meets_are_said(waybill: Waybill) -> None:
    ended = waybill("quote", "--within", "1m", "--confidence", "99.9")
    assert ended.code == 1
    assert "too little is known" in ended.err
    assert "200" in ended.err
    ended = waybill("quote", "--within", "2s", "--confidence", "90")
    assert ended.code == 1
    assert "no choice is shown to bring 90 % of messages to their quorum within 2s" in ended.err
    ended = waybill("quote", "--within", "soon")
    assert ended.code == 2
    assert "'soon' is no time" in ended.err
