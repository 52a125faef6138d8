"""A decision is taken by an operator, with a reason, once, about the letter that it names; and nothing is decided by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bridge.dead_letters.analysis import Analysis, analyse
from bridge.dead_letters.decisions import GOVERNANCE, DecisionError, Maker, decision_document, record_decision, signed
from bridge.dead_letters.integrity import verify
from bridge.dead_letters.signing import KeySealer
from bridge.protocol.failures import FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from bridge.protocol.status import Status
from bridge.records.dead_letters import Decision, LetterStatus
from bridge.records.outbox import OutboxState
from bridge.store.dead_letters import DeadLetterLog
from tests.builders import message
from tests.unit.dead_letters.world import OPERATOR, PLACE, SEALER, STRANGER, DeadLetterService

SEAL = KeySealer(OPERATOR)


def decide(dead_letters: DeadLetterLog, event_id: str, decision: Decision, **changes: Any) -> dict[str, Any]:
    first = dead_letters.history(event_id)[0]
    document = decision_document(
        first,
        decision,
        place=PLACE,
        maker=Maker(OPERATOR.address, OPERATOR.address),
        rationale="the recipient is retired",
        now=1_700_000_000,
        **changes,
    )
    return signed(document, OPERATOR)


async def test_decision_keeps_its_fields_and_signature() -> None:
    review = DeadLetterService()
    event_id = await review.die()
    document = decide(review.dead_letters, event_id, Decision.RETRY, newMessageId="0x" + "cd" * 32)
    record = record_decision(review.dead_letters, document, SEAL, 1_700_000_000.0)
    assert record.document == {
        "chainId": PLACE[0],
        "verifyingContract": PLACE[1],
        "dlqEntryId": event_id,
        "letterHash": f"0x{review.dead_letters.history(event_id)[0].hash.hex()}",
        "decisionAt": "2023-11-14T22:13:20.000Z",
        "decisionMaker": OPERATOR.address,
        "decisionAccount": OPERATOR.address,
        "decisionType": "RETRY",
        "newMessageId": "0x" + "cd" * 32,
        "rationale": "the recipient is retired",
        "signature": document["signature"],
    }
    assert [one.status for one in review.dead_letters.dead_letters()] == [LetterStatus.RETRY_QUEUED]
    trusted = frozenset({SEALER.address, OPERATOR.address})
    assert verify(review.dead_letters, trusted=trusted).violations == ()


async def test_governance_decision_names_its_signer() -> None:
    review = DeadLetterService()
    first = review.dead_letters.history(await review.die())[0]
    maker = Maker(GOVERNANCE, OPERATOR.address)
    document = decision_document(first, Decision.ABANDON, place=PLACE, maker=maker, rationale="voted", now=0)
    for field, value in (("decisionMaker", OPERATOR.address), ("decisionAccount", STRANGER.address)):
        forged = signed(document, OPERATOR) | {field: value}
        with pytest.raises(DecisionError, match="its signer is"):
            record_decision(review.dead_letters, forged, SEAL, 0)
    record = record_decision(review.dead_letters, signed(document, OPERATOR), SEAL, 0)
    assert record.document is not None
    assert (record.document["decisionMaker"], record.document["decisionAccount"]) == (GOVERNANCE, OPERATOR.address)


@pytest.mark.parametrize("rationale", ["", "  \n"])
async def test_a_decision_without_a_reason_is_refused(rationale: str) -> None:
    review = DeadLetterService()
    first = review.dead_letters.history(await review.die())[0]
    with pytest.raises(DecisionError, match="needs a rationale"):
        decision_document(
            first,
            Decision.ABANDON,
            place=PLACE,
            maker=Maker(OPERATOR.address, OPERATOR.address),
            rationale=rationale,
            now=0,
        )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rationale", "another"),
        ("decisionType", "REQUEUE"),
        ("decisionMaker", STRANGER.address),
        ("decisionAccount", STRANGER.address),
        ("signature", "0x00"),
        ("chainId", 5),
    ],
)
async def test_a_decision_changed_after_its_signature_is_refused(field: str, value: object) -> None:
    review = DeadLetterService()
    document = decide(review.dead_letters, await review.die(), Decision.ABANDON) | {field: value}
    with pytest.raises(DecisionError, match="its signer is"):
        record_decision(review.dead_letters, document, SEAL, 0)
    assert len(review.dead_letters.records()) == 1


async def test_an_abandoned_letter_is_decided_for_good() -> None:
    review = DeadLetterService()
    event_id = await review.die()
    document = decide(review.dead_letters, event_id, Decision.ABANDON)
    record_decision(review.dead_letters, document, SEAL, 0)
    for again in (document, decide(review.dead_letters, event_id, Decision.REQUEUE)):
        with pytest.raises(DecisionError, match="ABANDONED"):
            record_decision(review.dead_letters, again, SEAL, 0)


async def test_waiting_letter_is_never_decided_by_itself() -> None:
    review = DeadLetterService()
    event_id = await review.die()
    for _ in range(40):
        review.clock.time += 86_400
        await review.dead_letter_queue.step()
    entry = review.store.outbox.entry(event_id)
    assert entry is not None
    assert entry.state is OutboxState.DEAD, "nor is it tried again"
    assert [one.status for one in review.dead_letters.dead_letters()] == [LetterStatus.PENDING_REVIEW]
    assert len(review.dead_letters.records()) == 1


async def analysis(
    review: DeadLetterService, event_id: str, sent: Message, status: Status | None = Status.ROUTED
) -> Analysis:
    letter = review.dead_letters.letter(event_id)
    assert letter is not None
    document = review.dead_letters.history(event_id)[0].document
    assert document is not None
    return analyse(
        letter,
        document,
        sent,
        others=review.dead_letters.dead_letters(limit=None),
        deliveries=review.store.outbox.entries(sent.id),
        status=status,
        now=review.clock.now(),
    )


async def test_one_transient_failure_is_isolated_and_worth_another_try() -> None:
    review, sent = DeadLetterService(), message()
    answers = await analysis(review, await review.die(sent), sent)
    assert answers.permanent.startswith("transient:")
    assert answers.systemic.startswith("isolated:")
    assert answers.would_succeed.startswith("yes, once the cause is gone")
    assert answers.governance.startswith("no:")
    assert answers.suggestion == "requeue"


@pytest.mark.parametrize(
    ("shared", "counted"),
    [
        ({"gmp": "axelar", "error_code": "Other"}, "3 on its lane, 0 over hyperlane, 0 with TransientError"),
        ({"source_chain": 1, "error_code": "Other"}, "0 on its lane, 3 over hyperlane, 0 with TransientError"),
        ({"source_chain": 1, "gmp": "axelar"}, "0 on its lane, 0 over hyperlane, 3 with TransientError"),
    ],
    ids=["lane", "GMP", "error"],
)
async def test_shared_lane_gmp_or_error_makes_a_failure_systemic(shared: dict[str, Any], counted: str) -> None:
    review, sent = DeadLetterService(), message()
    letter = review.dead_letters.letter(await review.die(sent))
    document = review.dead_letters.records()[0].document
    assert letter is not None
    assert document is not None
    others = [replace(letter, event_id=f"{number}", **shared) for number in range(3)]
    for near, verdict in ((others, "systemic"), (others[:2], "isolated")):
        found = analyse(letter, document, sent, others=near, deliveries=[], status=Status.ROUTED, now=0).systemic
        assert found.startswith(f"{verdict}: ")
    assert (
        counted in analyse(letter, document, sent, others=others, deliveries=[], status=Status.ROUTED, now=0).systemic
    )


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status.EXECUTED, "not needed"),
        (Status.EXPIRED, "no: the message has expired"),
        (Status.CANCELLED, "no: the message has expired"),
        (None, "not known"),
    ],
)
async def test_the_destinations_word_comes_first(status: Status | None, said: str) -> None:
    review, sent = DeadLetterService(), message()
    assert (await analysis(review, await review.die(sent), sent, status)).would_succeed.startswith(said)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Kind.GOVERNANCE_EXECUTE, "yes: a governance decision that can't be carried out needs a new vote"),
        (Kind.REGULATORY_ACTION, "yes, unless it is delivered soon: a regulatory action"),
        (Kind.STATE_SYNC, "no: "),
    ],
)
async def test_governance_is_asked_about_its_own_and_regulatory(kind: Kind, why: str) -> None:
    sent = message(kind=kind)
    answers = await failed_for_good(sent)
    assert answers.governance.startswith(why)
    assert answers.suggestion == (
        "abandon or escalate, or requeue after a fix" if kind is Kind.STATE_SYNC else "escalate"
    )


@pytest.mark.parametrize(
    ("texts", "permanent", "would_succeed"),
    [
        (("no", "no", "no"), "likely permanent: all 3 tries ended with the same refusal (no)", "only after"),
        (("no", "never", "no"), "not known: the tries ended in 2 different ways", "yes, once"),
    ],
)
async def test_one_refusal_at_each_try_is_likely_permanent(
    texts: tuple[str, ...], permanent: str, would_succeed: str
) -> None:
    answers = await failed_for_good(message(), *texts, kind=FailureKind.REFUSED)
    assert answers.permanent.startswith(permanent)
    assert answers.would_succeed.startswith(would_succeed)


async def failed_for_good(sent: Message, *texts: str, kind: FailureKind = FailureKind.TERMINAL) -> Analysis:
    """The analysis of a letter whose tries ended with those texts, or once with any."""
    review = DeadLetterService()
    event_id = await review.die(sent)
    letter, record = review.dead_letters.letter(event_id), review.dead_letters.history(event_id)[0]
    assert letter is not None
    assert record.document is not None
    failure = {**record.document["failureHistory"][0], "kind": kind.value}
    document = {**record.document, "failureHistory": [failure | {"errorMessage": text} for text in texts or ("never",)]}
    return analyse(letter, document, sent, others=[], deliveries=[], status=Status.ROUTED, now=0)


async def test_while_another_gmp_still_tries_nothing_is_suggested() -> None:
    review, sent = DeadLetterService(), message()
    review.observe(sent, gmps=(Gmp.HYPERLANE, Gmp.WORMHOLE))
    (entry,) = review.claim(gmps=frozenset({Gmp.HYPERLANE}))
    await review.mark_dead(entry)
    answers = await analysis(review, entry.event_id, sent)
    assert answers.would_succeed == "wait first: wormhole still tries to deliver it"
    assert answers.suggestion == "none yet: wait"


@pytest.mark.parametrize("error", ["GmpPaused(gmp=4, until=900)", "LanePaused(chain=7, until=900)"])
async def test_timed_pause_is_no_permanent_failure(error: str) -> None:
    paused = await failed_for_good(message(), error, error, kind=FailureKind.REFUSED)
    assert paused.permanent == f"transient: every pause expires ({error})"
    assert paused.suggestion == "requeue"
    forged = f'Error(message="{error}")'
    claimed = await failed_for_good(message(), forged, forged, kind=FailureKind.REFUSED)
    assert claimed.permanent.startswith("likely permanent: all 2 tries"), "a stranger's words are no pause"
