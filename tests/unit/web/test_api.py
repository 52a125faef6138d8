"""The JSON API: who may do what, what actions become, and how errors look."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from httpx import Response
from pydantic import SecretStr

from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.records.jobs import RetryJob, RetryState
from bridge.records.outbox import TryAgain
from bridge.store import open_dead_letters
from tests.unit.dead_letters.world import DeadLetterService
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import executed, received, routed, sent_message
from tests.unit.web.explorer import Client, World, patient

TOKEN = "an operator's long token"
BEARER = {"authorization": f"Bearer {TOKEN}"}


class Api:
    """The API over a world with three messages: one executed, one whose only delivery died, one that fails."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.arrived, self.stuck, self.failing = (sent_message(nonce, quorum=1) for nonce in (1, 2, 3))
        world.alpha.mine(routed(self.arrived), routed(self.stuck, gmps=0b1), routed(self.failing))
        world.beta.mine(received(self.arrived, 1), executed(self.arrived))
        world.index()
        self.log = open_dead_letters(f"sqlite:///{world.home / 'bridge.db'}")
        service = DeadLetterService(store=world.relayer, dead_letters=self.log)
        self.letter = asyncio.run(service.die(self.stuck, error="no gas"))
        self.pending = self._fail_twice(service, self.failing)
        self.client = self.served()

    def served(self, token: str | None = TOKEN, **settings: Any) -> Client:
        secret = SecretStr(token) if token else None
        return self.world.explorer(patient(token=secret, **settings), dead_letters=lambda: self.log)

    def get(self, path: str, headers: dict[str, str] | None = None) -> Any:
        return self.client.get(f"/v1{path}", headers=headers).json()

    def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Response:
        return self.client.post(f"/v1{path}", headers=BEARER if headers is None else headers, json=body)

    @staticmethod
    def _fail_twice(service: DeadLetterService, sent: Message) -> str:
        service.observe(sent)
        for error, code, wait in (("no answer", "UnansweredError", 0), ("no proof", "NotAttestedError", 7)):
            (entry,) = service.claim()
            now = service.clock.now()
            failure = Failure(at=now, kind=FailureKind.TRANSIENT, code=code, message=error)
            service.store.outbox.finish([TryAgain(entry.current_claim, failure, now + wait)], now)
        return entry.event_id


@pytest.fixture
def api(world: World) -> Iterator[Api]:
    made = Api(world)
    yield made
    made.log.close()


def id_of(message: Message) -> str:
    return f"0x{message.id.hex()}"


def test_api_times_are_iso_and_names_camel_case(api: Api) -> None:
    listed = api.get("/messages?status=EXECUTED")
    (one,) = listed["messages"]
    assert (one["messageId"], one["sourceChain"], one["destinationChain"]) == (id_of(api.arrived), ALPHA, BETA)
    for moment in (listed["asOf"], one["sentAt"], one["executedAt"]):
        assert moment.endswith("Z")
        assert "T" in moment


def test_api_message_pages_follow_one_another(api: Api) -> None:
    seen: list[str] = []
    path: str | None = "/messages?limit=2"
    while path is not None:
        part = api.get(path)
        seen += [one["messageId"] for one in part["messages"]]
        path = part["next"] and part["next"].removeprefix("/v1")
    assert sorted(seen) == sorted(map(id_of, (api.arrived, api.stuck, api.failing)))


def test_api_explains_a_message(api: Api) -> None:
    found = api.get(f"/messages/{id_of(api.stuck)}")
    assert (found["status"], found["gmps"][0]["stage"], found["retries"]) == ("DEAD", "DEAD", [])
    assert api.client.get(f"/v1/messages/0x{'ab' * 32}").status_code == 404


def test_api_retry_becomes_a_job_of_the_relayer(api: Api) -> None:
    path = f"/messages/{id_of(api.failing)}/retry"
    ordered = api.post(path, {"gmps": ["axelar", "ccip"], "by": "ann"})
    assert (ordered.status_code, ordered.json()["state"], ordered.json()["attempt"]) == (202, "OPEN", 1)
    (job,) = api.world.relayer.jobs.due(RetryJob, api.world.now, 10)
    assert (job.message_id, job.wanted, job.request.attempt) == (api.failing.id, frozenset({Gmp.AXELAR, Gmp.CCIP}), 1)
    assert api.post(path, {}).status_code == 409, "one is under way"
    assert api.world.relayer.jobs.save(job.settled(RetryState.NOT_NEEDED, "delivered", 1.0), fence=job.fence)
    assert api.post(path, {}).status_code == 202
    states = [one["state"] for one in api.get(f"/messages/{id_of(api.failing)}")["retries"]]
    assert states == ["NOT_NEEDED", "OPEN"]
    assert api.post(f"/messages/{id_of(api.arrived)}/retry", {}).status_code == 409, "it was executed"
    assert api.post(path, {"gmps": ["pigeon"]}).status_code == 422


def test_api_letters_and_changes_need_the_token(api: Api) -> None:
    letter = f"/dead-letters/{api.letter}"
    assert [one["id"] for one in api.get("/dead-letters")] == [api.letter], "that there is one is open"
    assert api.get(letter, BEARER)["document"]["failureHistory"]
    retry = f"/messages/{id_of(api.failing)}/retry"
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Token {TOKEN}"}):
        assert api.client.get(f"/v1{letter}", headers=headers).status_code == 401
        assert api.post(retry, {}, headers).status_code == 401
    api.client = api.served(token=None)
    assert api.post(retry, {}).status_code == 403
    assert api.world.relayer.jobs.due(RetryJob, api.world.now, 10) == []


ERRORS = [
    (f"/messages/0x{'ab' * 32}", 404, "has seen message"),
    ("/messages/0x12", 422, "message_id: String should match pattern"),
    ("/messages?status=LOST", 400, "unknown status 'LOST'"),
    ("/messages?limit=0", 422, "limit: Input should be greater than or equal to 1"),
    ("/messages?messageId=1", 400, "'messageId' is not a filter"),
    ("/nothing", 404, "/v1/nothing"),
]


def test_api_errors_are_json_and_name_the_value(api: Api) -> None:
    for path, status, text in ERRORS:
        answer = api.client.get(f"/v1{path}")
        error = answer.json()["error"]
        assert (answer.status_code, set(error)) == (status, {"code", "message", "next"})
        assert text in error["message"]


def test_api_refuses_unknown_bodies(api: Api) -> None:
    retry = f"/messages/{id_of(api.failing)}/retry"
    bodies: list[Any] = [{"by": ""}, {"gmps": [], "state": "HALTED"}, [], "x"]
    for body in bodies:
        assert api.post(retry, body).status_code == 422
    assert api.client.post(f"/v1{retry}", headers=BEARER, content=b"{").status_code == 422
