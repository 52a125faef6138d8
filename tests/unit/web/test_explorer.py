"""The explorer's pages: what they say, what they refuse, and that nothing a stranger wrote becomes part of a page."""

from __future__ import annotations

import asyncio
import html
import re

import pytest
from eth_abi.abi import encode

from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.protocol.status import Status
from bridge.records.errors import StoreError
from bridge.records.observations import BlockRef, ObservedMessage, ObservedRange
from bridge.web import ExplorerSettings, Sources, create_app
from bridge.web.app import Explorer
from bridge.web.timeline import gmp_name
from indexer.browsing import SCANNED
from tests.unit.dlq_world import Undertaking
from tests.unit.index_logs import ALPHA, BETA
from tests.unit.index_world import (
    START,
    absorbed,
    executed,
    expired,
    failed,
    received,
    reported,
    retried,
    routed,
    sent_message,
)
from tests.unit.web.explorer import RPC, Client, World, deployment, page, text_of


def test_a_messages_page_tells_state_reason_next_action_and_what_each_gmp_did(world: World) -> None:
    sent = sent_message(quorum=2)
    world.alpha.mine(routed(sent, gmps=0b101))
    world.beta.mine(received(sent, 1))
    world.alpha.mine(retried(sent, 1, gmps=0b10))
    world.index()
    shown = text_of(world.explorer().get(page(sent)).text)
    assert "1 of 2 GMPs have delivered" in shown
    assert "Next: wait: more GMPs must deliver before the quorum is reached" in shown
    assert "Sent over hyperlane, wormhole" in shown
    assert "hyperlane delivered: 1 of 2" in shown
    assert "Retry 1 over axelar" in shown
    assert "Id recomputed: matches ✓" in shown
    assert f"waybill message retry 0x{sent.id.hex()}" in shown


@pytest.mark.parametrize(
    ("events", "status", "act"),
    [
        ([], Status.ROUTED, "retry"),
        ([received], Status.RECEIVED, "retry"),
        ([failed], Status.EXECUTION_FAILED, "execute"),
        ([expired], Status.EXPIRED, "expire"),
        ([received, lambda sent: received(sent, 2, 2), executed], Status.EXECUTED, None),
    ],
)
def test_what_is_offered_fits_the_state(world: World, events: list[object], status: Status, act: str | None) -> None:
    sent = sent_message(quorum=2, **({"ttl": 1, "sent_at": START - 10} if expired in events else {}))
    world.alpha.mine(routed(sent))
    for event in events:
        world.beta.mine(event(sent, 1) if event is received else event(sent))  # type: ignore[operator]  # makers of events
    world.index()
    body = world.explorer(ExplorerSettings(public_rpc=RPC)).get(page(sent)).text
    assert f'data-state="{status}"' in body
    offered = re.findall(r'data-act="(\w+)"', body)
    assert offered[:1] == ([act] if act else [])


def test_the_page_never_shows_a_status_beside_acts_that_it_no_longer_allows(world: World) -> None:
    sent = sent_message()
    world.alpha.mine(routed(sent))
    world.beta.mine(executed(sent))
    world.index()
    explorer = Explorer(world.sources(), ExplorerSettings())
    for message_id in (sent.id, bytes(32)):
        assert list(explorer.live_message(message_id)) == ["acts", "content", "facts", "as_of"]  # as they are sent


def test_the_search_leads_from_ids_transactions_and_addresses_to_pages(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1), executed(sent))
    world.index()
    explorer = world.explorer()
    block = world.beta.logs(1, 1)
    for typed in (f"0x{sent.id.hex()}", sent.id.hex().upper(), f"  {block[0]['transactionHash']} "):
        assert explorer.get("/search", params={"q": typed}).headers["location"] == page(sent)
    to = explorer.get("/search", params={"q": "0x" + "22" * 20}).headers["location"]
    assert f"0x{sent.id.hex()}" in explorer.get(to).text
    for typed in ("0x" + "ab" * 32, "hello", "<script>alert(1)</script>"):
        answer = explorer.get("/search", params={"q": typed})
        assert answer.status_code == 404
        assert "<script>alert" not in answer.text


