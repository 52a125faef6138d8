"""What is shared and taken away: choices by time, exports, an address's page, and previews."""

from __future__ import annotations

import csv
import io
import re

import pytest

from bridge.protocol.message import Message
from bridge.web import app as web_app
from tests.unit.indexer.world import START, executed, received, routed, sent_message
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


def test_export_holds_the_choice_and_names_the_next_part(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = hours(world, 5)
    monkeypatch.setattr(web_app, "_EXPORTED", 2)
    monkeypatch.setattr(web_app, "_EXPORT_PART", 2)
    explorer = world.explorer()
    found: list[str] = []
    path: str | None = "/messages.csv?source=alpha"
    while path is not None:
        part = explorer.get(path)
        rows = list(csv.DictReader(io.StringIO(part.text)))
        assert rows[0]["sender"] == SENDER
        found += [row["messageId"] for row in rows]
        link = re.match('<([^>]*)>; rel="next"', part.headers.get("link", ""))
        path = link[1] if link else None
    assert found == [f"0x{one.id.hex()}" for one in reversed(sent)]
    assert explorer.get("/messages.csv?status=dead").status_code == 400


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
