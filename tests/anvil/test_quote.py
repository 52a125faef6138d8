"""`waybill quote`: prices of real GMPs beside what an index knows of a lane."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from sqlalchemy import update

from bridge.devnet import Devnet
from bridge.protocol.contracts import ROUTER
from bridge.protocol.message import Message
from indexer.store import tables
from indexer.store.store import Store
from tests.anvil.command import Waybill, new_home
from tests.anvil.rpc import mine, rpc
from tests.unit.indexer.world import SimulatedChain, apply, received, routed, sent_message

pytestmark = pytest.mark.long

HYPERLANE, AXELAR, WORMHOLE = 1, 2, 3
BITS = 0b111
MESSAGES = 200
HOUR = 3_600


@pytest.fixture
def waybill(devnet: Devnet, tmp_path: Path) -> Waybill:
    """The command, with an index of a message an hour over three GMPs, of which Axelar is late with every fourth."""
    waybill = Waybill(new_home(devnet, tmp_path))
    alpha, beta = (SimulatedChain(one.chain_id) for one in devnet.deployment.chains[:2])
    begin = int(time.time()) - (MESSAGES + 1) * HOUR
    for number in range(1, MESSAGES + 1):
        at = begin + number * HOUR
        sent: Message = sent_message(number, sent_at=at)
        alpha.mine(routed(sent, gmps=BITS), time=at)
        late = 90 if number % 4 == 0 else 0
        beta.mine(received(sent, HYPERLANE), received(sent, WORMHOLE), time=at + 5)
        beta.mine(received(sent, AXELAR), time=at + 6 + late)
    for chain in (alpha, beta):
        chain.mine(time=begin + MESSAGES * HOUR + 600)
    folder = waybill.home / ".waybill" / devnet.deployment.network
    folder.mkdir(parents=True)
    store = Store(f"sqlite:///{folder / 'index.db'}")
    for chain in (alpha, beta):
        apply(store, chain)
    store.close()
    return waybill


def demand(devnet: Devnet, quorum: int) -> None:
    """Has the example inbox demand so many receipts of alpha's messages, as its own call would."""
    alpha, beta = devnet.deployment.chains[:2]
    url, inbox = beta.rpc_urls[0], beta.examples["inbox"]
    data = ROUTER.encode("setPolicy", alpha.chain_id, quorum, BITS)
    rpc(url, "anvil_impersonateAccount", inbox)
    rpc(url, "anvil_setBalance", inbox, hex(10**18))
    rpc(url, "eth_sendTransaction", {"from": inbox, "to": beta.router, "data": "0x" + data.hex()})
    mine(url)


def test_the_cheapest_choice_that_history_shows_to_meet_the_goal_is_named(waybill: Waybill, devnet: Devnet) -> None:
    refused = waybill("quote", "--within", "1m", "--confidence", "90", "--max-corrupt", "1")
    assert refused.code == 1
    assert "1 of alpha's GMPs that lie can forge a message" in refused.err
    assert "setPolicy with a quorum of 2" in refused.err
    demand(devnet, 2)
    quoted = waybill.json("quote", "--within", "1m", "--confidence", "90", "--max-corrupt", "1")
    assert quoted["messages"] == MESSAGES
    meeting = [one for one in quoted["choices"] if one["meets"]]
    assert quoted["cheapest"] == min(meeting, key=lambda one: one["fee"])
    assert quoted["cheapest"]["gmps"] == ["hyperlane", "wormhole"]
    assert quoted["cheapest"]["quorum"] == 2
    axelar = next(one for one in quoted["choices"] if one["gmps"] == ["hyperlane", "axelar"])
    assert (axelar["messages"], axelar["inTime"], axelar["meets"]) == (MESSAGES, MESSAGES * 3 // 4, False)
    assert not [one for one in quoted["choices"] if "ccip" in one["gmps"]]  # it does not count for this recipient
    assert (quoted["demanded"], {one["quorum"] for one in quoted["choices"]}) == (2, {2, 3})
    fee = waybill.json("send", "--payload", "x" * 100, "--gmps", "hyperlane,wormhole", "--quorum", "2")["fee"]
    assert quoted["cheapest"]["fee"] == fee
    said = waybill("quote", "--within", "1m", "--confidence", "90", "--max-corrupt", "1")
    assert "--gmps hyperlane,wormhole --quorum 2" in said.err


def test_too_little_data_and_a_goal_that_nothing_meets_are_said(waybill: Waybill) -> None:
    ended = waybill("quote", "--within", "1m", "--confidence", "99.9")
    assert ended.code == 1
    assert "too little is known" in ended.err
    assert "is worth 200 of them" in ended.err
    ended = waybill("quote", "--within", "2s", "--confidence", "90")
    assert ended.code == 1
    assert "no choice is shown to bring 90 % of messages to their quorum within 2s" in ended.err
    ended = waybill("quote", "--within", "soon")
    assert ended.code == 2
    assert "'soon' is no time" in ended.err


def test_an_index_that_is_behind_is_said_and_judges_nothing_that_it_has_not_read(
    waybill: Waybill, devnet: Devnet
) -> None:
    store = Store(f"sqlite:///{waybill.home / '.waybill' / devnet.deployment.network / 'index.db'}")
    beta = tables.chains.c
    with store.engine.begin() as connection:
        behind = int(time.time()) - MESSAGES * HOUR // 2
        other = devnet.deployment.chains[1].chain_id
        connection.execute(update(tables.chains).where(beta.chain_id == other).values(block_time=behind))
    store.close()
    ended = waybill("quote", "--within", "1m", "--confidence", "50", "--json")
    assert "what came later is unknown" in ended.err
    assert max(one["messages"] for one in ended.value["choices"]) == MESSAGES // 2