def test_filters_choose_and_their_links_can_be_shared(world: World) -> None:
    plain, query = sent_message(1), sent_message(2, kind=Kind.QUERY, ttl=10_000)
    world.alpha.mine(routed(plain, gmps=0b1), routed(query, gmps=0b100))
    world.index()
    explorer = world.explorer()
    for parameters, expected in {
        "kind=query": query,
        "gmp=hyperlane": plain,
        "status=ROUTED&gmp=wormhole&source=alpha&destination=beta": query,
    }.items():
        body = explorer.get(f"/messages?{parameters}").text
        ids = set(re.findall(r'href="/message/(0x[0-9a-f]{64})"', body))
        assert ids == {f"0x{expected.id.hex()}"}, parameters
    assert "No messages like this" in explorer.get("/messages?source=beta").text


@pytest.mark.parametrize(
    "parameters",
    ["status=NICE", "source=gamma", "gmp=pigeon", "kind=letter", "account=0x12", "after=x", "after=1-00", "colour=red"],
)
def test_a_link_that_says_nothing_is_refused_with_the_parameter(world: World, parameters: str) -> None:
    answer = world.explorer().get(f"/messages?{parameters}")
    assert answer.status_code == 400
    assert parameters.split("=", maxsplit=1)[0] in answer.text


def test_every_page_comes_before_any_index_or_relayer_has_run(world: World) -> None:
    explorer = world.explorer(has_stores=False)
    for path in ("/", "/messages", "/lanes", "/gmps", "/dead-letters", "/faults"):
        assert explorer.get(path).status_code == 200, path
    for path in ("/", "/lanes", "/gmps", "/faults"):
        assert "waybill index run" in explorer.get(path).text, path
    assert "waybill relayer run" in explorer.get("/dead-letters").text
    assert "note good" not in explorer.get("/faults").text + explorer.get("/dead-letters").text, "nothing is known"
    assert explorer.get(page(sent_message())).status_code == 404


@pytest.mark.finding("E12")
def test_a_store_that_is_away_is_said_and_the_pages_come_back_with_it(world: World) -> None:
    def away() -> None:
        raise StoreError("PostgreSQL at db.example does not answer")

    sources = Sources(deployment=deployment(), index=lambda: None, store=away)
    answer = Client(create_app(sources)).get("/dead-letters")
    assert answer.status_code == 503
    assert "a store can&#39;t be read now" in answer.text
    assert "db.example" not in answer.text, "hosts are for the log"
    assert world.explorer().get("/dead-letters").status_code == 200


def test_a_message_that_only_the_relayer_has_seen_is_shown(world: World) -> None:
    sent = sent_message()
    world.relayer.observations.record(
        ObservedRange(
            chain_id=ALPHA,
            previous=None,
            position=BlockRef(1, bytes(32)),
            watched="",
            messages=(ObservedMessage(sent.id, sent.encode(), world.now),),
            observed_at=world.now,
        )
    )
    answer = world.explorer().get(page(sent))
    assert answer.status_code == 200
    assert "The index has no events of it yet" in answer.text


def test_transactions_link_to_the_block_explorers_that_are_named(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1), executed(sent))
    world.index()
    named = ExplorerSettings(block_explorers={BETA: "https://beta.example"})
    body = world.explorer(named).get(page(sent)).text
    links = re.findall(r'href="(https://[^"]+)"', body)
    assert len(links) == 5  # of the GMP, of two steps, and of what their transactions cost
    assert all(re.fullmatch(r"https://beta\.example/tx/0x[0-9a-f]{64}", link) for link in links)
    assert "https://" not in world.explorer().get(page(sent)).text


def test_faults_name_what_contradicts_and_what_was_absorbed(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1), executed(sent))
    world.beta.mine(executed(sent), absorbed(sent, 1))
    world.index()
    explorer = world.explorer()
    body = explorer.get("/faults").text
    for _ in range(50):
        if "Being computed" not in body:
            break
        body = explorer.get("/faults").text
    shown = text_of(body)
    assert "executed twice" in shown
    assert "executions on the destination: 2" in shown
    assert f"0x{sent.id.hex()}" in body.partition("Duplicates absorbed")[2]
    evidence = text_of(explorer.get(page(sent)).text)
    assert "Evidence" in evidence
    assert "executions on the destination: 2" in evidence


