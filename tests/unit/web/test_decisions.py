"""Decisions about dead letters from a browser: an operator's wallet signs twice, and nothing else changes anything."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address
from pydantic import SecretStr

from bridge.dead_letters.integrity import verify
from bridge.dead_letters.review import DeadLetterReview
from bridge.dead_letters.signing import KeySealer
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.ports import TransientError
from bridge.protocol.times import iso_milliseconds
from bridge.records.dead_letters import Decision, LetterStatus
from bridge.records.outbox import OutboxState
from bridge.store import open_dead_letters, open_store
from bridge.web import Sources, create_app
from tests.builders import ALPHA, BETA, message
from tests.unit.dead_letters.test_review import ROUTER_ADDRESS, SENDER, Office
from tests.unit.dead_letters.world import OPERATOR, SEALER, STRANGER, DeadLetterService, entered
from tests.unit.web.explorer import Client, deployment, patient

PLACE = "/dead-letters/decisions"
TOKEN = "an operator's long token"


class Browser:
    """An explorer of one dead letter, in real SQLite files, and whoever visits it."""

    def __init__(self, home: Path, **settings: Any) -> None:
        self.store = open_store(f"sqlite:///{home / 'bridge.db'}")
        self.log = open_dead_letters(f"sqlite:///{home / 'dead_letters.db'}")
        self.dead_letter_queue = Office(None, DeadLetterService(store=self.store, dead_letters=self.log))
        self.clock = self.dead_letter_queue.dead_letter_service.clock
        original = message(sender=to_bytes32(SENDER.address))
        self.event_id = asyncio.run(
            self.dead_letter_queue.dead_letter_service.die(original, error="<script>alert(1)</script>")
        )
        sources = Sources(
            deployment=deployment(),
            index=lambda: None,
            store=lambda: self.store,
            dead_letters=lambda: self.log,
            clock=self.clock.now,
        )
        self.client = Client(create_app(sources, patient(**settings), self._review))

    @asynccontextmanager
    async def _review(self) -> AsyncIterator[DeadLetterReview]:
        yield self.dead_letter_queue.review

    def form(self, decision: Decision, maker: LocalAccount = OPERATOR) -> dict[str, Any]:
        return {
            "eventId": self.event_id,
            "decision": decision.value,
            "maker": maker.address,
            "rationale": "the gateway is back",
        }

    def post(self, form: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        answer = self.client.post(PLACE, json=form)
        return answer.status_code, answer.json()

    def signed(self, decision: Decision) -> dict[str, Any]:
        """The form with the operator's signature, and all that the explorer asked for before."""
        form = self.form(decision)
        code, asked = self.post(form)
        assert code == 200, asked
        notice = {"notice": f"0x{'ab' * 32}"} if asked["notice"] else {}
        return form | notice | {"at": asked["at"], "signature": sign(OPERATOR, asked["sign"])}

    def status(self) -> LetterStatus:
        letter = self.log.letter(self.event_id)
        assert letter is not None
        return letter.status


def sign(account: LocalAccount, typed: dict[str, Any]) -> str:
    return f"0x{bytes(account.sign_message(encode_typed_data(full_message=typed)).signature).hex()}"


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    made = Browser(tmp_path)
    yield made
    made.store.close()
    made.log.close()


@pytest.mark.parametrize(
    ("decision", "status"),
    [
        (Decision.REQUEUE, LetterStatus.RETRY_QUEUED),
        (Decision.ABANDON, LetterStatus.ABANDONED),
        (Decision.GOVERNANCE_ESCALATION, LetterStatus.PENDING_REVIEW),
    ],
)
def test_wallet_signed_decision_is_recorded_and_verifies(
    browser: Browser, decision: Decision, status: LetterStatus
) -> None:
    form = browser.signed(decision)
    code, answer = browser.post(form)
    assert (code, list(answer)) == (200, ["seal"])
    assert len(browser.log.history(browser.event_id)) == 1
    code, answer = browser.post(form | {"seal": sign(OPERATOR, answer["seal"])})
    assert (code, answer) == (200, {"recorded": 2})
    assert browser.status() is status
    decided = browser.log.history(browser.event_id)[1].document
    assert decided is not None
    assert (
        decided.items()
        >= {
            "dlqEntryId": browser.event_id,
            "decisionAt": iso_milliseconds(form["at"]),
            "decisionMaker": OPERATOR.address,
            "decisionType": decision.value,
            "rationale": "the gateway is back",
            "signature": form["signature"],
        }.items()
    )
    assert verify(browser.log, trusted=frozenset({SEALER.address, OPERATOR.address})).violations == ()
    entry = browser.store.outbox.entry(browser.event_id)
    assert entry is not None
    assert entry.state is (OutboxState.PENDING if decision is Decision.REQUEUE else OutboxState.DEAD)
    page = browser.client.get(f"/dead-letters/{browser.event_id}").text
    assert "the gateway is back" in page
    assert "<script>alert" not in page


def test_taken_place_in_the_log_is_signed_again(browser: Browser) -> None:
    form = browser.signed(Decision.ABANDON)
    _, first = browser.post(form)
    browser.log.append(entered("another"), KeySealer(SEALER))
    _, second = browser.post(form | {"seal": sign(OPERATOR, first["seal"])})
    assert second["seal"]["message"]["sequence"] == first["seal"]["message"]["sequence"] + 1
    assert browser.status() is LetterStatus.PENDING_REVIEW
    assert browser.post(form | {"seal": sign(OPERATOR, second["seal"])}) == (200, {"recorded": 3})


