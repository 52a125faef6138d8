"""Lanes and GMPs in figures: what is drawn, and what redundancy cost."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from bridge.domain.ports import TransientError
from bridge.protocol.indexed import FeePaid, GmpCost, Spending
from bridge.web.plots import Bar, bars
from indexer.jobs.verify import LaneCheck, Verdict, keep
from indexer.transforms.lanes import Direction, LaneTotal
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import executed, received, routed, sent_message
from tests.unit.web.explorer import World, text_of


@pytest.mark.finding("E12")
def test_lanes_and_gmps_say_what_redundancy_cost_in_money_or_why_that_is_unknown(world: World) -> None:
    sent = sent_message(1, quorum=1)
    world.alpha.mine(routed(sent, gmps=0b11))
    world.beta.mine(received(sent, 1), executed(sent))
    world.beta.mine(received(sent, 2, receipts=2))
    world.index()
    lane = (ALPHA, BETA)
    spent = Spending(
        deliveries=2,
        gmps=(
            GmpCost(lane=lane, gmp=1, deliveries=1, late=0, gas_p50=90, gas_paid=3 * 10**15, late_gas_paid=0),
            GmpCost(lane=lane, gmp=2, deliveries=1, late=1, gas_p50=30, gas_paid=10**15, late_gas_paid=10**15),
        ),
        fees=(FeePaid(lane=lane, gmps=(1, 2), messages=1, fees_p50=2_500, fees=2_500),),
    )
    explorer = world.explorer(spending=lambda: spent)
    body = explorer.get("/lanes").text
    shown = text_of(body)
    assert "The newest 2 cost 0.004 ETH in gas, of which late ones cost 0.001 ETH (25 %)" in shown
    assert "hyperlane 0.003 ETH; axelar 0.001 ETH" in body
    assert "hyperlane + axelar 2500 wei" in body
    assert "1, for 0.001 ETH" in text_of(explorer.get("/gmps").text)

    def away() -> Spending:
        raise TransientError("https://rpc.alpha.example answers <nonsense>")

    for path in ("/lanes", "/gmps"):
        body = world.explorer(spending=away).get(path).text
        assert "a chain gives no usable answer" in body
        assert "rpc.alpha" not in body, "hosts and what nodes say are for the log"


def test_lanes_and_gmps_are_drawn_from_the_newest_messages(world: World) -> None:
    for nonce in range(1, 6):
        sent = sent_message(nonce, quorum=1)
        world.alpha.mine(routed(sent, gmps=0b11))
        world.beta.mine(received(sent, 1), executed(sent))
        world.beta.mine(received(sent, 2, receipts=2))
    world.index()
    explorer = world.explorer()
    lanes = explorer.get("/lanes").text
    assert "5 executed of the newest 5" in text_of(lanes)
    assert ">2.5<" not in lanes, "half a message"
    assert lanes.count("<svg") == 2
    assert "p95 to execution" in lanes
    shown = text_of(lanes)
    assert "5 of 10 deliveries came after the message was executed (50 %)" in shown
    assert "not compared yet" in shown
    compared = LaneCheck(
        chain_id=ALPHA,
        direction=Direction.SENT,
        other_chain=BETA,
        block=9,
        block_hash=bytes(32),
        indexed=LaneTotal(5, 1),
        router=LaneTotal(6, 2),
        verdict=Verdict.DIFFERENT,
        reason="blocks 1…2: 1 logs missing, 0 too many",
    )
    executed_on_beta = replace(compared, chain_id=BETA, direction=Direction.EXECUTED, other_chain=ALPHA)
    equal = replace(executed_on_beta, verdict=Verdict.EQUAL, reason="")
    keep(world.store.engine, [compared, equal], world.now)
    shown = text_of(explorer.get("/lanes").text)
    assert "sent on alpha: different blocks 1…2: 1 logs missing, 0 too many; index 5, router 6" in shown
    assert "executed on beta: equal 5 messages, up to block 9" in shown
    gmps = text_of(explorer.get("/gmps").text)
    assert "axelar 100.0 % delivered accepted 5 delivered 5 too late to matter 5" in gmps
    assert "hyperlane 100.0 % delivered accepted 5 delivered 5 too late to matter 0" in gmps


@pytest.mark.parametrize("height", [1, 7, 2_300, 12_000, 700_000, 4_000_000, 6 * 10**9])
def test_the_numbers_of_an_axis_fit_beside_the_plot_on_a_narrow_screen(height: float) -> None:
    drawn = bars("Messages", [Bar("now", (("bar-a", height),))], "messages")
    labels = re.findall(r'<text class="tick" x="(\d+)" y="([\d.]+)" text-anchor="end">([\d.kMG]+)</text>', drawn)
    assert labels
    for right, baseline, label in labels:
        assert len(label) * 11.5 <= float(right), label  # the width of a digit that is 20 high
        assert float(baseline) >= 15, label  # its height
