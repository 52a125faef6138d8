"""The explorer's pages: what they say, what they refuse, and that nothing a stranger wrote becomes part of a page."""

from __future__ import annotations

import asyncio
import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from eth_abi.abi import encode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from bridge.protocol.status import Status
from bridge.records.errors import StoreError
from bridge.records.observations import BlockRef, ObservedMessage, ObservedRange
from bridge.web import ExplorerSettings, Sources, create_app
from bridge.web.payload import PayloadAbi, PayloadAbiError, decode_payload, read_abis
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
from tests.unit.web.explorer import Client, World, deployment, text_of

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}\u202egnp.exe\x00\x07"
PRINTABLE, _, _ = HOSTILE.partition("\u202e")
RPC = {ALPHA: "https://rpc.example/alpha", BETA: "https://rpc.example/beta"}


def page(message: Message) -> str:
    return f"/message/0x{message.id.hex()}"


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
        ([executed], Status.EXECUTED, None),
    ],
)
def test_what_is_offered_fits_the_state(world: World, events: list[object], status: Status, act: str | None) -> None:
    sent = sent_message(quorum=2)
    world.alpha.mine(routed(sent))
    for event in events:
        world.beta.mine(event(sent, 1) if event is received else event(sent))  # type: ignore[operator]  # makers of events
    world.index()
    body = world.explorer(ExplorerSettings(public_rpc=RPC)).get(page(sent)).text
    assert f'data-state="{status}"' in body
    offered = re.findall(r'data-act="(\w+)"', body)
    assert offered[:1] == ([act] if act else [])


def test_a_payload_full_of_markup_and_control_characters_stays_text(world: World) -> None:
    sent = sent_message(payload=HOSTILE.encode())
    printable = sent_message(2, payload=PRINTABLE.encode())
    world.alpha.mine(routed(sent), routed(printable))
    world.beta.mine(failed(sent, b"\x08\xc3\x79\xa0" + encode(["string"], [HOSTILE])))
    world.index()
    explorer = world.explorer(ExplorerSettings(public_rpc=RPC))
    for message in (sent, printable):
        body = explorer.get(page(message)).text
        assert "<script>alert" not in body
        assert "<img src=x" not in body
        assert not {"\u202e", "\x00", "\x07"} & set(body)
    assert f"0x{HOSTILE.encode().hex()}" in explorer.get(page(sent)).text
    assert PRINTABLE in html.unescape(explorer.get(page(printable)).text)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=st.binary(max_size=300), kind=st.sampled_from(Kind))
def test_whatever_the_bytes_a_payload_is_shown_without_control_characters(payload: bytes, kind: Kind) -> None:
    shown = decode_payload(sent_message(payload=payload, kind=kind), ())
    assert shown.length == len(payload)
    assert all(character.isprintable() or character in "\n\t" for character in shown.text)


def test_a_payload_is_decoded_by_the_abi_of_its_recipient(world: World, tmp_path: Path) -> None:
    file = tmp_path / "abis.toml"
    file.write_text(
        '[[payload]]\nrecipient = "0x2222222222222222222222222222222222222222"\nvalues = ["address owner", "uint256 amount"]\n'
    )
    owner = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
    sent = sent_message(payload=encode(["address", "uint256"], [owner, 42]))
    other = replace(sent, nonce=2, payload=b"not that at all")
    world.alpha.mine(routed(sent), routed(other))
    world.index()
    explorer = world.explorer(payloads=read_abis(file))
    shown = text_of(explorer.get(page(sent)).text)
    assert "decoded by its ABI" in shown
    assert f"owner address {owner.lower()}" in shown.replace(owner, owner.lower())
    assert "amount uint256 42" in shown
    assert "not that at all" in explorer.get(page(other)).text


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("x = 1", "must hold [[payload]]"),
        ("[[payload]]\nvalues = []", "give values"),
        ('[[payload]]\nvalues = ["adress owner"]', "adress owner"),
        ('[[payload]]\nvalues = ["address owner"]\nrecipient = "0x12"', "0x12"),
        ('[[payload]]\nvalues = ["address owner"]\nkind = "letter"', "LETTER"),
        ("[[payload", "abis.toml"),
    ],
)
def test_a_wrong_file_of_abis_is_refused_by_name(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "abis.toml"
    file.write_text(content)
    with pytest.raises(PayloadAbiError, match=re.escape(problem)):
        read_abis(file)


def test_a_cancellation_is_decoded_without_being_told_how() -> None:
    struct = "(uint64,bytes32,bytes32,uint64,uint64,bytes32,bytes32,uint64,uint64,uint32,uint8,uint8,bytes32,bytes)"
    word = bytes(32)
    original = (1, word, word, 1, 2, word, word, 3, 4, 5, 0, 2, word, b"")
    payload = encode([struct, "bytes32", "uint8"], [original, b"\x11" * 32, 3])
    shown = decode_payload(sent_message(kind=Kind.CANCELLATION, payload=payload), ())
    assert [(field.name, field.value) for field in shown.fields][1:] == [
        ("payload hash", "0x" + "11" * 32),
        ("state", "3"),
    ]


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


def test_a_store_that_is_away_is_named_and_the_pages_come_back_with_it(world: World) -> None:
    def away() -> None:
        raise StoreError("PostgreSQL at db.example does not answer")

    sources = Sources(deployment=deployment(), index=lambda: None, store=away)
    answer = Client(create_app(sources)).get("/dead-letters")
    assert answer.status_code == 503
    assert "a store can&#39;t be read now: PostgreSQL at db.example does not answer" in answer.text
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
    assert 'banner warn" data-state="EXECUTED"' in early, "its source is not read that far"
    assert "Next: let the index catch up" in text_of(early)
    world.alpha.mine(time=START + 100)
    world.index()
    body = world.explorer().get(page(forged)).text
    assert 'banner bad" data-state="EXECUTED"' in body
    assert "But facts about it contradict each other" in body
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


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/nowhere", 404, "there is no page '/nowhere'"),
        ("/messages?status=NICE", 400, "status='NICE' can't be used"),
        ("/lanes", 500, "the explorer failed at this page; its own log says how"),
    ],
)
def test_whatever_goes_wrong_is_a_page_with_a_way_back(path: str, code: int, said: str) -> None:
    def broken() -> None:
        raise RuntimeError("<b>a bug</b>")

    app = create_app(Sources(deployment=deployment(), index=broken, store=lambda: None))
    answer = Client(app).get(path, headers={"accept": "text/html"})
    assert answer.status_code == code
    assert said in html.unescape(answer.text)
    assert 'href="/messages"' in answer.text
    assert "a bug" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_files_are_kept_by_browsers_until_they_change_and_pages_never(world: World) -> None:
    explorer = world.explorer()
    answer = explorer.get("/")
    assert answer.headers["cache-control"] == "no-store"
    files = re.findall(r'(?:href|src)="(/static/[^"]+)"', answer.text)
    assert len(files) == 4
    for file in files:
        assert "immutable" in explorer.get(file).headers["cache-control"]
        assert explorer.get(file.partition("?")[0]).headers["cache-control"] == "no-store"


