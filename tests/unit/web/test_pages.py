"""The pages of the explorer over a small simulated network."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from threading import Event

from bridge.protocol.errors import StoreError
from bridge.protocol.indexed import DivergenceRecord
from bridge.web import create_app
from bridge.web.pages.message import headline
from indexer.store.browser import IndexBrowser
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import START, executed, failed, received, retried, routed, sent_message
from tests.unit.web.explorer import RPC, Client, World, page, patient, text_of
from tests.waiting import eventually


def test_landing_shows_figures_problems_and_latest(world: World) -> None:
    sent = [sent_message(number, quorum=2) for number in range(1, 6)]
    world.alpha.mine(*(routed(one, gmps=0b11) for one in sent), time=START + 10)
    world.beta.mine(*(received(one, 1, quorum=2) for one in sent), time=START + 20)
    world.beta.mine(received(sent[0], 2, 2), executed(sent[0]), time=START + 30)
    world.now = START + 1_800
    world.alpha.mine(time=START + 1_800)
    world.beta.mine(time=START + 1_800)
    world.index()
    body = world.explorer(patient(max_lag=3_600)).get("/").text
    shown = text_of(body)
    assert re.findall(r"<strong>([^<]+)</strong><span>", body)[:3] == ["5", "20.0 %", "20 s"]
    assert "4 messages stalled, waiting for Axelar" in shown
    assert "Axelar has delivered 1 of 5 messages in the last hour" in shown
    assert "Hyperlane has delivered" not in shown
    assert all(page(one) in body for one in sent)


def test_pages_without_stores_say_what_to_start(world: World) -> None:
    explorer = world.explorer(has_stores=False)
    for path in ("/", "/messages", "/status"):
        assert "waybill index run" in text_of(explorer.get(path).text), path
    for path in ("/lanes", "/gmps", "/faults", "/dead-letters", "/healthz"):
        assert explorer.get(path).status_code == 200, path


def test_list_filters_and_pages_through_messages(world: World) -> None:
    sent = [sent_message(number, quorum=1) for number in range(1, 61)]
    for number, one in enumerate(sent):
        world.alpha.mine(routed(one), time=START + number)
    world.beta.mine(received(sent[0], 1), executed(sent[0]), time=START + 90)
    world.index()
    explorer = world.explorer()
    first = explorer.get("/messages").text
    older = re.search(r'rel="next" href="([^"]+)"', first)
    assert older is not None
    second = explorer.get(unescape(older[1])).text
    listed = [set(re.findall(r'href="/message/(0x\w+)"', body)) for body in (first, second)]
    assert [len(one) for one in listed] == [50, 10]
    assert len(listed[0] | listed[1]) == 60
    done = explorer.get("/messages?status=executed").text
    assert page(sent[0]) in done
    assert page(sent[1]) not in done
    assert explorer.get("/messages?account=0x12").status_code == 400
    assert explorer.get("/messages?status=dead").headers["location"] == "/dead-letters?from=messages"
    for query, known in (("status=FOO", "routed, received"), ("kind=letter", "plain")):
        refused = explorer.get(f"/messages?{query}")
        assert (refused.status_code, known in text_of(refused.text)) == (400, True)


def test_message_shows_stages_gmps_reason_and_next_step(world: World) -> None:
    sent = sent_message(1, quorum=2)
    world.alpha.mine(routed(sent, gmps=0b11), time=START)
    world.beta.mine(received(sent, 1, quorum=2), time=START + 20)
    world.now = START + 410
    world.alpha.mine(time=START + 400)
    world.beta.mine(time=START + 400)
    world.index()
    body = world.explorer(patient(public_rpc=RPC)).get(page(sent)).text
    shown = text_of(body)
    assert 'data-state="STALLED"' in body
    assert re.findall(r'<li class="(\w+)"><strong>(\w+)</strong>', body) == [
        ("done", "Sent"),
        ("now", "Attested"),
        ("ahead", "Delivered"),
        ("ahead", "Executed"),
    ]
    assert "1 of 2 GMPs have delivered. Axelar accepted it" in shown
    assert "Next: retry it over other GMPs, as its sender" in shown
    assert re.findall(r'<th scope="row"><span class="gmp (\w+)', body) == ["hyperlane", "axelar"]
    assert f'data-copy="0x{sent.id.hex()}"' in body
    assert "data-message=" in body
    assert '<meta property="og:description" content="stalled: alpha → beta.' in body


def test_message_page_names_a_refusal_without_solidity(world: World) -> None:
    assert headline("the recipient refused it: Closed()") == "The recipient refused it: Closed."
    assert headline("a; b: Low(needed = 2)") == "A. B: Low (needed = 2)."
    wrapped = f"it waits: ExecutionReverted(messageId=0x{'ab' * 32}, reason=Closed()) (next look in 9 s)"
    assert headline(wrapped) == "It waits: Closed (next look in 9 s)."
    sent = sent_message(1, quorum=1)
    world.alpha.mine(routed(sent, gmps=0b1))
    world.beta.mine(received(sent, 1), failed(sent))
    world.index()
    shown = text_of(world.explorer().get(page(sent)).text)
    assert "the recipient refused it" in shown
    assert "waybill message execute" in shown


def test_message_page_escapes_what_strangers_wrote(world: World) -> None:
    hostile = "<img src=x onerror=alert(1)>\u202e"
    sent = sent_message(1, quorum=1, payload=hostile.encode())
    world.alpha.mine(routed(sent))
    world.index()
    body = world.explorer().get(page(sent)).text
    assert "<img src=x" not in body
    assert "\u202e" not in body


def test_message_that_nobody_has_seen_says_what_to_do(world: World) -> None:
    answer = world.explorer(network="main").get(f"/message/0x{'ab' * 32}")
    assert (answer.status_code, 'data-state="UNSEEN"' in answer.text) == (404, True)
    assert f"waybill --network main message show 0x{'ab' * 32}" in answer.text


def test_message_page_names_a_retry(world: World) -> None:
    sent = sent_message(1, quorum=1)
    world.alpha.mine(routed(sent, gmps=0b10), time=START)
    world.alpha.mine(retried(sent, 1), time=START + 60)
    world.beta.mine(received(sent, 1), executed(sent), time=START + 90)
    world.index()
    shown = text_of(world.explorer().get(page(sent)).text)
    assert "Retry 1 over Hyperlane" in shown


def test_read_only_explorer_offers_nothing(world: World) -> None:
    sent = sent_message(1, quorum=1)
    world.alpha.mine(routed(sent))
    world.index()
    body = world.explorer(patient(public_rpc=RPC, read_only=True)).get(page(sent)).text
    assert "data-act" not in body


def test_lane_and_gmp_have_a_row(world: World) -> None:
    sent = [sent_message(number, quorum=1) for number in range(1, 4)]
    world.alpha.mine(*(routed(one, gmps=0b11) for one in sent), time=START + 10)
    world.beta.mine(*(event for one in sent for event in (received(one, 1), executed(one))), time=START + 25)
    world.now = START + 60
    world.index()
    explorer = world.explorer()
    lanes = explorer.get("/lanes").text
    assert f'href="/messages?source={ALPHA}&amp;destination={BETA}"' in lanes
    assert "alpha → beta 3 100 % 15 s 15 s" in " ".join(text_of(lanes).split())
    gmps = " ".join(text_of(explorer.get("/gmps").text).split())
    assert "Hyperlane 3 3 100 % 15 s" in gmps
    assert "Axelar 3 0 0.0 %" in gmps
    assert "Axelar 3 0 0.0 %" in " ".join(text_of(explorer.get("/messages?gmp=axelar").text).split())
    lane = text_of(explorer.get("/messages?source=alpha&destination=beta").text)
    assert "alpha → beta 3 100 % 15 s 15 s" in " ".join(lane.split())


def test_faults_show_severity_and_group_duplicates(world: World) -> None:
    sent, forged = sent_message(1, quorum=1), sent_message(9, quorum=1)
    again = ("DuplicateAbsorbed", {"message_id": sent.id, "source_chain": ALPHA, "gmp": 1})
    world.alpha.mine(routed(sent, gmps=0b1), time=START)
    world.beta.mine(received(sent, 1), executed(sent), time=START + 10)
    for at in (20, 30, 5_000):
        world.beta.mine(again, time=START + at)
    world.beta.mine(executed(forged), time=START + 6_000)
    world.alpha.mine(time=START + 9_000)
    world.index()
    body = world.explorer().get("/faults").text
    shown = " ".join(text_of(body).split())
    assert "critical" in shown
    assert page(forged) in body
    assert "Hyperlane beta 2 1 message" in shown
    assert "Hyperlane beta 1 1 message" in shown
    assert 'Faults <span class="state bad">' in body


def test_search_leads_to_message_transaction_or_reason(world: World) -> None:
    one, two = sent_message(1, quorum=1), sent_message(2, quorum=1)
    world.alpha.mine(routed(one), routed(two))
    world.index()
    explorer = world.explorer()
    assert explorer.get("/search", params={"q": f"0x{one.id.hex()}"}).headers["location"] == page(one)
    index = world.sources().index()
    assert index is not None
    record = index.message(one.id)
    assert record is not None
    assert record.source_transaction is not None
    found = explorer.get("/search", params={"q": record.source_transaction.hex()})
    assert found.status_code in (200, 303)
    nothing = explorer.get("/search", params={"q": "hello"})
    assert (nothing.status_code, "'hello'" in unescape(nothing.text)) == (404, True)


def test_network_file_has_public_urls_only(world: World) -> None:
    answer = world.explorer(patient(public_rpc={ALPHA: RPC[ALPHA]})).get("/network.json")
    assert [chain["rpcUrls"] for chain in answer.json()["chains"]] == [[RPC[ALPHA]], ["https://no-public-rpc.invalid"]]
    assert "secret" not in answer.text


def test_errors_are_pages_that_name_no_host(world: World) -> None:
    def away() -> None:
        raise StoreError("PostgreSQL at db.example does not answer")

    def broken() -> None:
        raise RuntimeError("<b>a bug</b>")

    sources = world.sources()
    for store, status in ((away, 503), (broken, 500)):
        app = create_app(type(sources)(deployment=sources.deployment, index=lambda: None, store=store), patient())
        answer = Client(app).get("/dead-letters")
        assert answer.status_code == status
        assert "db.example" not in answer.text
        assert "a bug" not in answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert (
            Client(app).get("/dead-letters", headers={"accept": "*/*"}).headers["content-type"].startswith("text/plain")
        )


class Compared(IndexBrowser):
    """An index whose comparison takes until it may."""

    may_end = Event()
    found: list[DivergenceRecord]

    def divergences(self) -> list[DivergenceRecord]:
        self.may_end.wait()
        return self.found


def test_faults_that_were_compared_long_ago_are_not_called_none(world: World) -> None:
    world.index()
    index = Compared(world.url)
    index.found = []
    index.may_end.set()
    client = Client(create_app(replace(world.sources(), index=lambda: index), patient(patience=0.01)))
    shown = _computed(client)
    assert "the chains and the index agree" in shown

    forged = DivergenceRecord(
        kind="EXECUTED_NOT_SENT",
        message_id=bytes(32),
        source_chain=ALPHA,
        destination_chain=BETA,
        evidence="a forged execution",
        severity="critical",
        next_action="look",
    )
    index.may_end.clear()
    index.found = [forged]
    world.now += 3_600
    shown = text_of(client.get("/faults").text)
    assert "the chains and the index agree" not in shown
    assert "Being computed" in shown
    index.may_end.set()
    assert "a forged execution" in _computed(client)


def _computed(client: Client) -> str:
    """The page of faults once it has compared, however long that takes."""
    eventually(lambda: "Being computed" not in text_of(client.get("/faults").text), "faults are computed")
    return text_of(client.get("/faults").text)


def test_every_page_says_as_of_when_and_that_the_index_is_behind(world: World) -> None:
    sent = sent_message()
    world.alpha.mine(routed(sent))
    world.index()
    explorer = world.explorer()
    paths = ("/", "/messages", "/messages?status=stalled", "/lanes", "/gmps", "/faults", "/dead-letters", page(sent))
    for path in (*paths, "/message/0x" + "00" * 32):
        body = explorer.get(path).text
        assert "As of alpha block" in text_of(body), path
        assert "The index is behind" not in body
    world.now += 3_600
    for path in paths:
        shown = text_of(world.explorer().get(path).text)
        assert "The index is behind on alpha: it has read nothing after" in shown, path


def test_live_page_names_the_parts_to_follow(world: World) -> None:
    """Each part that the browser asks for again is on the page under its id."""
    sent = sent_message()
    world.alpha.mine(routed(sent))
    world.index()
    explorer = world.explorer()
    for path in ("/", "/messages", "/faults", page(sent), "/message/0x" + "00" * 32):
        body = explorer.get(path).text
        named = re.search('hx-select-oob="([^"]+)"', body)
        assert named is not None, path
        assert all(f'id="{part[1:]}"' in body for part in named[1].split(",")), path
