"""The first page answers whether all is well; what is not stands there with a way to more."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from bridge.domain.lanes import Lane, LaneChange, LaneState
from bridge.domain.observations import BlockRef, ObservedRange
from bridge.protocol.gmps import Gmp
from bridge.queries.health import SPANS
from bridge.store.accusations import Accusation, AccusationState
from tests.unit.dead_letters.world import DeadLetterService
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import (
    START,
    apply,
    executed,
    failed,
    gmp_pause_set,
    received,
    retried,
    routed,
    sent_message,
)
from tests.unit.web.explorer import World, text_of

ACCUSED = Accusation(
    chain_id=BETA,
    gmp=int(Gmp.AXELAR),
    message_id=bytes(31) + b"\x0a",
    kind="RECEIPT_WITHOUT_CREATION",
    evidence={},
    found_at=START,
    state=AccusationState.PAUSED,
    paused_until=START + 50,
)


def home(world: World, accused: Accusation | None = None, **sources: Any) -> str:
    if accused is not None:
        world.relayer.accusations.add(accused)
        world.relayer.accusations.save(accused)
    return world.explorer(**sources).get("/").text


def test_a_network_without_a_concern_is_well(world: World) -> None:
    sent = sent_message(1, quorum=1)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1), executed(sent))
    world.index()
    body = home(world)
    assert "Is it well? devnet" in text_of(body)
    assert "Yes Nothing is stalled" in text_of(body)
    assert "<title>All is well" in body
    assert "concerns" not in body


def test_without_an_index_nothing_is_called_well(world: World) -> None:
    said = text_of(home(world, has_stores=False))
    assert "No index has run yet" in said
    assert "Nothing is stalled" not in said


def test_without_an_index_a_relayer_that_has_run_is_known_and_nothing_is_said_to_be_read(world: World) -> None:
    position = BlockRef(7, bytes(32))
    world.relayer.observations.record(
        ObservedRange(chain_id=ALPHA, previous=None, position=position, watched="", observed_at=START)
    )
    said = text_of(home(world, has_index=False))
    assert "No index has run yet. The relayer has read alpha up to block 7." in said
    assert "is being read" not in said


def test_what_is_not_well_is_named_and_led_to_and_the_worst_is_first(world: World) -> None:
    world.alpha.mine(routed(sent_message(1, quorum=1)))
    world.beta.mine(gmp_pause_set(int(Gmp.WORMHOLE), START + 10_000))
    world.index()
    lane = Lane(ALPHA, BETA)
    change = LaneChange(lane=lane, state=LaneState.PAUSED, reason="a look", by="Ann", at=START)
    world.relayer.lanes.change(change)
    world.now = START + 20
    body = home(world, accused=ACCUSED)
    found = re.findall(
        r'<li><span class="state (bad|warn)">.*?<a href="([^"]+)">(.*?)</a>(?: <code>(.*?)</code>)?', body
    )
    assert [(kind, path) for kind, path, *_ in found] == [("bad", "/gmps"), ("warn", "/gmps"), ("warn", "/lanes")]
    assert found[0][2:] == (
        "The tripwire caught axelar lying on beta",
        f"waybill message explain 0x{ACCUSED.message_id.hex()}",
    )
    assert found[1][2] == "wormhole is paused on beta"
    assert found[2][2] == "The relayer holds back alpha → beta: paused"
    assert '<p class="big">No</p>' in body

    for chain in world.chains:
        chain.mine(time=START + 90)
    world.index()
    world.now = START + 101  # the tripwire's pause is over
    said = text_of(home(world, accused=ACCUSED))
    assert "lying" not in said
    assert "Mostly" in said
    assert "lying on beta, and it is not paused" in text_of(
        home(world, accused=replace(ACCUSED, state=AccusationState.NOT_PAUSED))
    )


def test_a_stalled_message_is_a_concern_and_so_is_an_index_that_is_behind(world: World) -> None:
    world.alpha.mine(routed(sent_message(1, quorum=1)))
    for chain in world.chains:
        chain.mine(time=START + 140)
    world.index()
    world.now = START + 150
    body = home(world)
    assert "Messages whose quorum is late: 1" in text_of(body)
    assert 'href="/messages?status=STALLED"' in body
    assert "behind" not in body.partition('aria-label="Health"')[2].partition("</section>")[0]

    world.now = START + 300
    said = text_of(home(world))
    assert all(f"The index is 160 s behind {name}" in said for name in ("alpha", "beta"))
    assert "Messages of which too little is known" in said


def test_a_dead_letter_that_waits_is_a_concern(world: World) -> None:
    sent = sent_message()
    world.alpha.mine(routed(sent, gmps=0b1))
    world.index()
    service = DeadLetterService(store=world.relayer)
    asyncio.run(service.die(sent, error="no gas"))
    body = home(world, dead_letters=lambda: service.dead_letters)
    assert "Deliveries that were given up and wait for a decision: 1" in text_of(body)
    assert 'href="/dead-letters?status=PENDING_REVIEW"' in body


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("path", ["/", "/gmps"])
def test_each_lane_and_gmp_has_its_history_beside_the_others(world: World, path: str, span: str) -> None:
    for nonce, gmps in ((1, 0b10), (2, 0b110)):
        sent = sent_message(nonce, quorum=1)
        world.alpha.mine(routed(sent, gmps=gmps))
        if nonce == 1:
            world.beta.mine(received(sent, int(Gmp.AXELAR)), executed(sent))
    world.index()
    body = world.explorer().get(f"{path}?span={span}").text
    sections = {
        name: text_of(content)
        for name, content in re.findall(r'<section aria-label="([^"]+) over time">(.*?)</section>', body, re.DOTALL)
    }
    lanes = {"alpha → beta"} if path == "/" else set()
    assert sections.keys() == {"axelar", "wormhole", *lanes}
    assert "2 messages, 1 arrived" in sections["axelar"]
    assert "1 message, 0 arrived" in sections["wormhole"]
    assert all("1 arrived" in sections[lane] for lane in lanes)


def test_the_gmps_of_one_lane_are_compared_without_those_of_the_others(world: World) -> None:
    sent = sent_message(1, quorum=1)
    world.alpha.mine(routed(sent, gmps=0b110))
    world.beta.mine(received(sent, int(Gmp.AXELAR)), executed(sent))
    world.index()
    explorer = world.explorer()
    there, back = (text_of(explorer.get(f"/gmps?span=1h&lane={lane}").text) for lane in ("alpha:beta", "beta:alpha"))
    assert "messages of the last 1h, alpha → beta" in there
    assert "1 message, 1 arrived" in there
    assert "No GMP took a message in this time." in back
    assert "1 message, 1 arrived" not in back
    refused = explorer.get("/gmps?lane=alpha:gamma")
    assert refused.status_code == 400
    assert "it is one of alpha:beta, beta:alpha" in text_of(refused.text)


def test_a_span_that_there_is_not_is_refused(world: World) -> None:
    for path in ("/", "/gmps"):
        answer = world.explorer().get(f"{path}?span=forever")
        assert answer.status_code == 400
        assert "1h, 24h, 7d, 30d" in answer.text


def test_a_line_counts_all_messages_with_the_zeros_that_are_good_news(world: World) -> None:
    sent = sent_message(1, quorum=1)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1), executed(sent))
    world.index()
    said = text_of(home(world))
    assert "1 message: 1 executed, 0 on the way, 0 stalled. 0 dead letters wait for a decision." in said
    world.alpha.mine(routed(sent_message(2, quorum=1)), routed(sent_message(3, quorum=1)))
    world.index()
    assert "3 messages: 1 executed, 2 on the way, 0 stalled." in text_of(home(world))


def test_a_relayer_that_stands_still_is_a_concern_since_when_it_was_seen_there(world: World) -> None:
    for chain in world.chains:
        chain.mine(time=START)
    apply(world.store, world.alpha, final=0)
    apply(world.store, world.beta, final=0)
    explorer = world.explorer()
    assert "No relayer has run here yet." in text_of(explorer.get("/").text)

    def relayed(previous: BlockRef | None, number: int) -> BlockRef:
        position = BlockRef(number, bytes([number]) * 32)
        world.relayer.observations.record(
            ObservedRange(chain_id=ALPHA, previous=previous, position=position, watched="", observed_at=START)
        )
        return position

    at = relayed(None, 0)
    said = text_of(explorer.get("/").text)
    assert "The relayer has read alpha up to block 0." in said
    assert "The index has read every chain up to 0 s ago." in said
    world.now = START + 200
    for chain in world.chains:
        chain.mine(time=START + 200)
        apply(world.store, chain, first=1, final=1)
    body = explorer.get("/").text
    said = text_of(body)
    assert "The relayer has read nothing of alpha since 1970-01-12 13:46:40 UTC or earlier" in said
    assert "final blocks that wait for it: 1" in said
    assert "waybill relayer run Who acts: the relayer's operator." in said
    assert '<p class="big">No</p>' in body
    relayed(at, 1)
    assert "has read nothing" not in text_of(explorer.get("/").text)


def test_who_has_to_act_is_named(world: World) -> None:
    world.index()
    said = text_of(home(world, accused=ACCUSED))
    assert f"waybill message explain 0x{ACCUSED.message_id.hex()} Who acts: the router's guardian or owner." in said


def test_what_went_wrong_and_was_mended_is_counted_and_the_slowest_gmp_named(world: World) -> None:
    sent = [sent_message(nonce, quorum=1) for nonce in range(1, 22)]
    world.alpha.mine(*(routed(one, gmps=0b11) for one in sent), time=START - 100)
    world.alpha.mine(retried(sent[0], 1), time=START - 95)
    world.beta.mine(received(sent[1], 1), failed(sent[1]), executed(sent[1]), time=START - 98)
    for number, one in enumerate(sent):
        world.beta.mine(received(one, 2, receipts=2 if number == 1 else 1), time=START - (97 if number < 12 else 60))
    world.index()
    explorer = world.explorer()
    body = explorer.get("/?span=1h").text
    said = text_of(body)
    assert "Of the 21 messages of this time, 1 was retried, and executions of 1 failed at least once." in said
    assert "The slowest GMP was axelar: half of its 21 deliveries took 3 s or less, 95 % 40 s or less." in said
    for link, one in zip(re.findall(r'href="(/messages\?re[^"]+since=[^"]+)"', body), sent, strict=False):
        assert set(re.findall(r'href="/message/0x([0-9a-f]{64})"', explorer.get(unescape(link)).text)) == {one.id.hex()}