def test_what_nobody_signed_who_may_decide_changes_nothing(browser: Browser) -> None:
    form = browser.signed(Decision.ABANDON)
    _, answer = browser.post(form)
    seal = sign(OPERATOR, answer["seal"])
    wrong: list[dict[str, Any]] = [
        browser.form(Decision.ABANDON, STRANGER),
        form | {"maker": STRANGER.address, "seal": seal},
        form | {"signature": sign(STRANGER, {**answer["seal"]}), "seal": seal},
        form | {"rationale": "another reason", "seal": seal},
        form | {"decision": "REQUEUE", "seal": seal},
        form | {"at": form["at"] - 1, "seal": seal},
        form | {"at": form["at"] - 601, "seal": seal},
        browser.form(Decision.ABANDON) | {"rationale": "  "},
        browser.form(Decision.RETRY),
        browser.form(Decision.ABANDON) | {"eventId": "0x12/axelar/0"},
        browser.form(Decision.ABANDON) | {"colour": "red"},
        form | {"signature": "0x12"},
    ]
    for tried in wrong:
        code, said = browser.post(tried)
        assert code in (404, 422), tried
        assert said["error"]["message"], tried
    _, unsealed = browser.post(form | {"seal": sign(STRANGER, answer["seal"])})
    assert list(unsealed) == ["seal"]
    assert len(browser.log.records()) == 1
    assert browser.status() is LetterStatus.PENDING_REVIEW


def test_foreign_sites_and_long_requests_are_refused(browser: Browser, tmp_path: Path) -> None:
    form = browser.form(Decision.ABANDON)
    assert browser.client.post(PLACE, json=form, headers={"origin": "https://evil.example"}).status_code == 403
    assert browser.client.post(PLACE, json=form | {"rationale": "x" * 30_000}).status_code == 413
    (tmp_path / "other").mkdir()
    reading = Browser(tmp_path / "other", read_only=True)
    assert reading.client.post(PLACE, json=form).status_code == 405
    page = reading.client.get(f"/dead-letters/{reading.event_id}").text
    assert "data-act" not in page
    assert "data-letter" not in page
    reading.store.close()
    reading.log.close()


def test_public_explorer_hides_letter_contents(tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    public = Browser(tmp_path / "public", open_letters=False, token=SecretStr(TOKEN))
    path = f"/dead-letters/{public.event_id}"

    def signed_in(password: str) -> dict[str, str]:
        return {"authorization": f"Basic {b64encode(f'ann:{password}'.encode()).decode()}"}

    seen = public.client.get(path)
    assert (seen.status_code, "pending review" in seen.text, "sign-in" in seen.text) == (200, True, True)
    asked = public.client.get(f"{path}?sign-in")
    assert (asked.status_code, asked.headers["www-authenticate"][:5]) == (401, "Basic")
    (tmp_path / "closed").mkdir()
    closed = Browser(tmp_path / "closed", open_letters=False)
    nobodys = closed.client.get(f"/dead-letters/{closed.event_id}", headers=signed_in(""))
    assert ("pending review" in nobodys.text, "sign-in" in nobodys.text) == (True, False)
    for page in (
        seen,
        asked,
        public.client.get(path, headers=signed_in("guessed")),
        public.client.get("/dead-letters"),
        nobodys,
        closed.client.get("/dead-letters"),
    ):
        for content in ("alert(1)", "Before you decide", "Failures", "waybill dlq decide ID requeue"):
            assert content not in page.text
    assert "Before you decide" in public.client.get(path, headers=signed_in(TOKEN)).text
    for one in (public, closed):
        one.store.close()
        one.log.close()


def test_signature_is_bound_to_chain_and_contract(browser: Browser) -> None:
    _, asked = browser.post(browser.form(Decision.ABANDON))
    domain = asked["sign"]["domain"]
    assert domain["chainId"] == ALPHA
    assert domain["verifyingContract"] == to_checksum_address(ROUTER_ADDRESS)
    elsewhere = {**asked["sign"], "domain": {**domain, "chainId": BETA}}
    form = browser.signed(Decision.ABANDON) | {"at": asked["at"], "signature": sign(OPERATOR, elsewhere)}
    code, said = browser.post(form)
    assert (code, "its signer is" in said["error"]["message"]) == (422, True)


def test_what_a_node_says_and_its_host_reach_no_visitor(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    async def down(*_: object) -> None:
        raise TransientError("https://key@rpc.example: \u202eno answer\u0000")

    monkeypatch.setattr(browser.dead_letter_queue.review, "prepare", down)
    answer = browser.client.post(PLACE, json=browser.form(Decision.ABANDON))
    assert (answer.status_code, "rpc.example" in answer.text, "202e" in answer.text) == (503, False, False)


def test_unknown_form_is_refused_without_hidden_characters(browser: Browser) -> None:
    form = browser.form(Decision.ABANDON)
    for changes in (
        {"\u202ecolour": "red"},
        {"eventId": "\u202e/axelar/0"},
        {"at": float("nan")},
        {"rationale": "\ud800"},
    ):
        body = json.dumps(form | changes).encode()
        answer = browser.client.post(PLACE, content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (404, 422), (changes, answer.text)
        assert "\u202e" not in answer.json()["error"]["message"]
