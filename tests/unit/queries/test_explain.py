"""What people are told about a message agrees with the router, and names the GMP that is to blame."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bridge.dead_letters.signing import KeySealer
from bridge.protocol.contracts import INBOX
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import ChainRecord, MessageRecord
from bridge.protocol.lanes import Lane, LaneChange, LaneState
from bridge.protocol.message import Kind, Message
from bridge.protocol.ports import Block, Dispatch
from bridge.protocol.status import Status
from bridge.queries.advice import Circumstances, Standing, next_action
from bridge.queries.explain import Explanation, Stage, Stored, explain, explain_stored, read_stored
from bridge.queries.index_lag import IndexLag
from bridge.queries.messages import explanation_value
from bridge.records.dead_letters import Decision, RecordKind
from bridge.records.finality_records import FOLLOWED
from bridge.records.jobs import ExecutionJob, ExecutionState, SyncJob, SyncState
from bridge.records.outbox import STUCK_AFTER, Dead, OutboxEntry, OutboxState, TryAgain
from bridge.store.dead_letters import DeadLetterLog
from tests.builders import BETA, message, message_record, observed_range, word
from tests.cases import for_each_case
from tests.support.stores import memory_store
from tests.unit.dead_letters.world import SEALER, entered, happened

NOW = 1_000.0
MESSAGE = Message(
    source_chain=1,
    source_router=bytes(31) + b"\x01",
    sender=bytes(31) + b"\x02",
    nonce=1,
    destination_chain=2,
    destination_router=bytes(31) + b"\x03",
    recipient=bytes(31) + b"\x04",
    gas_limit=200_000,
    sent_at=900,
    ttl=0,
    kind=Kind.PLAIN,
    quorum=2,
    replaces=bytes(32),
    payload=b"hello",
)


def entry(gmp: Gmp) -> OutboxEntry:
    dispatch = Dispatch(
        gmp=gmp,
        message_id=MESSAGE.id,
        source_chain=1,
        destination_chain=2,
        envelope=MESSAGE.encode(),
        transport_id="7",
        block_number=5,
        block_hash=bytes(32),
        transaction_hash=bytes(32),
        log_index=0,
    )
    return OutboxEntry.new(dispatch, 0, Kind.PLAIN, NOW)


def claimed_by_a_worker(one: OutboxEntry) -> OutboxEntry:
    return replace(
        one,
        state=OutboxState.CLAIMED,
        fence=one.fence + 1,
        claimed_at=NOW,
        claimed_by="worker",
        lease_until=NOW + 30,
    )


def failing(gmp: Gmp, error: str, *, until: float) -> OutboxEntry:
    claimed = claimed_by_a_worker(entry(gmp))
    failure = Failure(at=NOW, kind=FailureKind.TRANSIENT, code="Timeout", message=error)
    return claimed.after(TryAgain(claimed.current_claim, failure, until))


def explained(
    *entries: OutboxEntry,
    receipts: frozenset[Gmp] = frozenset(),
    executed: bool = False,
    index: MessageRecord | None = None,
    circumstances: Circumstances | None = None,
) -> Explanation:
    return explain(
        MESSAGE,
        Stored(record=index, entries=entries),
        receipts=receipts,
        executed=executed,
        circumstances=circumstances or Circumstances(),
        now=NOW,
    )


def seen_by_index(status: Status, *, failure_reason: bytes = b"") -> MessageRecord:
    dispatched = frozenset({Gmp.HYPERLANE, Gmp.AXELAR})
    return message_record(MESSAGE, status, dispatched=dispatched, failure_reason=failure_reason)


def test_failing_gmp_is_explained_with_error_and_next_try() -> None:
    found = explained(failing(Gmp.AXELAR, "gateway is down", until=NOW + 12), receipts=frozenset({Gmp.HYPERLANE}))
    assert found.status is Status.RECEIVED
    assert found.reason == ("1 of 2 GMPs have delivered; Axelar failed once (gateway is down), next try in 12 s")
    assert [(item.gmp, item.stage) for item in found.gmps] == [
        (Gmp.HYPERLANE, Stage.RECEIVED),
        (Gmp.AXELAR, Stage.FAILING),
    ]
    (again,) = explained(replace(failing(Gmp.AXELAR, "gateway is down", until=NOW), failed_tries=2)).gmps
    assert (again.failed_tries, again.last_error) == (2, "gateway is down")


def test_unseen_dispatch_is_told_from_a_pending_one() -> None:
    found = explained(entry(Gmp.HYPERLANE), index=seen_by_index(Status.ROUTED))
    assert "Hyperlane accepted it and did not deliver it yet" in found.reason
    assert "Axelar accepted it, and no relayer has seen that" in found.reason


def test_message_with_too_few_gmps_needs_another() -> None:
    """With a floor of 2 and a quorum of 1, no waiting helps."""

    def said(*gmps: Gmp, retriable: bool = True, usable: frozenset[Gmp] = frozenset(Gmp)) -> Explanation:
        return explain(
            replace(MESSAGE, quorum=1),
            Stored(entries=[entry(gmp) for gmp in gmps]),
            receipts=frozenset({gmps[0]}),
            executed=False,
            needed=2,
            circumstances=Circumstances(retriable=retriable),
            usable=usable,
            now=NOW,
        )

    found, name = said(Gmp.HYPERLANE), f"0x{replace(MESSAGE, quorum=1).id.hex()}"
    assert found.reason == "1 of 2 GMPs have delivered; too few GMPs carry it: it needs 1 more"
    assert found.next_action == (
        "retry it over another GMP, since too few carry it, as its sender, or the retrier its sender appointed:"
        f" `waybill message retry {name} --gmps axelar`"
    )
    assert next(found.command(offer) for offer in found.offers) == f"waybill message retry {name} --gmps axelar"
    enough = said(Gmp.HYPERLANE, Gmp.AXELAR)
    assert "too few" not in enough.reason
    assert enough.next_action.startswith("wait: more GMPs must deliver")
    assert said(Gmp.HYPERLANE, retriable=False).next_action.startswith("no more GMPs can carry it: it can't be retried")
    assert "require fewer GMPs" in said(Gmp.HYPERLANE, usable=frozenset({Gmp.HYPERLANE})).next_action


def test_excluded_gmp_is_explained() -> None:
    found = explain(
        MESSAGE,
        Stored(entries=[entry(Gmp.HYPERLANE), entry(Gmp.AXELAR)]),
        receipts=frozenset(),
        executed=False,
        left_out=frozenset({Gmp.AXELAR}),
        now=NOW,
    )
    assert "Hyperlane accepted it and did not deliver it yet" in found.reason
    assert "Axelar accepted it, and the relayer's settings leave its delivery to others (`gmps`" in found.reason


def test_the_router_overrules_an_index_that_is_behind() -> None:
    found = explained(
        receipts=frozenset({Gmp.HYPERLANE, Gmp.AXELAR}), executed=True, index=seen_by_index(Status.STALLED)
    )
    assert found.status is Status.EXECUTED


def test_a_refusal_of_the_recipient_is_decoded() -> None:
    refusal = next(data for data in INBOX._errors if INBOX._errors[data][0] == "Closed")
    found = explained(
        receipts=frozenset({Gmp.HYPERLANE, Gmp.AXELAR}),
        index=seen_by_index(Status.EXECUTION_FAILED, failure_reason=refusal),
    )
    assert found.status is Status.EXECUTION_FAILED
    assert found.reason.endswith("the recipient refused it: Closed()")
    assert f"waybill message execute 0x{MESSAGE.id.hex()}" in found.next_action


def test_reached_quorum_ends_a_stall() -> None:
    stalled = seen_by_index(Status.STALLED)
    assert explained(receipts=frozenset({Gmp.HYPERLANE}), index=stalled).status is Status.STALLED
    enough = frozenset({Gmp.HYPERLANE, Gmp.AXELAR})
    assert explained(receipts=enough, index=stalled).status is Status.RECEIVED
    assert explained(receipts=enough, index=stalled).next_action.startswith("execute it, its quorum is reached: ")


def test_message_is_unfunded_until_a_gmp_delivers() -> None:
    def stated(receipts: frozenset[Gmp] = frozenset(), index: MessageRecord | None = None) -> Explanation:
        return explain(MESSAGE, Stored(record=index), receipts=receipts, executed=False, unfunded=True, now=NOW)

    assert (stated().status, stated().reason) == (
        Status.UNFUNDED,
        "it was created without its fee, and it is not funded yet",
    )
    assert stated().next_action.endswith(f"`waybill message fund 0x{MESSAGE.id.hex()}`")
    assert stated(frozenset({Gmp.AXELAR})).status is Status.RECEIVED
    assert stated(index=seen_by_index(Status.CANCELLED)).status is Status.CANCELLED


@for_each_case("status", list(Status))
def test_every_status_has_a_next_action(status: Status) -> None:
    for retriable in (True, False, None):
        for has_quorum in (True, False):
            circumstances = Circumstances(retriable=retriable)
            standing = Standing(status=status, kind=Kind.PLAIN, has_quorum=has_quorum, circumstances=circumstances)
            step = next_action(standing, bytes(32))
            assert step
            assert f"explain 0x{bytes(32).hex()}" not in step, "it is the command that was just typed"


def test_a_dead_entry_is_said_to_be_given_up() -> None:
    claimed = claimed_by_a_worker(entry(Gmp.AXELAR))
    failure = Failure(at=NOW, kind=FailureKind.TERMINAL, code="Refused", message="bad proof")
    dead = claimed.after(Dead(claimed.current_claim, failure))
    found = explained(replace(dead))
    assert "Axelar accepted it, and the relayer gave up after 1 try (bad proof)" in found.reason
    assert found.gmps[0].stage is Stage.DEAD


@pytest.mark.parametrize("status", [Status.EXPIRED, Status.CANCELLED, Status.ORPHANED])
def test_an_end_stays_one_however_many_gmps_deliver_after_it(status: Status) -> None:
    index = message_record(MESSAGE, status, dispatched=frozenset(Gmp))
    explanation = explained(receipts=frozenset({Gmp.AXELAR, Gmp.CCIP}), index=index)
    assert explanation.status is status
    assert "GMPs have delivered" not in explanation.reason


def test_a_divergence_is_not_hidden_behind_an_execution() -> None:
    index = message_record(MESSAGE, Status.DIVERGED, dispatched=frozenset(Gmp))
    assert explained(executed=True, index=index).status is Status.DIVERGED


def given_up(gmp: Gmp) -> OutboxEntry:
    claimed = claimed_by_a_worker(entry(gmp))
    failure = Failure(at=NOW, kind=FailureKind.TRANSIENT, code="Timeout", message="gateway is down")
    return claimed.after(Dead(claimed.current_claim, failure))


def test_message_without_open_deliveries_is_dead() -> None:
    both = explained(given_up(Gmp.AXELAR), given_up(Gmp.HYPERLANE), circumstances=Circumstances(has_letter=True))
    assert both.status is Status.DEAD
    assert both.next_action == f"decide about its dead letter: `waybill dlq show 0x{MESSAGE.id.hex()}`"
    assert "Hyperlane and Axelar accepted it, and the relayer gave up after 1 try (gateway is down)" in both.reason
    one = explained(given_up(Gmp.AXELAR), receipts=frozenset({Gmp.HYPERLANE}), index=seen_by_index(Status.RECEIVED))
    assert one.status is Status.DEAD, "the other one has delivered, and its quorum of two is out of reach"
    assert explained(given_up(Gmp.AXELAR), entry(Gmp.HYPERLANE)).status is Status.ROUTED
    assert explained(given_up(Gmp.AXELAR), executed=True).status is Status.EXECUTED


def test_decided_dead_message_needs_no_decision(tmp_path: Path) -> None:
    name = f"0x{MESSAGE.id.hex()}"
    with closing(DeadLetterLog(f"sqlite:///{tmp_path}/letters.db")) as log:

        def said() -> str:
            kept = replace(read_stored(MESSAGE.id, None, None, log), entries=[given_up(Gmp.AXELAR)])
            return explain_stored(MESSAGE, kept, frozenset(), NOW).next_action

        log.append(entered(f"{name}/axelar/0", messageId=name), KeySealer(SEALER))
        assert said() == f"decide about its dead letter: `waybill dlq show {name}`"
        decided = happened(f"{name}/axelar/0", RecordKind.DECIDED, 1, decisionType=Decision.ABANDON)
        log.append(decided, KeySealer(SEALER))
        assert said() == f"nothing: an operator has decided about its dead letter: `waybill dlq show {name}`"


@for_each_case(
    "head, time, halted, said",
    [
        (100, 1_000, None, None),
        (101, 1_012, None, None),  # a block that the index is about to read
        (220, 1_240, None, "120 blocks (240 s) behind"),
        (100, 1_000, "it took back block 90", "at the head, halted: it took back block 90"),
    ],
)
def test_index_is_behind_beyond_the_maximum_lag(head: int, time: int, halted: str | None, said: str | None) -> None:
    record = ChainRecord(
        chain_id=1,
        block=100,
        block_time=1_000,
        head_block=100,
        final_block=90,
        lake_block=None,
        lag_seconds=0,
        halted=halted,
    )
    lag = IndexLag(name="alpha", chain_id=1, record=record, head=Block(head, bytes(32), bytes(32), time))
    assert lag.is_behind(30) is (said is not None)
    assert lag.text.endswith(said or "")


EXECUTION = ExecutionJob(message_id=MESSAGE.id, lane=Lane(1, 2), since=900, available_at=NOW + 12, outcome="GmpPaused")
BOTH = frozenset({Gmp.AXELAR, Gmp.WORMHOLE})


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (ExecutionState.WAITING, "the relayer executes it once its router allows that: GmpPaused (next look in 12 s)"),
        (
            ExecutionState.BLOCKED,
            "it could be executed, but the relayer holds it back: GmpPaused (next look in 12 s)",
        ),
        (ExecutionState.SENT, "the relayer is executing it: GmpPaused (next look in 12 s)"),
    ],
)
def test_unexecuted_message_is_not_called_refused(state: ExecutionState, said: str) -> None:
    execution = replace(EXECUTION, state=state)
    told = explain(MESSAGE, Stored(execution=execution), receipts=BOTH, executed=False, now=NOW)
    assert told.reason == f"Axelar, Wormhole delivered, which is enough, and it has not been executed yet; {said}"


def test_paused_lane_is_explained() -> None:
    store = memory_store()
    store.observations.record(observed_range(MESSAGE))
    lane = Lane(MESSAGE.source_chain, MESSAGE.destination_chain)
    store.lanes.change(LaneChange(lane=lane, state=LaneState.PAUSED, reason="an upgrade", by="ann", at=NOW))
    kept = read_stored(MESSAGE.id, None, store, None)
    said = explain(MESSAGE, kept, receipts=frozenset(), executed=False, now=NOW).reason
    assert "the relayer's lane is PAUSED, by ann: an upgrade (`waybill lane resume`)" in said
    executed = explain(MESSAGE, kept, receipts=frozenset({Gmp.HYPERLANE}), executed=True, now=NOW)
    assert "PAUSED" not in executed.reason


def test_what_the_relayer_found_refused_is_called_so() -> None:
    execution = replace(EXECUTION, state=ExecutionState.REFUSED, outcome="Closed")
    told = explain(MESSAGE, Stored(execution=execution), receipts=BOTH, executed=False, now=NOW)
    assert told.status is Status.EXECUTION_FAILED
    assert "but the recipient refused it; the relayer tests the execution from time to time" in told.reason


@for_each_case(
    "code",
    [
        "DEDUPLICATION_DETECTED",
        "ATTESTATION_REPLAY_DETECTED",
        "STATE_HASH_MISMATCH",
        "ROLLBACK_INCOMPLETE_REJECT",
    ],
)
def test_guard_rejection_is_explained_with_its_code(code: str) -> None:
    execution = replace(EXECUTION, state=ExecutionState.REJECTED, outcome=f"{code}: ExecutionReverted(…)")
    told = explain(MESSAGE, Stored(execution=execution), receipts=BOTH, executed=False, now=NOW)
    assert told.status is Status.EXECUTION_FAILED
    assert f"that ends the relayer's tries: {code}: ExecutionReverted(…)" in told.reason


@pytest.mark.parametrize(("setbacks", "is_stuck"), [(1, False), (STUCK_AFTER - 1, False), (STUCK_AFTER, True)])
def test_setbacks_and_stuck_deliveries_are_explained(setbacks: int, *, is_stuck: bool) -> None:
    one = entry(Gmp.AXELAR)
    for _ in range(setbacks):
        claimed = claimed_by_a_worker(one)
        failure = Failure(at=NOW, kind=FailureKind.UNANSWERED, code="UnansweredError", message="no endpoint answers")
        one = claimed.after(TryAgain(claimed.current_claim, failure, NOW + 600))
    found = explained(one)
    assert "Axelar is not delivered (no endpoint answers)" in found.reason
    assert ("makes no progress after" in found.reason) is is_stuck
    (progress,) = found.gmps
    assert (progress.stage, progress.failed_tries, progress.setbacks) == (Stage.FAILING, 0, setbacks)


def test_state_change_is_shown_with_its_signed_records() -> None:
    store = memory_store()
    sent = [message(1, kind=Kind.STATE_SYNC, destination_chain=destination) for destination in (BETA, BETA + 1)]
    seen = observed_range(*sent)
    same = tuple(replace(attempt, transaction_hash=word("one transaction")) for attempt in seen.attempts)
    store.observations.record(replace(seen, attempts=same))
    store.finality_records.collect(FOLLOWED, 0)
    applied = store.jobs.newest(SyncJob, sent[0].id)
    assert applied is not None
    signed = replace(applied.record, signer=SEALER.address, signature=b"s")
    assert store.jobs.save(replace(applied, record=signed).settled(SyncState.APPLIED, "", NOW), fence=0)
    explanation = explain_stored(sent[1], read_stored(sent[1].id, None, store, None), frozenset(), NOW)
    records = explanation_value(explanation)["primaryRecords"]
    assert [(one["destinationChain"], one["state"], one["signature"]) for one in records] == [
        (BETA, "APPLIED", "0x73"),
        (BETA + 1, "PENDING", None),
    ]
    assert {one["transaction"] for one in records} == {f"0x{word('one transaction').hex()}"}
