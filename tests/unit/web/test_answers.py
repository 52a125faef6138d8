"""What holds for every answer of the explorer: errors are pages, nothing foreign comes in, nothing secret goes out."""

from __future__ import annotations

import html
import re

import pytest

from bridge.web import Sources, create_app
from tests.unit.indexer.world import routed, sent_message
from tests.unit.web.explorer import RPC, Client, World, deployment, page, patient


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/nowhere", 404, "there is no page '/nowhere'"),
        ("/messages?status=NICE", 400, "status='NICE' can't be used"),
        ("/lanes", 500, "the server failed; the log of `waybill web` says how"),
    ],
)
def test_whatever_goes_wrong_is_a_page_with_a_way_back(path: str, code: int, said: str) -> None:
    def broken() -> None:
        raise RuntimeError("<b>a bug</b>")

    app = create_app(Sources(deployment=deployment(), index=broken, store=lambda: None), patient())
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
    explorer = world.explorer(patient(public_rpc=RPC))
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
        explorer = world.explorer(patient(public_rpc=public), network="testnet")
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
    body = world.explorer(patient(public_rpc=RPC, read_only=True)).get(page(sent)).text
    assert "data-act" not in body
    assert "This explorer is read-only" in body


def test_a_client_that_asks_too_often_is_told_to_wait(world: World) -> None:
    explorer = world.explorer(patient(requests_per_minute=20))
    codes = [explorer.get("/static/icon.svg").status_code for _ in range(25)]
    assert codes[:20] == [200] * 20
    assert codes[-1] == 429
    refused = explorer.get("/", headers={"accept": "text/html"})
    assert refused.headers["retry-after"] == "10"
    assert "try again in 10 seconds" in refused.text
    assert "<html" in refused.text
    assert "<html" not in explorer.get("/", headers={"accept": "*/*"}).text


def test_a_request_from_another_site_can_change_nothing(world: World) -> None:
    explorer = world.explorer()
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
        assert explorer.post("/", headers=headers).status_code == 403
    assert explorer.post("/", headers={"sec-fetch-site": "same-origin"}, content=b"x").status_code == 405
