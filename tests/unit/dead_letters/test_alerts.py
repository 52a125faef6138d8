"""Everybody who should know of a dead letter is told, by real servers' account, also after one of them was away."""

from __future__ import annotations

import asyncio
import email
import email.policy
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from eth_abi.abi import decode, encode
from eth_utils.abi import function_signature_to_4byte_selector
from sqlalchemy import create_engine, text

from bridge.client import RouteRequest
from bridge.dead_letters.alerts import Alerts
from bridge.dead_letters.channels import Channel, Email, Mailbox, Notice, PagerDuty, Slack, Webhook
from bridge.dead_letters.integrity import verify
from bridge.dead_letters.parameters import (
    ALERT_THRESHOLD,
    CRITICAL_THRESHOLD,
    OnChainParameters,
    Thresholds,
    operator_parameter,
)
from bridge.dead_letters.signing import KeySealer
from bridge.protocol.deployment import Deployment
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.message import Kind
from bridge.protocol.ports import Call, CallRevertedError, Chain, TransientError
from bridge.records.dead_letters import RecordKind
from bridge.records.outbox import TryAgain
from bridge.relayer.own_messages import OwnMessages
from bridge.service.dead_letter_service import DeadLetterService as RunningService
from bridge.service.dead_letter_service import trusted_accounts, verify_letters
from bridge.service.keys import open_sealer
from bridge.service.settings import Settings
from bridge.store.dead_letters import DeadLetterLog
from tests.builders import ALPHA, BETA, message
from tests.support.stores import memory_store
from tests.unit.dead_letters.servers import WebhookServer, mail_server, webhook_server
from tests.unit.dead_letters.test_review import deployed
from tests.unit.dead_letters.world import OPERATOR, SEALER, STRANGER, DeadLetterService, StillClock, entered, happened
from tests.waiting import PATIENCE


@dataclass
class Fixed:
    """Thresholds that somebody set."""

    value: Thresholds = Thresholds()  # noqa: RUF009  # frozen
    asked: int = 0
    is_away: bool = False

    async def thresholds(self) -> Thresholds:
        self.asked += 1
        if self.is_away:
            raise TransientError("no answer")
        return self.value


