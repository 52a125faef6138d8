"""A message whose retries are spent ends DEAD and waits for a decision."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
import structlog

from bridge.dead_letters.decisions import Maker, decision_document, record_decision, signed
from bridge.dead_letters.signing import KeySealer
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.delivery_policy import DEFAULT_POLICIES
from bridge.protocol.gmps import Gmp
from bridge.protocol.lanes import Lane, LaneState
from bridge.protocol.message import Kind
from bridge.protocol.retry_requests import RetryRequest
from bridge.records.dead_letters import Decision, LetterStatus
from bridge.records.jobs import RetryJob, RetryState
from bridge.records.outbox import OutboxState
from bridge.records.retries import spent_id
from bridge.relayer.retries import RecoverySettings
from bridge.relayer.settings import RelaySettings
from bridge.store.dead_letters import DeadLetterLog
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.contracts import GMPS
from tests.support.simulation.world import Sent
from tests.support.stores import memory_dead_letters, memory_store
from tests.unit.dead_letters.world import OPERATOR, PLACE, FailingLog
from tests.virtual_time import in_virtual_time, running, until

pytestmark = pytest.mark.long

ALPHA, BETA = 31337, 31338
H, A, W = GMPS
DAY = 86_400
QUICK = {**DEFAULT_POLICIES, Kind.PLAIN: replace(DEFAULT_POLICIES[Kind.PLAIN], max_retries=1, cap=5)}
NOTHING = RecoverySettings(max_message_retries=0)


class Silent:
    """A world in which no GMP gives proofs, so that every delivery dies, and retries are asked for."""

    def __init__(self, dead_letters: DeadLetterLog | None = None) -> None:
        self.world, self.store = World(), memory_store()
        self.dead_letters = dead_letters or memory_dead_letters()
        self.world.down.update(GMPS)
        self.world.start()

    def bridge(
        self, recovering: RecoverySettings = NOTHING, *, ahead: float = 0, gmps: Collection[Gmp] = GMPS
    ) -> SimulatedRelayer:
        return SimulatedRelayer(
            self.world,
            self.store,
            dead_letters=self.dead_letters,
            policies=QUICK,
            recovering=recovering,
            relaying=RelaySettings(gmps=frozenset(gmps)),
            ahead=ahead,
        )

    async def request(self, attempt: int = 1, *, kind: Kind = Kind.PLAIN, sent: Sent | None = None) -> RetryRequest:
        sent = sent or self.world.send(ALPHA, BETA, gmps=(H,), kind=kind)
        await until(lambda: sent.created != [])
        return self.world.request_retry(sent.message, attempt)

    def job(self, request: RetryRequest) -> RetryJob | None:
        found = self.store.jobs.of_message(RetryJob, request.message_id)
        return next((one for one in found if one.request.sequence == request.sequence), None)

    def is_in(self, request: RetryRequest, state: RetryState) -> bool:
        job = self.job(request)
        return job is not None and job.state is state

    def status(self, request: RetryRequest) -> LetterStatus | None:
        letter = self.dead_letters.letter(spent_id(request.message_id, request.attempt))
        return letter.status if letter else None

    def decide(self, request: RetryRequest) -> None:
        """What `waybill dlq decide ID requeue` does."""
        now, event_id = self.world.clock.now(), spent_id(request.message_id, request.attempt)
        document = decision_document(
            self.dead_letters.history(event_id)[0],
            Decision.REQUEUE,
            place=PLACE,
            maker=Maker(OPERATOR.address, OPERATOR.address),
            rationale="worth another try",
            now=now,
        )
        record_decision(self.dead_letters, signed(document, OPERATOR), KeySealer(OPERATOR), now)
        self.store.jobs.reopen(request.message_id, request.attempt, "requeued", now)


@in_virtual_time
async def test_spent_budget_ends_dead_with_a_full_letter() -> None:
    case = Silent()
    async with running(case.bridge()):
        request = await case.request()
        await until(lambda: case.is_in(request, RetryState.DEAD))
    assert case.status(request) is LetterStatus.PENDING_REVIEW
    document = case.dead_letters.history(spent_id(request.message_id, 1))[0].document
    assert document is not None
    sent = case.world.sent[0].message
    assert document["originalMessage"] == f"0x{sent.encode().hex()}"
    assert (document["reason"], document["gmp"], document["attempt"]) == ("MAX_RETRIES_EXCEEDED", "retryRoute", 1)
    failures = document["failureHistory"]
    assert [one["attemptNumber"] for one in failures] == [1, 2, 3]
    assert [one["errorCode"] for one in failures] == ["NotAttestedError", "NotAttestedError", "RETRY_BUDGET_SPENT"]
    assert document["headers"] == {
        "waybill-error": "it was retried 0 times, and max_message_retries is 0",
        "waybill-error-type": "RETRY_BUDGET_SPENT",
        "waybill-reason": "MAX_RETRIES_EXCEEDED",
        "waybill-timestamp": failures[-1]["failedAt"],
        "waybill-source-topic": f"{ALPHA}/{from_bytes32(sent.source_router)}",
        "waybill-source-partition": f"{ALPHA}>{BETA}/retryRoute",
        "waybill-source-offset": f"{request.cause_block}@0x{request.cause_hash.hex()}",
        "waybill-pipeline": "request>plan>retry",
        "waybill-destination": str(BETA),
        "waybill-filter": "retry requests of the index",
        "waybill-transform": "retryRoute",
    }
    delivery = next(record.document for record in case.dead_letters.records() if "/hyperlane/" in record.event_id)
    assert delivery is not None
    assert document["headers"].keys() == delivery["headers"].keys()
    await case.world.stop()


@in_virtual_time
async def test_message_with_an_open_delivery_is_not_dead() -> None:
    case = Silent()
    async with running(SimulatedRelayer(case.world, case.store, dead_letters=case.dead_letters, recovering=NOTHING)):
        request = await case.request()
        await until(lambda: (job := case.job(request)) is not None and job.tries > 2)
        job = case.job(request)
        assert job is not None
        assert job.state is RetryState.OPEN
        assert "hyperlane still tries to deliver it" in (job.outcome or "")
        assert case.dead_letters.records() == []
        case.world.down.clear()
        await until(lambda: case.is_in(request, RetryState.NOT_NEEDED), seconds=2000)
    await case.world.stop()


@in_virtual_time
async def test_signed_decision_allows_one_retry() -> None:
    case = Silent()
    async with running(case.bridge()):
        request = await case.request()
        await until(lambda: case.is_in(request, RetryState.DEAD))
        case.decide(request)
        await until(lambda: case.is_in(request, RetryState.SENT))
        again = await case.request(2, sent=case.world.sent[0])
        await until(lambda: case.is_in(again, RetryState.DEAD))
    assert case.status(again) is LetterStatus.PENDING_REVIEW
    assert case.world.chains[ALPHA].state.sent[request.message_id][1] == 1
    await case.world.stop()


@in_virtual_time
async def test_letter_is_recovered_by_the_allowed_retry() -> None:
    case = Silent()
    async with running(case.bridge()):
        request = await case.request()
        await until(lambda: case.is_in(request, RetryState.DEAD))
        case.world.down.clear()
        case.decide(request)
        await until(lambda: case.status(request) is LetterStatus.RECOVERED)
    assert case.world.executions(case.world.sent[0].message) == 1
    await case.world.stop()


@in_virtual_time
async def test_a_kind_without_dead_letters_is_dead_without_one() -> None:
    case = Silent()
    async with running(case.bridge()):
        request = await case.request(kind=Kind.QUERY)
        await until(lambda: case.is_in(request, RetryState.DEAD))
    assert case.dead_letters.records() == []
    await case.world.stop()


@pytest.mark.parametrize("gmps", [GMPS, (A,)], ids=["delivers", "leaves its delivery to others"])
@in_virtual_time
async def test_critical_action_with_a_spent_budget_waits(gmps: Collection[Gmp]) -> None:
    case = Silent()
    async with running(case.bridge(gmps=gmps)):
        request = await case.request(kind=Kind.REGULATORY_ACTION_CRITICAL)
        await until(lambda: (job := case.job(request)) is not None and job.tries > 5)
        assert case.is_in(request, RetryState.OPEN)
    assert case.dead_letters.records() == []
    async with running(case.bridge(RecoverySettings())):  # the limit was raised
        await until(lambda: case.is_in(request, RetryState.SENT), seconds=700)
    await case.world.stop()


@in_virtual_time
async def test_lane_halts_without_the_messages_letter() -> None:
    dead_letters = FailingLog(10**6)
    case = Silent(dead_letters)
    query = {**QUICK, Kind.PLAIN: replace(QUICK[Kind.PLAIN], max_retries=0)}
    bridge = SimulatedRelayer(case.world, case.store, dead_letters=dead_letters, policies=query, recovering=NOTHING)
    async with running(bridge):
        dead_letters.failures = 0
        request = await case.request()
        await until(
            lambda: [one.state for one in case.store.outbox.entries(request.message_id)] == [OutboxState.DEAD],
            seconds=30,
        )
        dead_letters.failures = 10**6
        with structlog.testing.capture_logs() as logs:
            await until(lambda: case.store.lanes.state(Lane(ALPHA, BETA)) is LaneState.HALTED)
        critical = next(one for one in logs if one["log_level"] == "critical")
        assert critical["dead_letter_error"] == "read-only file system"
        assert "max_message_retries" in critical["delivery_error"], "the budget's refusal"
        assert critical["message"] == f"0x{request.message_id.hex()}"
        assert case.is_in(request, RetryState.OPEN)
        dead_letters.failures = 0
        await until(lambda: case.is_in(request, RetryState.DEAD), seconds=700)
    assert case.status(request) is LetterStatus.PENDING_REVIEW
    await case.world.stop()
