"""A decision is taken by an operator, with a reason, once, about the letter that it names; and nothing is decided by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data

from bridge.dlq.analysis import Analysis, Situation, analyse
from bridge.dlq.decisions import DecisionError, decision_document, record_decision, signed
from bridge.dlq.integrity import verify
from bridge.dlq.signing import KeySealer, decision_typed_data
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message
from bridge.records.dead_letters import DeadLetterLog, Decision, LetterStatus
from bridge.records.failures import FailureKind
from tests.builders import message
from tests.unit.dlq_world import OPERATOR, PLACE, SEALER, STRANGER, Undertaking

SEAL = KeySealer(OPERATOR)


def decide(letters: DeadLetterLog, event_id: str, decision: Decision, **changes: Any) -> dict[str, Any]:
    first = letters.history(event_id)[0]
    document = decision_document(
        first,
        decision,
        place=PLACE,
        maker=OPERATOR.address,
        rationale="the recipient is retired",
        now=1_700_000_000,
        **changes,
    )
    return signed(document, OPERATOR)


@pytest.mark.requirement(
    "OIP-107", "OIP-118", "OIP-119", "OIP-120", "OIP-121", "OIP-122", "OIP-123", "OIP-124", "OIP-125", "OIP-162"
)
async def test_a_decision_is_kept_with_all_its_fields_and_its_makers_signature() -> None:
    desk = Undertaking()
    event_id = await desk.die()
    document = decide(desk.letters, event_id, Decision.RETRY, newMessageId="0x" + "cd" * 32)
    record = record_decision(desk.letters, document, SEAL, 1_700_000_000)
    assert record.document == {
        "chainId": PLACE[0],
        "verifyingContract": PLACE[1],
        "dlqEntryId": event_id,
        "letterHash": f"0x{desk.letters.history(event_id)[0].hash.hex()}",
        "decisionAt": "2023-11-14T22:13:20.000Z",
        "decisionMaker": OPERATOR.address,
        "decisionType": "RETRY",
        "newMessageId": "0x" + "cd" * 32,
        "rationale": "the recipient is retired",
        "signature": document["signature"],
    }
    assert [one.status for one in desk.letters.letters()] == [LetterStatus.RETRY_QUEUED]
    trusted = frozenset({SEALER.address, OPERATOR.address})
    assert verify(desk.letters, trusted=trusted).violations == ()


@pytest.mark.finding("E12")
async def test_what_is_signed_is_typed_data_that_a_wallet_shows() -> None:
    desk = Undertaking()
    document = decide(desk.letters, await desk.die(), Decision.ABANDON)
    typed = decision_typed_data(document)
    assert typed["primaryType"] == "DeadLetterDecision"
    assert (typed["domain"]["chainId"], typed["domain"]["verifyingContract"]) == PLACE
    assert typed["message"]["rationale"] == "the recipient is retired"
    by_wallet = Account.sign_message(encode_typed_data(full_message=typed), OPERATOR.key).signature
    assert f"0x{by_wallet.hex().removeprefix('0x')}" == document["signature"]


@pytest.mark.requirement("OIP-108", "OIP-124")
@pytest.mark.parametrize("rationale", ["", "  \n"])
async def test_a_decision_without_a_reason_is_refused(rationale: str) -> None:
    desk = Undertaking()
    first = desk.letters.history(await desk.die())[0]
    with pytest.raises(DecisionError, match="needs a rationale"):
        decision_document(first, Decision.ABANDON, place=PLACE, maker=OPERATOR.address, rationale=rationale, now=0)


@pytest.mark.requirement("OIP-118", "OIP-125", "OIP-127")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rationale", "another"),
        ("decisionType", "REQUEUE"),
        ("decisionMaker", STRANGER.address),
        ("signature", "0x00"),
        ("chainId", 5),
    ],
)
async def test_a_decision_changed_after_its_signature_is_refused(field: str, value: object) -> None:
    desk = Undertaking()
    document = decide(desk.letters, await desk.die(), Decision.ABANDON) | {field: value}
    with pytest.raises(DecisionError, match="signed by"):
        record_decision(desk.letters, document, SEAL, 0)
    assert len(desk.letters.records()) == 1


@pytest.mark.requirement("OIP-125")
async def test_a_decision_about_one_letter_decides_no_other() -> None:
    desk = Undertaking()
    first, second = await desk.die(message(1)), await desk.die(message(2))
    document = decide(desk.letters, first, Decision.ABANDON) | {"dlqEntryId": second}
    with pytest.raises(DecisionError, match="another letter"):
        record_decision(desk.letters, document, SEAL, 0)


@pytest.mark.requirement("OIP-116")
async def test_an_abandoned_letter_is_decided_for_good() -> None:
    desk = Undertaking()
    event_id = await desk.die()
    document = decide(desk.letters, event_id, Decision.ABANDON)
    record_decision(desk.letters, document, SEAL, 0)
    for again in (document, decide(desk.letters, event_id, Decision.REQUEUE)):
        with pytest.raises(DecisionError, match="ABANDONED"):
            record_decision(desk.letters, again, SEAL, 0)


@pytest.mark.requirement("OIP-117")
async def test_an_escalated_letter_stays_under_review() -> None:
    desk = Undertaking()
    event_id = await desk.die()
    record_decision(desk.letters, decide(desk.letters, event_id, Decision.GOVERNANCE_ESCALATION), SEAL, 0)
    assert [one.status for one in desk.letters.letters()] == [LetterStatus.PENDING_REVIEW]


@pytest.mark.requirement("OIP-108")
async def test_nothing_is_decided_by_itself_however_long_a_letter_waits() -> None:
    desk = Undertaking()
    await desk.die()
    for _ in range(40):
        desk.clock.time += 86_400
        await desk.office.step()
    assert [one.status for one in desk.letters.letters()] == [LetterStatus.PENDING_REVIEW]
    assert len(desk.letters.records()) == 1


async def analysis(desk: Undertaking, event_id: str, sent: Message, **situation: bool) -> Analysis:
    letter = desk.letters.letter(event_id)
    assert letter is not None
    document = desk.letters.history(event_id)[0].document
    assert document is not None
    return analyse(
        letter,
        document,
        sent,
        others=desk.letters.letters(limit=None),
        deliveries=desk.store.outbox.entries(sent.id),
        situation=Situation(**situation),
        now=desk.clock.now(),
    )


@pytest.mark.requirement("OIP-111", "OIP-112", "OIP-113", "OIP-114")
async def test_one_transient_failure_is_isolated_and_worth_another_try() -> None:
    desk, sent = Undertaking(), message()
    answers = await analysis(desk, await desk.die(sent), sent)
    assert answers.permanent.startswith("transient:")
    assert answers.systemic.startswith("isolated:")
    assert answers.would_succeed.startswith("yes, once the cause is gone")
    assert answers.governance.startswith("no:")
    assert answers.suggestion == "requeue"


@pytest.mark.requirement("OIP-112", "OIP-114", "OIP-77")
async def test_many_letters_of_one_lane_are_systemic_and_concern_governance() -> None:
    desk = Undertaking()
    many = [message(nonce) for nonce in range(1, 5)]
    ids = [await desk.die(one) for one in many]
    answers = await analysis(desk, ids[0], many[0])
    assert answers.systemic.startswith("systemic: other dead letters within an hour of this one: 3 on its lane")
    assert answers.governance.startswith("yes: more than one")
    desk.clock.time += 7200
    later = message(9)
    assert (await analysis(desk, await desk.die(later), later)).systemic.startswith("isolated")


@pytest.mark.requirement("OIP-113")
@pytest.mark.parametrize(
    ("situation", "said"),
    [
        ({"executed": True}, "not needed"),
        ({"ended": True}, "no: the message has expired"),
        ({"known": False}, "not known"),
    ],
)
async def test_the_destinations_word_comes_first(situation: dict[str, bool], said: str) -> None:
    desk, sent = Undertaking(), message()
    assert (await analysis(desk, await desk.die(sent), sent, **situation)).would_succeed.startswith(said)


@pytest.mark.requirement("OIP-81", "OIP-114")
async def test_a_governance_decision_that_cannot_be_carried_out_needs_a_new_vote() -> None:
    desk, sent = Undertaking(), message(kind=Kind.GOVERNANCE_EXECUTE)
    assert "new vote" in (await analysis(desk, await desk.die(sent), sent)).governance


@pytest.mark.requirement("OIP-111")
async def test_an_error_that_says_never_is_permanent() -> None:
    desk, sent = Undertaking(), message()
    event_id = await desk.die(sent)
    letter, record = desk.letters.letter(event_id), desk.letters.history(event_id)[0]
    assert letter is not None
    assert record.document is not None
    failure = {**record.document["failureHistory"][0], "kind": FailureKind.TERMINAL.value}
    document = {**record.document, "failureHistory": [failure]}
    answers = analyse(letter, document, sent, others=[], deliveries=[], situation=Situation(), now=0)
    assert answers.permanent.startswith("permanent")
    assert answers.would_succeed.startswith("only after the cause is put right")


async def test_while_another_gmp_still_tries_nothing_is_suggested() -> None:
    desk, sent = Undertaking(), message()
    desk.observe(sent, gmps=(Gmp.HYPERLANE, Gmp.WORMHOLE))
    (entry,) = desk.claim(gmps=frozenset({Gmp.HYPERLANE}))
    await desk.bury(entry)
    answers = await analysis(desk, entry.event_id, sent)
    assert answers.would_succeed == "wait first: wormhole still tries to deliver it"
    assert answers.suggestion == "none yet: wait"


@pytest.mark.finding("E5")
@pytest.mark.parametrize(
    ("error", "thing"),
    [("GmpPaused(gmp=4, until={until})", "layerzero"), ("LanePaused(chain=7, until={until})", "the lane from chain 7")],
)
async def test_a_timed_pause_is_no_permanent_failure_and_says_until_when_to_wait(error: str, thing: str) -> None:
    desk, sent = Undertaking(), message()
    event_id = await desk.die(sent)
    until = int(desk.clock.now()) + 600

    def judged(text: str, now: float, paused_until: int | None = None) -> Analysis:
        letter, record = desk.letters.letter(event_id), desk.letters.history(event_id)[0]
        assert letter is not None
        assert record.document is not None
        failure = {**record.document["failureHistory"][0], "kind": FailureKind.UNKNOWN.value, "errorMessage": text}
        document = {**record.document, "failureHistory": [failure] * 10}
        situation = Situation(paused_until=paused_until)
        return analyse(letter, document, sent, others=[], deliveries=[], situation=situation, now=now)

    end = f"{datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M:%S} UTC"
    during, after = (judged(error.format(until=until), now) for now in (until - 1, until))
    assert during.permanent == f"transient: {thing} is paused until {end}, and takes deliveries again then"
    assert during.suggestion == f"none yet: wait until {end}, when the pause ends, then requeue"
    assert during.not_before == until
    assert after.permanent == f"transient: {thing} was paused until {end}, which is over"
    assert (after.suggestion, after.can_requeue, after.not_before) == ("requeue", True, None)
    ended_early = judged(error.format(until=until), until - 100, paused_until=until - 200)
    assert (ended_early.suggestion, ended_early.not_before) == ("requeue", None)
    forged = judged(f'Error(message="{error.format(until=until)}")', until - 1)
    assert forged.permanent.startswith("likely permanent: all 10 tries"), "a stranger's words are no pause"
