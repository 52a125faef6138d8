"""Lanes and GMPs in figures: what is drawn, and what redundancy cost."""

from __future__ import annotations

import re
import threading
from dataclasses import replace

import pytest

from bridge.domain.ports import TransientError
from bridge.protocol.indexed import FeePaid, GmpCost, Spending
from bridge.web.plots import Bar, bars, spread
from indexer.jobs.verify import LaneCheck, Verdict, keep
from indexer.transforms.lanes import Direction, LaneTotal
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import START, executed, received, retried, routed, sent_message
from tests.unit.web.explorer import World, page, patient, text_of


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
    gmps = text_of(explorer.get("/gmps").text)
    assert "0.001 ETH for its newest 1 delivery, of it 0.001 ETH too late" in gmps

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
    for name, late in {"axelar": 5, "hyperlane": 0}.items():
        card = gmps.partition(f"{name} 100.0 % delivered accepted 5 delivered 5 p50 to receipt ")[2]
        assert f"too late to matter {late} delivered again 0" in card[:120], name


def test_cards_and_charts_of_gmps_are_of_the_span_and_say_the_same_percentiles(world: World) -> None:
    old, *new = [sent_message(nonce, quorum=1) for nonce in (1, 2, 3)]
    world.alpha.mine(routed(old, gmps=0b1), time=START - 7_200)
    world.beta.mine(received(old, 1), executed(old), time=START - 7_100)
    for sent, seconds in zip(new, (39, 41), strict=True):
        world.alpha.mine(routed(sent, gmps=0b1), time=START - 100)
        world.beta.mine(received(sent, 1), executed(sent), time=START - 100 + seconds)
    world.index()
    explorer = world.explorer()
    hour, day = (explorer.get(f"/gmps?span={span}").text for span in ("1h", "24h"))
    assert "GMPs messages of the last 1h" in text_of(hour)
    # From 32 s on the tallies round down by at most a sixteenth: all figures of the page do.
    few = "of 2 only"
    assert (
        f"accepted 2 delivered 2 p50 to receipt 38 s {few} p95 to receipt 40 s {few} p99 to receipt 40 s {few}"
        in text_of(hour)
    )
    assert "p50 38 s, p95 40 s, p99 40 s" in text_of(hour.partition('aria-label="hyperlane over time"')[2])
    assert "accepted 3 delivered 3 p50 to receipt 40 s of 3 only p95 to receipt 1 m 40 s" in text_of(day)


def test_a_gmp_that_was_asked_in_a_retry_is_shown_with_its_own_seconds(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent, gmps=0b10), time=START)
    world.alpha.mine(retried(sent, 1, gmps=0b1), time=START + 12)
    world.beta.mine(received(sent, 1), executed(sent), time=START + 14)
    world.index()
    world.now = START + 14
    said = text_of(world.explorer().get("/gmps?span=1h").text)
    assert "hyperlane 100.0 % delivered accepted 1 delivered 1 p50 to receipt 2 s" in said
    assert "axelar 0.0 % delivered accepted 1 delivered 0 too late" in said
    assert "2 s after retry 1" in text_of(world.explorer().get(page(sent)).text)


def test_figures_that_are_of_a_sample_say_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.queries.lanes.SAMPLE", 2)
    for nonce in (1, 2, 3):
        sent = sent_message(nonce, quorum=1)
        world.alpha.mine(routed(sent, gmps=0b11))
        world.beta.mine(received(sent, 1), executed(sent))
        world.beta.mine(received(sent, 2, receipts=2))
    world.index()
    said = text_of(world.explorer().get("/gmps").text)
    assert "is of the newest 2 messages of this time" in said
    card = said.partition("axelar 100.0 % delivered accepted 3 delivered 3")[2]
    assert "too late to matter 2 delivered again 0" in card[:140]


def test_a_page_whose_history_is_being_read_loads_again_by_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("/", "/gmps"):
        with monkeypatch.context() as patch:
            read = threading.Event()
            patch.setattr("bridge.web.app.health.history", lambda *_, read=read: read.wait(60))
            assert 'http-equiv="refresh"' in world.explorer(patient(patience=0.0)).get(path).text, path
            read.set()
        assert 'http-equiv="refresh"' not in world.explorer().get(path).text, path


@pytest.mark.parametrize("longest", [0, 1, 9, 39, 40, 250, 100_000])
def test_the_bars_of_a_histogram_are_of_whole_seconds_and_hold_every_message(longest: int) -> None:
    drawn = spread("Seconds", [(0, 2), (longest, 3)], [("p50", longest), ("p95", longest)])
    found = re.findall(r"<title>(\d+)(?:–(\d+))? s: (\d+) messages</title>", drawn)
    assert 10 <= len(found) <= 40
    assert sum(int(number) for _, _, number in found) == 5
    firsts = [int(first) for first, _, _ in found]
    assert firsts == list(range(0, len(found) * firsts[1], firsts[1]))
    assert drawn.count(">p50, p95</text>") == 1, "names that would touch stand together"


def test_what_is_not_yet_there_has_another_colour_than_a_95th_percentile(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent, gmps=0b1))
    world.index()
    body = world.explorer().get("/").text
    assert '<span class="key bar-b">not yet</span>' in body
    assert '<span class="key bar-c">up to the 95th percentile</span>' in body


@pytest.mark.parametrize("height", [1, 7, 2_300, 12_000, 700_000, 4_000_000, 6 * 10**9])
def test_the_numbers_of_an_axis_fit_beside_the_plot_on_a_narrow_screen(height: float) -> None:
    drawn = bars("Messages", [Bar("now", (("bar-a", height),))], "messages")
    labels = re.findall(r'<text class="tick" x="(\d+)" y="([\d.]+)" text-anchor="end">([\d.kMG]+)</text>', drawn)
    assert labels
    for right, baseline, label in labels:
        assert len(label) * 11.5 <= float(right), label  # the width of a digit that is 20 high
        assert float(baseline) >= 15, label  # its height
