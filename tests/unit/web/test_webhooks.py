"""The page of deliveries to webhooks: for operators alone, and with redelivery."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from bridge.domain.webhooks import WebhookDelivery, WebhookState
from bridge.store import SqlStore
from bridge.web import Sources, create_app
from tests.builders import message
from tests.unit.web.explorer import Client, deployment, patient, text_of

TOKEN = "an operator's long token"
KEY = f"0x{message().id.hex()}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    """Sixty deliveries, of which the oldest is dead and the one after it is delivered."""
    with closing(SqlStore(f"sqlite:///{tmp_path}/bridge.db")) as opened:
        usual: dict[str, Any] = {"target": "first", "event": "ROUTED", "body": '{"secret": "body"}', "created_at": 1.0}
        new = [WebhookDelivery(id=f"first-{n}", key=f"{KEY[:-2]}{n:02}", version=n, **usual) for n in range(10, 70)]
        opened.webhooks.add(new)
        dead, delivered = opened.webhooks.claim("first", now=10, lease=5, limit=2)
        opened.webhooks.failed(dead, "<script>alert(1)</script>", 11, None)
        opened.webhooks.delivered(delivered, 11)
        yield opened


def client(store: SqlStore, **settings: Any) -> Client:
    sources = Sources(
        deployment=deployment(),
        index=lambda: None,
        store=lambda: store,
        webhooks=lambda: store.webhooks,
        clock=lambda: 20.0,
    )
    return Client(create_app(sources, patient(**settings)))


def test_deliveries_are_listed_by_state_and_in_pages(store: SqlStore) -> None:
    browser = client(store)
    assert 'href="/webhooks"' in browser.get("/dead-letters").text
    first = browser.get("/webhooks").text
    assert "first-69" in first
    assert "first-10<" not in first
    assert "first: 58 pending" in text_of(first)
    assert '/webhooks?before=20"' in first
    assert "first-10<" in browser.get("/webhooks?before=20").text
    dead = browser.get("/webhooks?state=DEAD").text
    assert "first-10<" in dead
    assert "first-11<" not in dead
    assert "<script>alert" not in dead
    assert "secret" not in first
    for link in ("?state=nice", "?before=yesterday"):
        assert browser.get(f"/webhooks{link}").status_code == 400


def test_what_has_ended_is_delivered_again(store: SqlStore) -> None:
    browser = client(store)
    for name in ("first-10", "first-11"):
        answer = browser.post(f"/webhooks/{name}/redeliver")
        assert (answer.status_code, answer.headers["location"]) == (303, "/webhooks")
    assert store.webhooks.figures()["first"].pending == 60
    assert browser.post("/webhooks/first-12/redeliver").status_code == 409
    assert browser.post("/webhooks/first-99/redeliver").status_code == 404
    assert client(store, read_only=True).post("/webhooks/first-10/redeliver").status_code in (404, 405)


def test_strangers_see_no_delivery_and_redeliver_none(store: SqlStore) -> None:
    public = client(store, open_letters=False, token=SecretStr(TOKEN))
    signed = {"authorization": f"Basic {b64encode(f'ann:{TOKEN}'.encode()).decode()}"}
    assert "first-69" not in public.get("/webhooks").text
    asked = public.get("/webhooks?sign-in")
    assert (asked.status_code, asked.headers["www-authenticate"][:5]) == (401, "Basic")
    assert "first-69" in public.get("/webhooks", headers=signed).text
    again = "/webhooks/first-10/redeliver"
    assert public.post(again).status_code == 403
    assert public.post(again, headers={**signed, "sec-fetch-site": "cross-site"}).status_code == 403
    closed = client(store, open_letters=False)
    assert "sign-in" not in closed.get("/webhooks", headers=signed).text
    assert closed.post(again, headers=signed).status_code == 403
    dead = store.webhooks.delivery("first-10")
    assert dead is not None
    assert dead.state is WebhookState.DEAD
    assert public.post(again, headers=signed).status_code == 303
