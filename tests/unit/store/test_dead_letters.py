"""The log of dead letters on every store: appended to once per happening, and any change to it is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from sqlalchemy import create_engine, text

from bridge.dead_letters.integrity import verify
from bridge.dead_letters.signing import KeySealer, sign_decision
from bridge.records.dead_letters import OPEN, Decision, Draft, ForbiddenDecisionError, LetterStatus, RecordKind
from bridge.store import open_dead_letters
from bridge.store.dead_letters import DeadLetterLog
from bridge.store.sql_store import Store
from tests.support.stores import memory_dead_letters
from tests.unit.dead_letters.world import OPERATOR, SEALER, STRANGER, entered, happened
from tests.unit.store.conftest import POSTGRESQL, SQLITE, url_of

SEAL = KeySealer(SEALER)
TRUSTED = frozenset({SEALER.address})


@pytest.fixture(params=[SQLITE, POSTGRESQL])
def dead_letters(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DeadLetterLog]:
    with closing(open_dead_letters(url_of(request.param, request, tmp_path))) as log:
        yield log


def decided(event_id: str, decision: Decision, number: int = 1) -> dict[str, Any]:
    document = {
        "chainId": 1,
        "verifyingContract": "0x" + "01" * 20,
        "dlqEntryId": event_id,
        "letterHash": "0x" + "00" * 32,
        "decisionAt": f"2026-01-01T00:00:0{number % 10}Z",
        "decisionMaker": OPERATOR.address,
        "decisionAccount": OPERATOR.address,
        "decisionType": decision.value,
        "rationale": "because",
    }
    return document | {"signature": f"0x{sign_decision(OPERATOR, document).hex()}"}


def test_the_same_happening_is_kept_once(dead_letters: DeadLetterLog) -> None:
    first = dead_letters.append(entered("a"), SEAL)
    assert first is not None
    assert dead_letters.append(entered("a", at=999), SEAL) is None
    assert dead_letters.records() == dead_letters.history("a") == [first]
    letter = dead_letters.letter("a")
    assert letter is not None
    assert (letter.status, letter.entered_at) == (LetterStatus.PENDING_REVIEW, 100)
    assert dead_letters.counts() == {LetterStatus.PENDING_REVIEW: 1}


def test_an_abandoned_letter_takes_no_further_decision(dead_letters: DeadLetterLog) -> None:
    dead_letters.append(entered("a"), SEAL)
    dead_letters.append(happened("a", RecordKind.DECIDED, 1, **decided("a", Decision.ABANDON)), SEAL)
    with pytest.raises(ForbiddenDecisionError, match="ABANDONED"):
        dead_letters.append(happened("a", RecordKind.DECIDED, 2, **decided("a", Decision.REQUEUE)), SEAL)
    assert len(dead_letters.records()) == 2
    assert [one.status for one in dead_letters.dead_letters()] == [LetterStatus.ABANDONED]


@pytest.mark.parametrize(
    ("decision", "status"),
    [
        ("RETRY", "RETRY_QUEUED"),
        ("REQUEUE", "RETRY_QUEUED"),
        ("ABANDON", "ABANDONED"),
        ("GOVERNANCE_ESCALATION", "PENDING_REVIEW"),
    ],
)
def test_each_decision_leads_to_its_state(dead_letters: DeadLetterLog, decision: str, status: str) -> None:
    dead_letters.append(entered("a"), SEAL)
    assert [one.status.value for one in dead_letters.dead_letters()] == ["PENDING_REVIEW"]
    dead_letters.append(happened("a", RecordKind.DECIDED, 1, **decided("a", Decision(decision))), SEAL)
    assert [one.status.value for one in dead_letters.dead_letters()] == [status]
    dead_letters.append(happened("a", RecordKind.RECOVERED, 1), SEAL)
    assert [one.status.value for one in dead_letters.dead_letters()] == ["RECOVERED"], "it arrived after all"


def test_nothing_can_happen_to_a_letter_that_never_entered(dead_letters: DeadLetterLog) -> None:
    with pytest.raises(ForbiddenDecisionError):
        dead_letters.append(happened("a", RecordKind.RECOVERED, 1), SEAL)
    assert dead_letters.records() == []


def test_each_reader_is_told_from_where_it_stopped(dead_letters: DeadLetterLog) -> None:
    dead_letters.move_cursor("slack", 3)
    dead_letters.move_cursor("slack", 5)
    assert (dead_letters.cursor("slack"), dead_letters.cursor("email")) == (5, 0)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            "UPDATE dead_letter_log SET document = replace(document, 'no proof', 'all fine') WHERE sequence = 2",
            "not the one",
        ),
        ("UPDATE dead_letter_log SET document = 'gone' WHERE sequence = 2", "not valid JSON"),
        ("UPDATE dead_letter_log SET at = at + 1 WHERE sequence = 3", "signature is not that"),
        ("UPDATE dead_letter_log SET event_id = 'b' WHERE sequence = 1", "signature is not that"),
        ("UPDATE dead_letter_log SET key = 'entered/d' WHERE sequence = 1", "signature is not that"),
        ("UPDATE dead_letter_log SET kind = 'RETURNED' WHERE sequence = 2", "signature is not that"),
        (
            "UPDATE dead_letter_log SET document_hash = randomblob(32), document = NULL WHERE sequence = 2",
            "not valid JSON",
        ),
        ("DELETE FROM dead_letter_log WHERE sequence = 2", "is missing"),
        ("DELETE FROM dead_letter_log WHERE sequence = 4", "no record has the hash"),
        ("UPDATE dead_letters SET status = 'ABANDONED' WHERE event_id = 'a'", "the log says PENDING_REVIEW"),
        ("DELETE FROM dead_letters WHERE event_id = 'b'", "list of letters is missing"),
        ("UPDATE dead_letter_log SET document = replace(document, 'because', 'lol') WHERE sequence = 4", "not the one"),
    ],
)
def test_any_change_behind_our_back_is_found_and_named(tmp_path: Path, change: str, found: str) -> None:
    url = f"sqlite:///{tmp_path}/dlq.db"
    with closing(DeadLetterLog(url)) as log:
        for name in ("a", "b", "c"):
            log.append(entered(name), SEAL)
        last = log.append(happened("c", RecordKind.DECIDED, 1, **decided("c", Decision.ABANDON)), SEAL)
        assert last is not None
        clean = verify(log, trusted=TRUSTED, heads=[last.hash])
        assert (clean.violations, clean.records, clean.head) == ((), 4, last.hash)
    engine = create_engine(url)
    with engine.begin() as connection:
        assert connection.execute(text(change)).rowcount == 1
    engine.dispose()
    with closing(DeadLetterLog(url)) as log:
        problems = [str(one) for one in verify(log, trusted=TRUSTED, heads=[last.hash]).violations]
        assert any(found in problem for problem in problems), problems


def test_a_record_that_was_sealed_for_another_log_is_found(tmp_path: Path) -> None:
    for folder, error in (("ours", "no proof"), ("theirs", "all fine")):
        with closing(DeadLetterLog(f"sqlite:///{tmp_path}/{folder}.db")) as log:
            for name in ("a", "b", "c"):
                failures = [{"errorCode": "TransientError", "errorMessage": error}]
                log.append(entered(name, failureHistory=failures), SEAL)
    engine = create_engine(f"sqlite:///{tmp_path}/ours.db")
    with engine.connect() as connection:
        connection.execute(text(f"ATTACH '{tmp_path}/theirs.db' AS theirs"))
        connection.execute(text("DELETE FROM dead_letter_log WHERE sequence = 2"))
        moved = "INSERT INTO dead_letter_log SELECT * FROM theirs.dead_letter_log WHERE sequence = 2"
        assert connection.execute(text(moved)).rowcount == 1
        connection.commit()
    engine.dispose()
    with closing(DeadLetterLog(f"sqlite:///{tmp_path}/ours.db")) as log:
        violations = verify(log, trusted=TRUSTED).violations
    assert [one.sequence for one in violations] == [2, 3]
    assert {one.problem for one in violations} == {"does not follow the record before it: one of the two was changed"}


def test_rewritten_log_is_found_by_its_seals(dead_letters: DeadLetterLog) -> None:
    dead_letters.append(entered("a"), KeySealer(STRANGER))
    (violation,) = verify(dead_letters, trusted=TRUSTED).violations
    assert f"signed by {STRANGER.address}, who is not trusted" in str(violation)


def test_a_decision_that_its_maker_did_not_sign_is_found(dead_letters: DeadLetterLog) -> None:
    dead_letters.append(entered("a"), SEAL)
    forged = decided("a", Decision.ABANDON) | {"decisionAccount": STRANGER.address}
    dead_letters.append(happened("a", RecordKind.DECIDED, 1, **forged), SEAL)
    (violation,) = verify(dead_letters, trusted=TRUSTED).violations
    assert f"not signed by {STRANGER.address}" in str(violation)


def test_a_dead_delivery_without_a_letter_is_found(dead_letters: DeadLetterLog) -> None:
    dead_letters.append(entered("a"), SEAL)
    (violation,) = verify(dead_letters, trusted=TRUSTED, marked_dead=["a", "b"]).violations
    assert "b is dead and has no letter" in str(violation)


def test_dead_letters_may_share_the_stores_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bridge.db"
    with closing(Store(url)) as store, closing(DeadLetterLog(url)) as log:
        log.append(entered("a"), SEAL)
        assert store.outbox.counts() == []
        assert len(log.dead_letters()) == 1


def test_writers_at_the_same_time_make_one_chain(url: str) -> None:
    def write(worker: int) -> None:
        with closing(DeadLetterLog(url)) as log:
            for number in range(10):
                log.append(entered(f"{worker}/{number}"), SEAL)

    with closing(open_dead_letters(url)) as log:
        log.records()  # makes the tables
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    with closing(DeadLetterLog(url)) as log:
        verified = verify(log, trusted=TRUSTED)
    assert (verified.records, verified.violations) == (30, ())


NAMES = st.sampled_from(["a", "b", "c"])


class LetterMachine(RuleBasedStateMachine):
    """Any sequence of events: states follow the rules, no record is lost, and the chain always verifies."""

    def __init__(self) -> None:
        super().__init__()
        self.log = memory_dead_letters()
        self.number = 0
        self.heads: list[bytes] = []
        self.statuses: dict[str, LetterStatus] = {}

    @rule(name=NAMES)
    def enter(self, name: str) -> None:
        self.append(entered(name, at=float(self.number)))

    @rule(name=NAMES, decision=st.sampled_from(list(Decision)))
    def decide(self, name: str, decision: Decision) -> None:
        self.number += 1
        self.append(happened(name, RecordKind.DECIDED, self.number, **decided(name, decision, self.number)))

    @rule(name=NAMES, kind=st.sampled_from([RecordKind.RETURNED, RecordKind.RECOVERED]))
    def happen(self, name: str, kind: RecordKind) -> None:
        self.number += 1
        self.append(happened(name, kind, self.number, words="…"))

    def append(self, draft: Draft) -> None:
        before = self.statuses.get(draft.event_id)
        allowed = OPEN | {LetterStatus.ABANDONED} if draft.kind is RecordKind.RECOVERED else OPEN
        is_entry = draft.kind is RecordKind.ENTERED
        try:
            record = self.log.append(draft, SEAL)
        except ForbiddenDecisionError:
            assert before not in allowed
            return
        assert record is not None if not is_entry else (record is None) == (before is not None)
        if record is None:
            return
        assert is_entry or before in allowed
        self.heads.append(record.hash)
        letter = self.log.letter(draft.event_id)
        assert letter is not None
        self.statuses[draft.event_id] = letter.status

    @invariant()
    def the_log_is_whole_and_its_letters_have_one_status(self) -> None:
        assert [record.hash for record in self.log.records()] == self.heads
        assert verify(self.log, trusted=TRUSTED).violations == ()
        assert {letter.event_id: letter.status for letter in self.log.dead_letters()} == self.statuses
        assert self.log.counts() == Counter(self.statuses.values())
        pending = Counter(self.statuses.values())[LetterStatus.PENDING_REVIEW]
        assert sum(lane.count for lane in self.log.waiting()) == pending


class TestLetters(LetterMachine.TestCase):  # type: ignore[misc,valid-type]  # made by hypothesis at run time
    settings = settings(max_examples=10, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck))
