"""The explorer's pages: what they say, what they refuse, and that nothing a stranger wrote becomes part of a page."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable

import pytest
from eth_abi.abi import encode

from bridge.domain.errors import StoreError
from bridge.domain.observations import BlockRef, ObservedMessage, ObservedRange
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from bridge.protocol.status import Status
from bridge.queries.lanes import gmp_name
from bridge.web import Sources, create_app
from bridge.web.app import Explorer
from indexer.store.browser import SCANNED
from tests.unit.dead_letters.world import DeadLetterService
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import (
    START,
    Event,
    absorbed,
    contradicted,
    executed,
    expired,
    failed,
    gmp_pause_set,
    lane_pause_set,
    received,
    reported,
    retried,
    routed,
    sent_message,
)
from tests.unit.web.explorer import RPC, Client, World, deployment, page, patient, text_of


def also_received(sent: Message) -> Event:
    return received(sent, 2, receipts=2)


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
        ([received, also_received, failed], Status.EXECUTION_FAILED, "execute"),
        ([expired], Status.EXPIRED, None),
        ([received, also_received, executed], Status.EXECUTED, None),
    ],
)
def test_what_is_offered_fits_the_state(
    world: World, events: list[Callable[..., Event]], status: Status, act: str | None
) -> None:
    sent = sent_message(quorum=2, **({"ttl": 1, "sent_at": START - 10} if expired in events else {}))
    world.alpha.mine(routed(sent))
    for event in events:
        world.beta.mine(event(sent, 1) if event is received else event(sent))
    world.index()
    body = world.explorer(patient(public_rpc=RPC)).get(page(sent)).text
    assert f'data-state="{status}"' in body
    offered = re.findall(r'data-act="(\w+)"', body)
    assert offered[:1] == ([act] if act else [])


def test_the_page_never_shows_a_status_beside_acts_that_it_no_longer_allows(world: World) -> None:
    sent = sent_message()
    world.alpha.mine(routed(sent))
    world.beta.mine(executed(sent))
    world.index()
    explorer = Explorer(world.sources(), patient())
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
    assert "No messages match this filter" in explorer.get("/messages?source=beta").text


def test_messages_that_were_retried_are_a_choice_and_marked_in_the_list(world: World) -> None:
    once, twice, never = (sent_message(nonce) for nonce in (1, 2, 3))
    world.alpha.mine(*map(routed, (once, twice, never)))
    world.alpha.mine(retried(once, 1), retried(twice, 1), retried(twice, 2))
    world.index()
    explorer = world.explorer()
    for choice, expected in {"yes": {once.id, twice.id}, "no": {never.id}}.items():
        body = explorer.get(f"/messages?retried={choice}").text
        assert set(re.findall(r'href="/message/0x([0-9a-f]{64})"', body)) == {one.hex() for one in expected}
        assert f'<option value="{choice}" selected>' in body
    marks = re.findall(r"retried[^<]*</span></td>", explorer.get("/messages").text)
    assert sorted(marks) == ["retried 2 times</span></td>", "retried</span></td>"]


def test_messages_whose_execution_failed_are_a_choice_and_marked_also_once_they_are_executed(
    world: World,
) -> None:
    later, never = sent_message(1, quorum=1), sent_message(2, quorum=1)
    world.alpha.mine(routed(later), routed(never))
    world.beta.mine(received(later, 1), failed(later), received(never, 1), executed(never))
    world.beta.mine(received(later, 2, receipts=2), failed(later))
    world.beta.mine(executed(later))
    world.index()
    explorer = world.explorer()
    for choice, expected in {"yes": later, "no": never}.items():
        body = explorer.get(f"/messages?refused={choice}").text
        assert set(re.findall(r'href="/message/0x([0-9a-f]{64})"', body)) == {expected.id.hex()}
    assert re.findall(r"failed[^<]*</span></td>", explorer.get("/messages").text) == ["failed 2 times</span></td>"]
    assert "Its execution had failed 2 times before." in text_of(explorer.get(page(later)).text)
    assert "had failed" not in text_of(explorer.get(page(never)).text)
    faults = text_of(explorer.get("/faults").text)
    assert "Executed more than once: 0 of 2 executed messages." in faults


def test_a_choice_says_how_many_messages_it_has_and_the_tiles_that_they_are_of_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [sent_message(nonce, quorum=1, kind=Kind.QUERY if nonce == 1 else Kind.PLAIN) for nonce in range(1, 6)]
    world.alpha.mine(*(routed(one, gmps=0b1) for one in sent))
    world.beta.mine(received(sent[0], 1), executed(sent[0]))
    world.index()
    explorer = world.explorer()

    def said(query: str) -> str:
        return text_of(explorer.get(f"/messages?{query}").text)

    assert "All 5 messages by state:" in said("")
    assert "match this filter" not in said("")
    assert "All 5 messages by state, whatever the filter:" in said("source=beta")
    for query, number in {
        "source=beta": "0 messages match",
        "status=executed": "1 message matches",
        "status=routed&gmp=hyperlane": "4 messages match",
        "kind=query": "1 message matches",
        "retried=yes": "0 messages match",
    }.items():
        assert f"{number} this filter." in said(query), query
    monkeypatch.setattr("indexer.store.browser.COUNTED", 3)
    assert "More than 3 messages match this filter." in said("source=alpha&destination=beta")
    assert "0 of the newest 3 messages that were looked at match this filter; older ones may too." in said(
        "kind=report"
    )


@pytest.mark.parametrize(
    ("parameters", "known"),
    [("status=FOO", "routed, received, executed"), ("kind=letter", "plain, "), ("retried=often", "write yes or no")],
)
def test_a_filter_that_there_is_not_is_answered_with_those_that_there_are(
    world: World, parameters: str, known: str
) -> None:
    answer = world.explorer().get(f"/messages?{parameters}")
    assert answer.status_code == 400
    assert known in text_of(answer.text)
    assert "not a valid" not in answer.text
    assert "<h1>This can&#39;t be shown</h1>" in answer.text


def test_a_search_that_finds_nothing_names_the_chains_and_a_message_that_is_unknown_says_what_a_sender_does(
    world: World,
) -> None:
    explorer = world.explorer()
    assert "the hash of a transaction on alpha, beta" in text_of(explorer.get("/search?q=hello").text)
    said = text_of(explorer.get(page(sent_message())).text)
    assert "compare the id with what your wallet or application shows" in said
    assert said.index("compare the id") < said.index("waybill message explain")


@pytest.mark.parametrize(
    "parameters",
    [
        "since=soon",
        "until=2026-13-01",
        "status=NICE",
        "source=gamma",
        "gmp=pigeon",
        "kind=letter",
        "account=0x12",
        "after=x",
        "after=1-00",
        "colour=red",
    ],
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


def test_a_store_that_is_away_is_said_and_the_pages_come_back_with_it(world: World) -> None:
    def away() -> None:
        raise StoreError("PostgreSQL at db.example does not answer")

    sources = Sources(deployment=deployment(), index=lambda: None, store=away)
    answer = Client(create_app(sources, patient())).get("/dead-letters")
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
    assert "The index has no events of this message yet" in answer.text


def test_transactions_link_to_the_block_explorers_that_are_named(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1), executed(sent))
    world.index()
    named = patient(block_explorers={BETA: "https://beta.example"})
    body = world.explorer(named).get(page(sent)).text
    links = re.findall(r'href="(https://[^"]+)"', body)
    assert len(links) == 5  # of the GMP, of two steps, and of what their transactions cost
    assert all(re.fullmatch(r"https://beta\.example/tx/0x[0-9a-f]{64}", link) for link in links)
    assert "https://" not in world.explorer().get(page(sent)).text


def test_hashes_of_transactions_are_text_that_can_be_copied(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent))
    world.alpha.transactions[sent.id] = f"0x{'ab' * 32}"
    world.index()
    for settings in (patient(), patient(block_explorers={ALPHA: "https://alpha.example"})):
        assert f"0x{'ab' * 32}" in text_of(world.explorer(settings).get(page(sent)).text).partition("Timeline")[2]


def test_times_between_say_from_when_they_are_counted(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent), time=START + 10)
    world.beta.mine(received(sent, 1), time=START + 13)
    world.beta.mine(executed(sent), time=START + 15)
    world.index()
    gmps, _, steps = text_of(world.explorer().get(page(sent)).text).partition("Timeline")
    assert "3 s after sending" in gmps
    assert "3 s after the step before" in steps
    assert "2 s after the step before" in steps
    assert "+3 s" not in gmps + steps


def test_faults_name_what_contradicts_and_what_was_absorbed(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1), executed(sent))
    world.beta.mine(executed(sent), absorbed(sent, 1))
    world.index()
    explorer = world.explorer()
    body = explorer.get("/faults").text
    shown = text_of(body)
    assert "executed twice" in shown
    assert "executions on the destination: 2" in shown
    assert f"0x{sent.id.hex()}" in body.partition('id="duplicates"')[2]
    evidence = text_of(explorer.get(page(sent)).text)
    assert "Evidence" in evidence
    assert "executions on the destination: 2" in evidence


def test_a_router_that_contradicts_what_it_never_reported_is_a_fault_that_the_pages_show(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent), contradicted(sent, 1, 2))
    world.beta.mine(received(sent, 1), executed(sent))
    world.index()
    explorer = world.explorer()
    for path in ("/faults", page(sent)):
        answer = explorer.get(path)
        assert answer.status_code == 200
        assert "reported to the source: something else than before" in text_of(answer.text)


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
    assert "reported the outcome: expired" in explorer.get(page(parts[1])).text


def test_a_receipt_that_nothing_explains_is_never_shown_as_a_success(world: World) -> None:
    forged = sent_message(quorum=1)
    world.beta.mine(received(forged, 1), executed(forged))
    world.index()
    early = world.explorer().get(page(forged)).text
    assert 'banner warn" data-state="UNKNOWN"' in early, "its source is not read that far"
    assert "beta says that it was executed, and alpha has not been read far enough" in text_of(early)
    assert "Next: let the index catch up" in text_of(early)
    world.alpha.mine(time=START + 100)
    world.index()
    body = world.explorer().get(page(forged)).text
    assert 'banner bad" data-state="DIVERGED"' in body
    kinds = text_of(body).partition("facts about it contradict each other: ")[2].partition(";")[0].split(", ")
    assert {"end without creation", "receipt without creation"} <= set(kinds)
    assert "Next: look at the evidence before anything else" in text_of(body)
    assert "account=unknown" not in body
    assert "good" not in body.partition('id="gmps-title"')[2].partition("<footer")[0], "nothing of it is green"


def test_a_forged_execution_is_diverged_in_list_tile_filter_and_head_of_every_page(world: World) -> None:
    honest, forged = sent_message(1, quorum=1), sent_message(2, quorum=1)
    world.alpha.mine(routed(honest))
    world.beta.mine(received(honest, 1), executed(honest))
    world.beta.mine(executed(forged))
    world.index()
    explorer = world.explorer()
    body = explorer.get("/messages").text
    assert "contradiction" in body
    tiles = dict(re.findall(r"status=(\w+)\"><strong>(\d+)</strong>", body))
    assert tiles == {"DIVERGED": "1", "EXECUTED": "1"}
    assert list(tiles) == ["DIVERGED", "EXECUTED"], "what contradicts goes first"
    row = body.partition(f"0x{forged.id.hex()}")[2].partition("</tr>")[0]
    assert '<span class="state bad">diverged</span>' in row
    for status, wanted in {"diverged": forged, "executed": honest}.items():
        listed = explorer.get(f"/messages?status={status}").text
        assert re.findall(r'href="/message/(0x[0-9a-f]{64})"', listed) == [f"0x{wanted.id.hex()}"], status
    for path in ("/lanes", "/gmps", "/dead-letters", page(honest)):
        assert 'Faults <span class="state bad">1</span>' in explorer.get(path).text, path
    assert "<title>0x" in explorer.get(page(forged)).text
    assert "diverged" in explorer.get(page(forged)).text.partition("</title>")[0]


def test_a_message_whose_deliveries_were_all_given_up_is_dead_and_led_to_its_letter(world: World) -> None:
    sent = sent_message()
    world.alpha.mine(routed(sent, gmps=0b1))
    world.index()
    dead_letter_service = DeadLetterService(store=world.relayer)
    asyncio.run(dead_letter_service.die(sent, error="no gas"))
    explorer = world.explorer(
        patient(public_rpc=RPC), network="testnet", dead_letters=lambda: dead_letter_service.dead_letters
    )
    body = explorer.get(page(sent)).text
    assert 'data-state="DEAD"' in body
    shown = text_of(body)
    assert "hyperlane took it, and the relayer gave up after 1 try (no gas)" in shown
    assert f"Next: decide about its dead letter: waybill dlq show 0x{sent.id.hex()} --network testnet" in shown
    assert re.findall(r'data-act="(\w+)"', body) == ["retry", "cancel"]
    goal = explorer.get("/messages?status=dead").headers["location"]
    said = explorer.get(goal).text
    assert "Only the relayer knows which messages are dead" in text_of(said)
    assert "waybill dlq list --json --network testnet" in text_of(said)
    assert '<a href="/messages">Back to messages</a>' in said
    assert "Back to messages" not in explorer.get("/dead-letters").text


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
    assert f"None of the {SCANNED:,} messages".replace(",", " ") in text_of(body)
    older = re.search(r'rel="next" href="([^"]+)"', body)
    assert older is not None
    assert "No more messages match this filter" in text_of(explorer.get(html.unescape(older.group(1))).text)


def test_gmps_unknown_to_this_version_are_named_by_number() -> None:
    assert (gmp_name(int(Gmp.CCIP)), gmp_name(9), gmp_name(None)) == ("ccip", "GMP 9", "a GMP")


def test_a_recipients_reason_is_quoted_once_and_never_shown_as_a_command(world: World) -> None:
    sent = sent_message(quorum=1)
    evil = "ok. Next: `waybill store restore --replace`\u202e " + "a" * 9_000
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1), failed(sent, b"\x08\xc3\x79\xa0" + encode(["string"], [evil])))
    world.index()
    body = world.explorer().get(page(sent)).text
    banner = text_of(body.partition('aria-label="State"')[2].partition("</section>")[0])
    assert banner.count("store restore") == 1
    assert 'the recipient refused it: Error(message="ok. Next: \\x60waybill store restore' in banner
    assert "more characters" in banner
    assert len(banner) < 1_000
    assert "\u202e" not in body
    assert not [code for code in re.findall(r"<code[^>]*>(.*?)</code>", body) if "store restore" in code]


@pytest.mark.parametrize("delivered", [False, True])
def test_a_message_that_is_not_retriable_is_never_advised_to_be_retried_and_can_be_cancelled(
    world: World, delivered: bool
) -> None:
    sent = sent_message(quorum=2)
    world.alpha.mine(routed(sent, retriable=False))
    if delivered:
        world.beta.mine(received(sent, 1))
    for time in (START + 5, START + 200):  # under way, then stalled
        world.now = time
        world.alpha.mine(time=time)
        world.beta.mine(time=time)
        world.index()
        body = world.explorer(patient(public_rpc=RPC)).get(page(sent)).text
        assert "message retry" not in body
        assert re.findall(r'data-act="(\w+)"', body) == ["cancel"]
    assert 'data-state="STALLED"' in body
    assert f"waybill message cancel 0x{sent.id.hex()}" in body
    assert "it can't be retried, because it was not sent as retriable" in text_of(body)
    world.now = START + 500
    for chain in (world.alpha, world.beta):
        chain.mine(time=START + 500)
    world.index()
    assert "waybill message retry" not in world.explorer().get("/faults").text


def test_a_pause_puts_the_expiry_off_and_the_page_says_so(world: World) -> None:
    sent = sent_message(quorum=1, ttl=100)
    world.alpha.mine(routed(sent))
    world.beta.mine(gmp_pause_set(3, START + 80), time=START + 20)
    world.beta.mine(lane_pause_set(ALPHA, START + 90), time=START + 50)
    world.now = START + 150
    for chain in (world.alpha, world.beta):
        chain.mine(time=START + 150)
    world.index()
    body = world.explorer(patient(public_rpc=RPC)).get(page(sent)).text
    shown = text_of(body)
    assert 'data-state="EXPIRED"' not in body
    assert "its time to live seems over, but pauses stopped its clock for 70 s" in shown
    assert "1 m 10 s later than its TTL says: pauses stopped its clock" in shown
    world.now = START + 171
    world.beta.mine(time=START + 171)
    world.index()
    ended = world.explorer(patient(public_rpc=RPC)).get(page(sent)).text
    assert 'data-state="EXPIRED"' in ended
    assert re.findall(r'data-act="(\w+)"', ended) == ["expire"]
    assert f"mark it as expired: waybill message expire 0x{sent.id.hex()}" in text_of(ended)


def test_nothing_is_offered_that_a_pause_would_refuse(world: World) -> None:
    sent = sent_message(quorum=2)
    world.alpha.mine(routed(sent), lane_pause_set(BETA, START + 500))
    world.beta.mine(time=START + 200)
    world.now = START + 200
    world.alpha.mine(time=START + 200)
    world.index()
    body = world.explorer(patient(public_rpc=RPC)).get(page(sent)).text
    assert 'data-state="STALLED"' in body
    assert "data-act" not in body
    assert "wait until 1970-01-12 13:55:00 UTC: the lane is paused; then look again" in text_of(body)


def test_home_says_what_waybill_is_and_every_page_explains_its_words(world: World) -> None:
    world.index()
    explorer = world.explorer()
    assert "Waybill sends a message from one chain to another over several GMPs at once" in text_of(
        explorer.get("/").text
    )
    for path in ("/", "/lanes", "/gmps", "/dead-letters", "/faults"):
        foot = explorer.get(path).text.partition("<footer")[2]
        for word in ("GMP", "lane", "kind", "quorum", "attesting", "absorbed"):
            assert f"<dt>{word}</dt>" in foot, (path, word)
