"""The HTTP API: reading is open, changing takes the token, and every error says what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from bridge.api.app import create_app
from bridge.api.backend import BackendError, DeliveryFilter, ErrorCode
from bridge.domain.dead_letters import LetterStatus
from bridge.domain.lanes import LaneState
from bridge.domain.outbox import OutboxState
from bridge.http.listening import ListeningError, listening_at
from bridge.http.server import serving
from bridge.protocol.gmps import Gmp
from bridge.protocol.status import Status

TOKEN = "a token of sixteen characters or more"
ID = "0x" + "ab" * 32
DELIVERY = {
    "eventId": f"{ID}/axelar/0",
    "messageId": ID,
    "lane": "alpha → beta",
    "gmp": "axelar",
    "attempt": 0,
    "kind": "PLAIN",
    "state": "DEAD",
    "failedTries": 3,
    "lastError": "no proof",
    "createdAt": 1.0,
    "availableAt": 2.0,
    "claimedAt": None,
    "claimedBy": None,
    "deliveredAt": None,
    "transaction": None,
}
LETTER = {
    "id": f"{ID}/axelar/0",
    "messageId": ID,
    "kind": "PLAIN",
    "sourceChain": 1,
    "destinationChain": 2,
    "gmp": "axelar",
    "status": "PENDING_REVIEW",
    "errorCode": "NotAttestedError",
    "enteredAt": "2026-01-01T00:00:00Z",
    "retentionUntil": "2026-02-01T00:00:00Z",
}


READ_TO = {"name": "alpha", "chainId": 1, "block": 7, "blocksBehind": 2, "secondsBehind": 24, "halted": None}


class Recorder:
    """Answers everything, and remembers what it was asked to change."""

    def __init__(self) -> None:
        self.changes: list[Any] = []
        self.down: list[str] = []

    async def metrics(self) -> bytes:
        return b"waybill_build_info 1\n"

    async def problems(self) -> list[str]:
        return self.down

    async def status(self) -> dict[str, Any]:
        return {"network": "devnet"}

    async def messages(self, status: Status | None, limit: int) -> dict[str, Any]:
        return {"asOf": 1.5, "chains": [READ_TO], "messages": [{"status": status, "limit": limit}]}

    async def explain(self, message_id: bytes) -> dict[str, Any]:
        raise BackendError(ErrorCode.UNKNOWN_ID, f"no router created message 0x{message_id.hex()}", "look elsewhere")

    async def retry(self, message_id: bytes, gmps: Sequence[Gmp] | None) -> dict[str, Any]:
        self.changes.append((message_id.hex(), gmps))
        return {"attempt": 1}

    async def deliveries(self, asked: DeliveryFilter) -> list[dict[str, Any]]:
        message_id = bytes.fromhex(ID[2:])
        expected = DeliveryFilter(state=OutboxState.DEAD, message_id=message_id, since=1.5, until=7.0, limit=5)
        return [DELIVERY] if asked == expected else []

    async def delivery(self, event_id: str) -> dict[str, Any]:
        return {**DELIVERY, "eventId": event_id, "failures": []}

    async def replay(self, event_id: str, reason: str) -> dict[str, Any]:
        self.changes.append((event_id, reason))
        return DELIVERY

    async def dead_letters(self, status: LetterStatus | None, limit: int) -> list[dict[str, Any]]:
        return [LETTER] if (status, limit) == (LetterStatus.PENDING_REVIEW, 5) else []

    async def letter(self, event_id: str) -> dict[str, Any]:
        return {**LETTER, "id": event_id, "history": []}

    async def lanes(self) -> list[dict[str, Any]]:
        return []

    async def change_lane(
        self, source: str, destination: str, state: LaneState, reason: str, by: str
    ) -> dict[str, Any]:
        self.changes.append((source, destination, state, reason, by))
        return {"lane": f"{source} → {destination}", "state": state.value, "reason": reason, "by": by, "at": 1.0}


@asynccontextmanager
async def client(backend: Recorder, token: str | None = TOKEN) -> AsyncIterator[httpx.AsyncClient]:
    """Talks to the real server over a real socket."""
    app = create_app(backend, token=SecretStr(token) if token else None, version="1.2.3")
    async with (
        serving(app, listening_at("127.0.0.1:0")) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as made,
    ):
        yield made


def authorized(token: str = TOKEN) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_probes_tell_alive_from_ready() -> None:
    backend = Recorder()
    async with client(backend) as http:
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        assert (await http.get("/readyz")).json() == {"ready": True, "problems": []}
        backend.down = ["chain beta: no answer in time"]
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.json()["problems"]) == (503, backend.down)
        assert (await http.get("/healthz")).status_code == 200
        scraped = await http.get("/metrics")
        assert (scraped.text, scraped.headers["content-type"][:10]) == ("waybill_build_info 1\n", "text/plain")


async def test_reading_takes_no_token_and_passes_its_filters_on() -> None:
    async with client(Recorder()) as http:
        assert (await http.get("/v1/status")).json() == {"network": "devnet"}
        listed = (await http.get("/v1/messages?status=STALLED&limit=3")).json()
        assert listed == {"asOf": 1.5, "chains": [READ_TO], "messages": [{"status": "STALLED", "limit": 3}]}
        found = await http.get(f"/v1/deliveries?state=DEAD&messageId={ID}&since=1.5&until=7&limit=5")
        assert [row["eventId"] for row in found.json()] == [f"{ID}/axelar/0"]
        assert (await http.get(f"/v1/deliveries/{ID}/axelar/0")).json()["eventId"] == f"{ID}/axelar/0"
        dead_letters = await http.get("/v1/dead-letters?status=PENDING_REVIEW&limit=5")
        assert dead_letters.json() == [LETTER]


async def test_what_is_in_a_dead_letter_is_read_with_the_token_alone() -> None:
    path = f"/v1/dead-letters/{ID}/axelar/0"
    async with client(Recorder()) as http:
        assert (await http.get(path, headers=authorized())).json() == {**LETTER, "history": []}
        for headers in ({}, authorized("another token altogether"), {"Authorization": TOKEN}):
            refused = await http.get(path, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "UNAUTHORIZED")
        assert (await http.head(path)).status_code == 401
    async with client(Recorder(), token=None) as http:
        assert (await http.get(path, headers=authorized())).status_code == 403
        assert (await http.get("/v1/dead-letters?status=PENDING_REVIEW&limit=5")).json() == [LETTER], (
            "that there is one is no secret"
        )


CHANGES: list[tuple[str, dict[str, Any], Any]] = [
    (f"/v1/messages/{ID}/retry", {"gmps": ["wormhole"]}, (ID[2:], [Gmp.WORMHOLE])),
    (f"/v1/messages/{ID}/retry", {}, (ID[2:], None)),
    (f"/v1/deliveries/{ID}/axelar/0/replay", {"reason": "fixed"}, (f"{ID}/axelar/0", "fixed (api)")),
    (
        "/v1/lanes/alpha/beta/pause",
        {"reason": "upgrade", "by": "ann"},
        ("alpha", "beta", LaneState.PAUSED, "upgrade", "ann"),
    ),
    ("/v1/lanes/alpha/beta/resume", {"reason": "done"}, ("alpha", "beta", LaneState.RUNNING, "done", "api")),
]


@pytest.mark.parametrize(("path", "body", "change"), CHANGES)
async def test_a_change_takes_the_token_and_nothing_less(path: str, body: dict[str, Any], change: object) -> None:
    backend = Recorder()
    async with client(backend) as http:
        for headers in ({}, authorized("wrong"), authorized(TOKEN[:-1]), {"Authorization": f"Basic {TOKEN}"}):
            refused = await http.post(path, json=body, headers=headers)
            assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert backend.changes == []
        assert (await http.post(path, json=body, headers=authorized())).status_code == 200
    assert backend.changes == [change]
    async with client(backend, token=None) as http:
        refused = await http.post(path, json=body, headers=authorized("anything"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert backend.changes == [change]


async def test_every_change_in_the_document_is_guarded() -> None:
    async with client(Recorder()) as http:
        document = (await http.get("/openapi.json")).json()
    changing = {
        path: operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method != "get"
    }
    assert len(changing) == 4
    assert all(operation["security"] == [{"HTTPBearer": []}] for operation in changing.values())
    assert document["info"]["version"] == "1.2.3"


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        (f"/v1/messages/{ID}", 404, "no router created message"),
        ("/v1/messages/0x12", 422, "message_id: String should match pattern"),
        ("/v1/messages?status=LOST", 422, "status: Input should be 'ROUTED'"),
        ("/v1/messages?limit=0", 422, "limit: Input should be greater than or equal to 1"),
        (
            "/v1/deliveries?message_id=0x12",
            422,
            "'message_id' is no parameter of this path; its parameters are limit, ",
        ),
        ("/v1/lanes?state=PAUSED", 422, "'state' is no parameter of this path; it has no parameters"),
        ("/v1/nothing", 404, "there is nothing at this path"),
        ("/v1/status/", 404, "there is nothing at this path"),
    ],
)
async def test_errors_have_one_form_and_say_what_is_wrong(path: str, status: int, said: str) -> None:
    async with client(Recorder()) as http:
        answer = await http.get(path)
    assert answer.status_code == status
    assert said in answer.json()["error"]["message"]


async def test_an_unknown_gmp_is_named_with_those_that_exist() -> None:
    async with client(Recorder()) as http:
        answer = await http.post(f"/v1/messages/{ID}/retry", json={"gmps": ["pigeon"]}, headers=authorized())
    assert (answer.status_code, "the GMPs are hyperlane" in answer.json()["error"]["message"]) == (422, True)


def test_an_address_that_is_taken_or_can_not_be_meant_is_said() -> None:
    with listening_at("127.0.0.1:0") as taken:
        taken.listen()
        with pytest.raises(ListeningError, match=r"can't listen at 127\.0\.0\.1:\d+: Address already in use"):
            listening_at(f"127.0.0.1:{taken.getsockname()[1]}")
    for address in ("8080", "localhost:", "localhost:99999", ":80"):
        with pytest.raises(ListeningError, match="HOST:PORT"):
            listening_at(address)


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (
            f"/v1/deliveries?message_id={ID}",
            "'message_id' is no parameter of this path; its parameters are limit, messageId, since, state, until",
        ),
        (f"/v1/messages?messageId={ID}", "'messageId' is no parameter of this path; its parameters are limit, status"),
        (
            "/v1/dead-letters?state=DEAD&limit=5",
            "'state' is no parameter of this path; its parameters are limit, status",
        ),
        ("/v1/status?verbose=1", "'verbose' is no parameter of this path; it has no parameters"),
    ],
)
async def test_a_misspelt_query_is_refused_by_name_instead_of_filtering_nothing(path: str, named: str) -> None:
    async with client(Recorder()) as http:
        answer = await http.get(path)
    assert answer.status_code == 422
    assert named in answer.json()["error"]["message"]
