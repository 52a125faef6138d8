"""What is shared and taken away: choices by time, exports, an address's page, and previews."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime
from html import unescape
from xml.etree import ElementTree as ET

import pytest

from bridge.protocol.message import Message
from bridge.web import app as web_app
from tests.unit.indexer.world import START, executed, received, retried, routed, sent_message
from tests.unit.web.explorer import World, deployment, page, text_of

ATOM = "{http://www.w3.org/2005/Atom}"
SENDER = "0x" + "11" * 20


def hours(world: World, count: int = 3) -> list[Message]:
    """A message an hour."""
    sent = [sent_message(nonce, quorum=1) for nonce in range(1, count + 1)]
    for number, one in enumerate(sent):
        world.alpha.mine(routed(one), time=START + 3600 * number)
    world.index()
    return sent


def shown(body: str) -> set[str]:
    return set(re.findall(r"0x[0-9a-f]{64}(?=\")", body))


def test_a_time_chooses_messages_and_stays_in_the_links(world: World) -> None:
    sent = hours(world)
    explorer = world.explorer()
    times = {row["messageId"]: row["sentAt"] for row in explorer.get("/messages.json").json()["messages"]}
    middle = datetime.fromtimestamp(times[f"0x{sent[1].id.hex()}"] // 60 * 60, UTC).strftime("%Y-%m-%dT%H:%M")
    since = explorer.get("/messages", params={"since": middle}).text
    until = explorer.get("/messages", params={"until": middle}).text
    ids = [f"0x{one.id.hex()}" for one in sent]
    assert [one in since for one in ids] == [False, True, True]
    assert [one in until for one in ids] == [True, False, False]
    assert f'value="{middle}"' in since
    assert f"/messages.csv?since={middle.replace(':', '%3A')}" in since


def test_exports_count_retries_as_a_messages_page_does(world: World) -> None:
    sent = sent_message()
    world.alpha.mine(routed(sent), retried(sent, 1), retried(sent, 2))
    world.index()
    explorer = world.explorer()
    (row,) = explorer.get("/messages.json").json()["messages"]
    assert (row["retries"], "attempts" in row) == (2, False)
    (written,) = csv.DictReader(io.StringIO(explorer.get("/messages.csv").text))
    assert (written["retries"], "attempts" in written) == ("2", False)
    assert "Attempts 3 (the route and 2 retries)" in text_of(explorer.get(page(sent)).text)


def test_an_export_holds_the_choice_and_goes_on_where_it_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = hours(world, 5)
    monkeypatch.setattr(web_app, "_EXPORTED", 2)
    monkeypatch.setattr(web_app, "_EXPORT_PART", 2)
    explorer = world.explorer()
    found: list[str] = []
    path: str | None = "/messages.json?source=alpha"
    asked = 0
    while path is not None:
        part = explorer.get(path).json()
        found += [row["messageId"] for row in part["messages"]]
        path, asked = part["next"], asked + 1
    assert found == [f"0x{one.id.hex()}" for one in reversed(sent)]
    assert asked == 3

    answer = explorer.get("/messages.csv?source=alpha")
    assert (
        answer.headers["link"]
        == f'<{explorer.get("/messages.json?source=alpha").json()["next"].replace("json", "csv")}>; rel="next"'
    )
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["messageId"] for row in rows] == found[:2]
    assert rows[0]["sender"] == SENDER
    assert explorer.get("/messages.xml").status_code in (404, 422)
    assert explorer.get("/messages.csv?status=dead").status_code == 400


AT = START + 600


def test_a_choice_is_followed_in_a_feed_reader_and_a_new_state_is_a_new_entry(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = sent_message(1, quorum=1)
    world.alpha.mine(routed(sent), time=START)
    world.index()
    explorer = world.explorer()

    def read(path: str) -> ET.Element:
        answer = explorer.get(path)
        assert answer.headers["content-type"] == "application/atom+xml"
        return ET.fromstring(answer.text)  # noqa: S314  # it is ours

    def entries(path: str) -> dict[str, ET.Element]:
        return {text_at(one, "id"): one for one in read(path).iter(f"{ATOM}entry")}

    def text_at(entry: ET.Element, name: str) -> str:
        found = entry.findtext(f"{ATOM}{name}")
        assert found is not None
        return found

    ((first, entry),) = entries("/messages.atom?source=alpha").items()
    assert f"0x{sent.id.hex()}" in first
    assert "alpha → beta, 0 of 1 GMPs delivered" in text_at(entry, "title")
    assert text_at(entry, "updated") == datetime.fromtimestamp(START, UTC).isoformat()
    assert text_at(read("/messages.atom"), "updated") == text_at(entry, "updated"), "nothing is newer than its news"
    link = entry.find(f"{ATOM}link")
    assert link is not None
    assert explorer.get(link.attrib["href"]).status_code == 200
    assert entries("/messages.atom?source=beta") == {}
    shown_link = re.search(r'<link rel="alternate" [^>]*href="([^"]+)"', explorer.get("/messages?source=alpha").text)
    assert shown_link is not None
    assert list(entries(unescape(shown_link[1]))) == [first]

    world.beta.mine(received(sent, 1), executed(sent), time=AT)
    world.index()
    (then,) = entries("/messages.atom?source=alpha")
    assert then.endswith(":EXECUTED")
    assert then != first
    assert text_at(then_entry := read("/messages.atom"), "updated") == datetime.fromtimestamp(AT, UTC).isoformat()
    assert then_entry.find(f"{ATOM}link[@rel='next']") is None
    monkeypatch.setattr("bridge.web.app._FEED_ENTRIES", 1)
    other = sent_message(2, quorum=1)
    world.alpha.mine(routed(other), time=START + 900)
    world.index()
    newest = read("/messages.atom")
    older = newest.find(f"{ATOM}link[@rel='next']")
    assert older is not None
    assert f"0x{other.id.hex()}" in next(iter(entries("/messages.atom")))
    assert list(entries(older.attrib["href"])) == [then]
    assert explorer.get("/messages.atom?status=dead").status_code == 400


def test_an_address_has_a_page_with_what_it_sent_and_got(world: World) -> None:
    done, waiting = sent_message(1, quorum=1), sent_message(2, quorum=1)
    world.alpha.mine(routed(done), routed(waiting))
    world.beta.mine(received(done, 1), executed(done))
    world.index()
    explorer = world.explorer()
    to = explorer.get("/search", params={"q": SENDER}).headers["location"]
    assert to == f"/address/{SENDER}"
    body = explorer.get(to).text
    said = text_of(body)
    assert "2 sent by it" in said
    assert "0 sent to it" in said
    assert f'href="/messages?account={SENDER}&amp;status=EXECUTED"' in body
    assert {f"0x{one.id.hex()}" for one in (done, waiting)} <= shown(body)
    assert f'href="{to}"' in explorer.get(page(done)).text
    nobody = text_of(explorer.get("/address/0x" + "77" * 20).text)
    assert "0 sent by it" in nobody
    assert explorer.get("/address/0x12").status_code == 400


def test_a_shared_page_has_a_preview_that_says_what_it_shows(world: World) -> None:
    sent = sent_message(1, quorum=2)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1))
    world.index()
    head = world.explorer().get(page(sent)).text.partition("<body")[0]
    said = dict(re.findall(r'<meta property="og:(\w+)" content="([^"]*)"', head))
    assert "received" in said["title"]
    assert "alpha → beta, 1 of 2 GMPs delivered" in said["description"]
    assert f'<meta name="description" content="{said["description"]}">' in head


def test_an_address_with_a_wrong_checksum_is_not_taken_for_another_one(world: World) -> None:
    explorer = world.explorer()
    right = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
    wrong = right.replace("3C", "3c")
    for path in (f"/address/{wrong}", f"/messages?account={wrong}", f"/search?q={wrong}"):
        answer = explorer.get(path)
        assert answer.status_code in (400, 404), path
        assert "has a wrong EIP-55 checksum" in answer.text
        assert right not in answer.text
    for written in (right, right.lower()):
        assert right in explorer.get(f"/address/{written}").text


def test_an_address_of_the_network_says_what_it_is(world: World) -> None:
    network = deployment()
    explorer = world.explorer()
    (alpha, *_) = network.chains
    said = text_of(explorer.get(f"/address/{alpha.router}").text)
    assert "Known as: router on alpha" in said
    assert "It has neither sent nor received a message." in said or "No index has run yet" in said
    assert "Known as" not in text_of(explorer.get(f"/address/{SENDER}").text)