async def tell_all(alerts: Alerts) -> bool:
    """Has each channel take its turn; raises what the first that failed says."""
    outcomes = await asyncio.gather(*map(alerts.tell, alerts.channels), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return any(outcomes)


@pytest.fixture
def hook() -> Iterator[WebhookServer]:
    with webhook_server() as server:
        yield server


async def test_a_webhook_gets_all_that_triage_needs(hook: WebhookServer) -> None:
    review = DeadLetterService()
    sent = message()
    review.observe(sent)
    (entry,) = review.claim()
    first = Failure(at=review.clock.now(), kind=FailureKind.TRANSIENT, code="FirstError", message="no answer")
    review.store.outbox.finish([TryAgain(entry.current_claim, first, review.clock.now())], review.clock.now())
    (entry,) = review.claim()
    await review.mark_dead(entry)
    event_id = entry.event_id
    alerts = Alerts(review.dead_letters, [Webhook(hook.url, timeout=PATIENCE)], Fixed().thresholds, review.clock)
    await tell_all(alerts)
    (posted,) = hook.posted
    details = posted["details"]
    assert posted["severity"] == "warning"
    assert details["eventId"] == event_id
    assert details["messageId"] == f"0x{sent.id.hex()}"
    assert (details["messageType"], details["sourceChainId"]) == ("PLAIN", sent.source_chain)
    history = [(one["errorCode"], one["errorMessage"]) for one in details["failureHistory"]]
    assert history == [("FirstError", "no answer"), ("TransientError", "no proof")]
    assert (details["lastErrorCode"], details["lastErrorMessage"]) == ("TransientError", "no proof")
    assert details["routingSlip"]["deliveries"][0]["eventId"] == event_id
    await tell_all(alerts)
    assert len(hook.posted) == 1, "told once"


class Sent:
    """Stands where the relayer's own messages leave; keeps what it was asked to send."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, RouteRequest]] = []

    async def send(self, key: str, _source: int, request: RouteRequest, **_: object) -> None:
        self.requests.append((key, request))


def governed(tmp_path: Path, sent: Sent) -> RunningService:
    """What a relayer does about dead letters whose settings name governance on beta."""
    chain = cast(Chain, ParameterChain({}))
    alpha = {**deployed(ALPHA, "alpha"), "parameters": "0x" + "0b" * 20}
    network = Deployment.model_validate({"version": 1, "network": "test", "chains": [alpha, deployed(BETA, "beta")]})
    settings = Settings.load(
        relayer_key="0x" + "44" * 32,
        store=f"sqlite:///{tmp_path}/bridge.db",
        poll_interval=0.02,
        dlq={"governance": {"chain": "beta", "address": "0x" + "09" * 20}},
    )
    return RunningService(
        network,
        {ALPHA: chain, BETA: chain},
        memory_store(),
        settings,
        StillClock(),
        messages=cast(OwnMessages, sent),
        sealer=open_sealer(settings),
    )


async def test_governance_gets_a_vote_request_for_failed_executions(
    tmp_path: Path,
) -> None:
    sent = Sent()
    service = governed(tmp_path, sent)
    with closing(service.dead_letters):
        review = DeadLetterService(dead_letters=service.dead_letters)
        ids = {
            kind: await review.die(message(int(kind) + 1, kind=kind)) for kind in (Kind.PLAIN, Kind.GOVERNANCE_EXECUTE)
        }
        await tell_all(service.alerts)
        await tell_all(service.alerts)
    ((key, request),) = sent.requests
    assert key == f"governance/dlq/entered/{ids[Kind.GOVERNANCE_EXECUTE]}"
    assert (request.kind, request.destination) == (Kind.GOVERNANCE_PROPOSAL, BETA)
    about, _, event_id, why = decode(["bytes32", "bytes32", "string", "string"], request.data)
    assert (f"0x{about.hex()}/hyperlane/0", event_id) == (ids[Kind.GOVERNANCE_EXECUTE],) * 2
    assert "a new vote is needed" in why


async def test_governance_hears_by_message_of_a_changed_log(tmp_path: Path) -> None:
    sent = Sent()
    service = governed(tmp_path, sent)
    with closing(service.dead_letters) as log:
        log.append(entered("a"), KeySealer(STRANGER))
        await service.verify()
        (head,) = log.records()
    ((key, request),) = sent.requests
    assert key.startswith("governance/dlq-integrity/")
    assert (request.kind, request.destination) == (Kind.GOVERNANCE_PROPOSAL, BETA)
    about, record, event_id, what = decode(["bytes32", "bytes32", "string", "string"], request.data)
    assert (about, record, event_id) == (bytes(32), head.hash, "")
    assert "the log of dead letters was changed" in what


async def test_tampering_is_reported_until_every_channel_accepts_it(tmp_path: Path) -> None:
    told: list[Notice] = []

    class Flaky:
        name = "flaky"
        failures = 2

        async def tell(self, notice: Notice) -> None:
            self.failures -= 1
            if self.failures >= 0:
                raise TransientError("no answer")
            told.append(notice)

    service = governed(tmp_path, Sent())
    service.alerts.channels = [Flaky()]
    with closing(service.dead_letters) as log:
        log.append(entered("a"), KeySealer(STRANGER))
        for _ in range(4):
            await service.verify()
    assert len(told) == 1


async def test_slack_format_escapes_what_strangers_wrote(
    hook: WebhookServer,
) -> None:
    review = DeadLetterService()
    await review.die(error="<!channel> `rm` <http://evil|click>")
    await tell_all(Alerts(review.dead_letters, [Slack(hook.url, timeout=PATIENCE)], Fixed().thresholds, review.clock))
    (posted,) = hook.posted
    assert set(posted) == {"text", "blocks"}
    assert "<!channel>" not in str(posted)
    assert "<http" not in str(posted)
    assert posted["text"].startswith("WARNING: PLAIN message 0x")


async def test_pagerduty_event_has_one_key_per_incident(
    hook: WebhookServer,
) -> None:
    review = DeadLetterService()
    event_id = await review.die(error="x" * 5000)
    await tell_all(
        Alerts(
            review.dead_letters, [PagerDuty(hook.url, "routing", timeout=PATIENCE)], Fixed().thresholds, review.clock
        )
    )
    (posted,) = hook.posted
    assert (posted["routing_key"], posted["event_action"]) == ("routing", "trigger")
    assert posted["dedup_key"] == f"dlq/entered/{event_id}"
    assert posted["payload"]["severity"] == "warning"
    assert len(posted["payload"]["summary"]) <= 1024


async def test_mail_reaches_the_server_and_its_subject_stays_one_line() -> None:
    review = DeadLetterService()
    await review.die(error="first line\nBcc: everybody@example.org")
    with mail_server() as server:
        box = Mailbox.parse(f"smtp://127.0.0.1:{server.port}/?from=waybill@example.org&to=ops@example.org")
        await tell_all(Alerts(review.dead_letters, [Email(box, timeout=PATIENCE)], Fixed().thresholds, review.clock))
        (received,) = server.mails
    mail = email.message_from_string(received, policy=email.policy.default)
    assert (mail["From"], mail["To"], mail["Bcc"]) == ("waybill@example.org", "ops@example.org", None)
    assert mail["Subject"].startswith("[waybill warning] PLAIN message")
    assert "failureHistory" in mail.get_content()


async def test_everybody_is_told_what_was_decided_and_why(hook: WebhookServer) -> None:
    review = DeadLetterService()
    event_id = await review.die()
    decided = {"decisionType": "ABANDON", "decisionMaker": OPERATOR.address, "rationale": "the recipient is retired"}
    review.dead_letters.append(happened(event_id, RecordKind.DECIDED, 1, **decided), KeySealer(OPERATOR))
    with webhook_server() as other:
        both: list[Channel] = [Slack(hook.url, timeout=PATIENCE), Webhook(other.url, timeout=PATIENCE)]
        await tell_all(Alerts(review.dead_letters, both, Fixed().thresholds, review.clock))
        assert "ABANDON was decided by" in hook.posted[1]["text"]
        assert (other.posted[1]["severity"], other.posted[1]["details"]) == ("info", decided)


async def test_silent_channel_is_told_later_and_delays_no_other(hook: WebhookServer) -> None:
    review = DeadLetterService()
    for nonce in (1, 2):
        await review.die(message(nonce))
    with webhook_server() as other:
        hook.answers = [503]
        alerts = Alerts(
            review.dead_letters,
            [Slack(hook.url, timeout=PATIENCE), Webhook(other.url, timeout=PATIENCE)],
            Fixed().thresholds,
            review.clock,
        )
        with pytest.raises(TransientError, match="HTTP status 503"):
            await tell_all(alerts)
        assert (len(hook.posted), len(other.posted)) == (0, 2)
        await tell_all(alerts)
        assert (len(hook.posted), len(other.posted)) == (2, 2)
        await review.die(message(3))
        await tell_all(alerts)
        assert (len(hook.posted), len(other.posted)) == (3, 3)


async def test_alerts_escalate_at_governances_thresholds(hook: WebhookServer) -> None:
    review = DeadLetterService()
    alerts = Alerts(
        review.dead_letters, [Webhook(hook.url, timeout=PATIENCE)], Fixed(Thresholds(2, 3)).thresholds, review.clock
    )
    for nonce in (1, 2, 3):
        await review.die(message(nonce))
        review.clock.time += 1_700  # three are within an hour
        await tell_all(alerts)
    assert [one["severity"] for one in hook.posted] == ["warning", "error", "critical"]
    review.clock.time += 3601
    await review.die(message(4))
    await tell_all(alerts)
    assert hook.posted[-1]["severity"] == "warning", "the hour is over"


async def test_thresholds_are_cached_while_the_chain_is_down(
    hook: WebhookServer,
) -> None:
    review, governance = DeadLetterService(), Fixed(Thresholds(1, 100))
    alerts = Alerts(review.dead_letters, [Webhook(hook.url, timeout=PATIENCE)], governance.thresholds, review.clock)
    for nonce in (1, 2):
        await review.die(message(nonce))
        await tell_all(alerts)
    assert governance.asked == 1
    governance.is_away = True
    review.clock.time += 61
    await review.die(message(3))
    await tell_all(alerts)
    assert governance.asked == 2
    assert [one["severity"] for one in hook.posted] == ["error"] * 3


async def test_tampering_is_reported_on_every_channel(hook: WebhookServer) -> None:
    review = DeadLetterService()
    await review.die()

    class Away:
        name = "away"

        async def tell(self, notice: Notice) -> None:
            raise TransientError("no answer")

    both: list[Channel] = [Away(), Webhook(hook.url, timeout=PATIENCE)]
    alerts = Alerts(review.dead_letters, both, Fixed().thresholds, review.clock)
    await alerts.announce_tampering(verify(review.dead_letters, trusted=frozenset({STRANGER.address})))
    (posted,) = hook.posted
    assert posted["severity"] == "critical"
    assert "tampered" in posted["summary"]
    assert "not trusted" in posted["details"]["violations"][0]


class ParameterChain:
    """A chain with a Parameters contract and a router, as far as they are asked."""

    chain_id = 1

    def __init__(self, values: dict[bytes, int]) -> None:
        self.values = values

    async def call(self, call: Call, **_: object) -> bytes:
        if len(call.data) == 4:
            is_owner = call.data == function_signature_to_4byte_selector("owner()")
            return encode(["address"], [STRANGER.address if is_owner else SEALER.address])
        if call.data[4:] not in self.values:
            raise CallRevertedError(b"")
        return encode(["uint256"], [self.values[call.data[4:]]])


async def test_thresholds_and_operators_are_what_the_contract_says() -> None:
    chain = ParameterChain({ALERT_THRESHOLD: 5, operator_parameter(OPERATOR.address): 1, CRITICAL_THRESHOLD: 0})
    parameters = OnChainParameters(cast(Chain, chain), "0x" + "01" * 20, "0x" + "02" * 20)
    assert await parameters.thresholds() == Thresholds(5, 0)
    assert await parameters.is_operator(OPERATOR.address)
    assert not await parameters.is_operator(STRANGER.address)
    chain.values[operator_parameter(OPERATOR.address)] = 0
    assert not await parameters.is_operator(OPERATOR.address), "a role that was taken back is gone"


async def test_owner_and_guardian_decide_without_a_contract() -> None:
    parameters = OnChainParameters(cast(Chain, ParameterChain({})), "0x" + "01" * 20, None)
    assert await parameters.is_operator(STRANGER.address)
    assert await parameters.is_operator(SEALER.address)
    assert not await parameters.is_operator(OPERATOR.address)
    assert await parameters.thresholds() == Thresholds()


def test_a_mail_servers_url_names_all_that_is_needed() -> None:
    url = "smtp+starttls://ops%40example.org:p%40ss@mail.example:587/?from=waybill@example.org&to=a@b.c,d@e.f"
    assert Mailbox.parse(url) == Mailbox(
        host="mail.example",
        port=587,
        sender="waybill@example.org",
        recipients=("a@b.c", "d@e.f"),
        starttls=True,
        user="ops@example.org",
        password="p@ss",
    )
    for wrong in ("http://mail.example/?from=a@b&to=c@d", "smtp://mail.example/?from=a@b", "smtp://u:secret@/?to=c@d"):
        with pytest.raises(ValueError, match="mail server") as refused:
            Mailbox.parse(wrong)
        assert "secret" not in str(refused.value)


async def test_a_log_that_can_not_even_be_read_is_told_as_tampering(hook: WebhookServer, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/dlq.db"
    settings = Settings.load(relayer_key="0x" + "44" * 32)
    parameters = OnChainParameters(cast(Chain, ParameterChain({})), "0x" + "01" * 20, None)
    with closing(DeadLetterLog(url)) as log:
        log.append(entered("a"), KeySealer(SEALER))
        trusted = await trusted_accounts(log, parameters, settings)
        assert verify_letters(log, memory_store(), trusted).violations == ()
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("UPDATE dead_letter_log SET document = 'gone'"))
        engine.dispose()
        trusted = await trusted_accounts(log, parameters, settings)
        verified = verify_letters(log, memory_store(), trusted)
        await Alerts(log, [Webhook(hook.url, timeout=PATIENCE)], Fixed().thresholds, StillClock()).announce_tampering(
            verified
        )
    assert "not valid JSON" in hook.posted[0]["summary"]