def test_a_fan_out_that_reached_only_some_chains_is_evidence_on_the_page_of_each_of_its_messages(world: World) -> None:
    parts = [sent_message(1, quorum=1, ttl=50, payload=b"state", destination_chain=chain) for chain in (BETA, 31339)]
    world.alpha.mine(*map(routed, parts))
    world.alpha.transactions.update((sent.id, "0x" + "ab" * 32) for sent in parts)
    world.beta.mine(received(parts[0], 1), executed(parts[0]))
    world.index()
    explorer = world.explorer()
    assert "Evidence" not in explorer.get(page(parts[0])).text
    world.alpha.mine(reported(parts[1], 2))
    world.index()
    for sent in parts:
        body = explorer.get(page(sent)).text
        assert "of 2 messages with the same payload 1 were executed, and 1 never will be" in body
        assert f'href="/search?q=0x{"ab" * 32}"' in body, "leads to the others"
        assert "look at the evidence before anything else" in text_of(body)
    assert "reported how it ended: expired" in explorer.get(page(parts[1])).text


def test_a_receipt_that_nothing_explains_is_never_shown_as_a_success(world: World) -> None:
    forged = sent_message(quorum=1)
    world.beta.mine(received(forged, 1), executed(forged))
    world.index()
    early = world.explorer().get(page(forged)).text
    assert 'banner warn" data-state="UNKNOWN"' in early, "its source is not read that far"
    assert "Next: let the index catch up" in text_of(early)
    world.alpha.mine(time=START + 100)
    world.index()
    body = world.explorer().get(page(forged)).text
    assert 'banner bad" data-state="DIVERGED"' in body
    assert "contradict" in text_of(body)
    assert "Next: look at the evidence before anything else" in text_of(body)
    assert "account=unknown" not in body


def test_a_message_whose_deliveries_were_all_given_up_is_dead_and_led_to_its_letter(world: World) -> None:
    sent = sent_message()
    world.alpha.mine(routed(sent, gmps=0b1))
    world.index()
    undertaking = Undertaking(store=world.relayer)
    asyncio.run(undertaking.die(sent, error="no gas"))
    explorer = world.explorer(ExplorerSettings(public_rpc=RPC), network="testnet")
    body = explorer.get(page(sent)).text
    assert 'data-state="DEAD"' in body
    shown = text_of(body)
    assert "hyperlane took it, and the relayer gave up after 1 try (no gas)" in shown
    assert f"Next: decide about its dead letter: waybill dlq show 0x{sent.id.hex()} --network testnet" in shown
    assert re.findall(r'data-act="(\w+)"', body) == ["retry", "cancel"]
    assert explorer.get("/messages?status=dead").headers["location"] == "/dead-letters"


def test_more_receipts_than_are_needed_are_shown_as_such(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1), executed(sent))
    world.index()
    explorer = world.explorer()
    assert "1 of 1" in text_of(explorer.get("/messages").text)
    world.beta.mine(received(sent, 2, receipts=2))
    world.index()
    for path in ("/messages", page(sent)):
        assert "2 (1 needed)" in text_of(explorer.get(path).text), path


def test_steps_of_one_second_stand_in_the_order_in_which_they_happened(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1), failed(sent, b"\x08\xc3\x79\xa0" + encode(["string"], ["closed"])))
    world.index()
    shown = text_of(world.explorer().get(page(sent)).text).partition("Timeline")[2]
    steps = ["Sent over hyperlane", "hyperlane delivered: 1 of 1", "The recipient refused"]
    assert sorted(steps, key=shown.index) == steps


def test_a_choice_that_nothing_passes_can_be_followed_further(world: World) -> None:
    world.alpha.mine(*(routed(sent_message(nonce)) for nonce in range(1, SCANNED + 3)))
    world.index()
    explorer = world.explorer()
    body = explorer.get("/messages?kind=query").text
    assert f"None among the {SCANNED:,} messages".replace(",", " ") in text_of(body)
    older = re.search(r'rel="next" href="([^"]+)"', body)
    assert older is not None
    assert "No messages like this any further" in text_of(explorer.get(html.unescape(older.group(1))).text)


def test_gmps_unknown_to_this_version_are_named_by_number() -> None:
    assert (gmp_name(int(Gmp.CCIP)), gmp_name(9), gmp_name(None)) == ("ccip", "GMP 9", "a GMP")