def test_every_answer_carries_a_policy_that_lets_nothing_foreign_in(world: World) -> None:
    explorer = world.explorer(ExplorerSettings(public_rpc=RPC))
    for path in ("/", "/lanes", "/static/style.css", "/message/0x12", "/nowhere", "/messages?status=x"):
        headers = explorer.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "connect-src 'self' https://rpc.example;" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
    for path in ("/", "/lanes", "/gmps", "/faults"):
        body = explorer.get(path).text
        assert not re.search(r"""(src|href)=["']?(https?:)?//""", body)
        assert " style=" not in body
        assert not re.search(r"<script(?! type=\"module\" src=\"/static/)", body)


def test_only_public_rpc_urls_leave_the_explorer(world: World) -> None:
    sent = sent_message()
    world.alpha.mine(routed(sent))
    world.index()
    for public in ({}, RPC):
        explorer = world.explorer(ExplorerSettings(public_rpc=public), network="testnet")
        for path in ("/network.json", "/", "/lanes", page(sent)):
            answer = explorer.get(path)
            assert "secret" not in answer.text + str(answer.headers), path
        body = explorer.get(page(sent)).text
        assert ("data-message" in body) == bool(public)
        assert f"waybill message retry 0x{sent.id.hex()} --network testnet" in body


def test_a_read_only_explorer_offers_nothing_that_changes_state(world: World) -> None:
    sent = sent_message()
    world.alpha.mine(routed(sent))
    world.index()
    body = world.explorer(ExplorerSettings(public_rpc=RPC, read_only=True)).get(page(sent)).text
    assert "data-act" not in body
    assert "This explorer only reads" in body


def test_a_client_that_asks_too_often_is_told_to_wait(world: World) -> None:
    explorer = world.explorer(ExplorerSettings(requests_per_minute=20))
    codes = [explorer.get("/static/icon.svg").status_code for _ in range(25)]
    assert codes[:20] == [200] * 20
    assert codes[-1] == 429
    refused = explorer.get("/", headers={"accept": "text/html"})
    assert refused.headers["retry-after"] == "10"
    assert "wait 10 seconds" in refused.text
    assert "<html" in refused.text
    assert "<html" not in explorer.get("/").text


def test_a_request_from_another_site_can_change_nothing(world: World) -> None:
    explorer = world.explorer()
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        assert explorer.post("/", headers=headers).status_code == 403
    assert explorer.post("/", headers={"sec-fetch-site": "same-origin"}).status_code == 405


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


def test_an_abi_fits_by_recipient_and_kind() -> None:
    sent = sent_message(kind=Kind.QUERY)
    assert PayloadAbi(types=(), names=(), kind=Kind.QUERY).fits(sent)
    assert not PayloadAbi(types=(), names=(), kind=Kind.ACK).fits(sent)
    assert not PayloadAbi(types=(), names=(), recipient=bytes(32)).fits(sent)
