"""A delivery is called dead only when its letter is written; if that can't be, its lane halts and nothing is lost."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import signal
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import cast

import pytest
import structlog

from bridge.dead_letters.integrity import verify
from bridge.dead_letters.queue import DeadLetterQueue
from bridge.dead_letters.signing import KeySealer
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.delivery_policy import DEFAULT_POLICIES
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.lanes import Lane, LaneChange, LaneState
from bridge.protocol.message import Kind
from bridge.records.dead_letters import Decision, LetterStatus, RecordKind
from bridge.records.outbox import Delivered, ObservedDelivery, OutboxState, TryAgain, snapshot_of
from bridge.store import Store, open_dead_letters
from bridge.store.dead_letters import DeadLetterLog
from tests.builders import ALPHA, BETA, block, message, word
from tests.cases import for_each_case
from tests.support.dying import counted_until
from tests.support.simulation import SimulatedRelayer, World
from tests.support.simulation.power import Power, PowerCut, Powered, powered_store
from tests.support.stores import memory_dead_letters, memory_store
from tests.unit.dead_letters.world import DAY, SEALER, DeadLetterService, FailingLog, happened
from tests.virtual_time import crash, in_virtual_time, running, until
from tests.waiting import PATIENCE


async def test_a_letter_holds_the_message_verbatim_and_every_failure() -> None:
    review = DeadLetterService()
    sent = message(payload=b"\x00\xff{not text}\x00" * 2_000)
    review.observe(sent, gmps=(Gmp.HYPERLANE, Gmp.WORMHOLE))
    (entry,) = review.claim(gmps=frozenset({Gmp.HYPERLANE}))
    for number in (1, 2):
        failure = Failure(
            at=review.clock.now(),
            kind=FailureKind.TRANSIENT,
            code="TransientError",
            message=f"no {number}",
            delivery_snapshot=snapshot_of(review.store.outbox.entries(sent.id)),
        )
        review.store.outbox.finish([TryAgain(entry.current_claim, failure, review.clock.now())], review.clock.now())
        review.clock.time += 1
        (entry,) = review.claim(gmps=frozenset({Gmp.HYPERLANE}))
    await review.mark_dead(entry, error="no 3")
    (record,) = review.dead_letters.records()
    document = record.document
    assert document is not None
    assert bytes.fromhex(document["originalMessage"].removeprefix("0x")) == sent.encode()
    history = [(one["attemptNumber"], one["errorCode"], one["errorMessage"]) for one in document["failureHistory"]]
    assert history == [(1, "TransientError", "no 1"), (2, "TransientError", "no 2"), (3, "TransientError", "no 3")]
    snapshots = [one["routingSlipSnapshot"] for one in document["failureHistory"][:2]]
    assert [[line["state"] for line in delivery_snapshot] for delivery_snapshot in snapshots] == [
        ["CLAIMED", "PENDING"]
    ] * 2
    assert [delivery_snapshot[0]["lastError"] for delivery_snapshot in snapshots] == [None, "no 1"]
    assert document["failureHistory"][0]["failedAt"] == "2023-11-14T22:13:20.000Z"
    assert document["enteredDLQAt"] == "2023-11-14T22:13:22.000Z"
    assert document["retentionUntil"] == "2023-12-14T22:13:22.000Z"
    assert document["retentionUntilSeconds"] - record.at == 30 * DAY
    states = {one["eventId"].split("/")[1]: one["state"] for one in document["routingSlip"]["deliveries"]}
    assert states == {"hyperlane": "DEAD", "wormhole": "PENDING"}
    assert review.store.outbox.entries(sent.id)[0].state is OutboxState.DEAD


async def test_participants_letter_holds_the_decision_message() -> None:
    review, sent = DeadLetterService(), message()
    failure = Failure(at=review.clock.now(), kind=FailureKind.REFUSED, code="DIVERGED", message="TOO_FEW_UNITS")
    for is_new in (True, False):
        written = await review.dead_letter_queue.mark_action_diverged(
            b"\x01" * 32, 0, sent, failure, reason="DIVERGED", attempt=2, evidence={"branch": 0}
        )
        assert written is is_new
    (record,) = review.dead_letters.records()
    assert record.document is not None
    assert record.document["originalMessage"] == f"0x{sent.encode().hex()}"
    assert record.document["action"] == {"branch": 0}
    assert [one["errorMessage"] for one in record.document["failureHistory"]] == ["TOO_FEW_UNITS"]
    headers = {"waybill-error": "TOO_FEW_UNITS", "waybill-error-type": "DIVERGED"}
    assert headers.items() <= record.document["headers"].items()


async def test_the_headers_say_what_failed_and_where_it_came_from() -> None:
    review = DeadLetterService()
    await review.die(error="no proof")
    document = review.dead_letters.records()[0].document
    assert document is not None
    assert document["headers"] == {
        "waybill-error": "no proof",
        "waybill-error-type": "TransientError",
        "waybill-reason": "MAX_RETRIES_EXCEEDED",
        "waybill-source-topic": f"{ALPHA}/{from_bytes32(message().source_router)}",
        "waybill-source-partition": f"{ALPHA}>{BETA}/hyperlane",
        "waybill-source-offset": f"1/3@0x{block(1).hash.hex()}",
        "waybill-timestamp": "2023-11-14T22:13:20.000Z",
        "waybill-pipeline": "observe>attest>deliver",
        "waybill-destination": str(BETA),
        "waybill-filter": "hyperlane dispatches of the router",
        "waybill-transform": "hyperlane attestation",
    }
    assert "Traceback" not in str(document)


async def test_letter_written_at_the_third_try_counts() -> None:
    review = DeadLetterService(dead_letters=FailingLog(2))
    event_id = await review.die()
    assert review.clock.slept == [1.0, 1.0]
    assert len(review.dead_letters.records()) == 1
    assert review.store.lanes.held() == []
    entry = review.store.outbox.entry(event_id)
    assert entry is not None
    assert entry.state is OutboxState.DEAD


async def test_scenario_6_unwritable_letter_halts_its_lane() -> None:
    log = FailingLog(3)
    review = DeadLetterService(dead_letters=log)
    with structlog.testing.capture_logs() as logs:
        event_id = await review.die(error="the delivery's own error")
    assert log.tried == 3
    (held,) = review.store.lanes.held()
    assert (held.lane, held.state) == (Lane(ALPHA, BETA), LaneState.HALTED)
    assert "read-only file system" in held.reason
    entry = review.store.outbox.entry(event_id)
    assert entry is not None
    assert (entry.state, entry.last_error) == (OutboxState.PENDING, "the delivery's own error")
    review.clock.time += 60
    assert review.claim() == []
    (critical,) = [one for one in logs if one["log_level"] == "critical"]
    assert critical["dead_letter_error"] == "read-only file system"
    assert critical["delivery_error"] == "the delivery's own error"
    assert critical["message"] == event_id.partition("/")[0]


async def requeue(review: DeadLetterService, event_id: str) -> None:
    decided = happened(event_id, RecordKind.DECIDED, 1, decisionType=Decision.REQUEUE.value)
    review.dead_letters.append(decided, KeySealer(SEALER))
    review.store.outbox.replay(event_id, "by hand", review.clock.now())


async def test_second_death_after_a_decision_returns_for_review() -> None:
    review = DeadLetterService()
    event_id = await review.die()
    await requeue(review, event_id)
    (entry,) = review.claim()
    await review.mark_dead(entry)
    letter = review.dead_letters.letter(event_id)
    assert letter is not None
    assert letter.status is LetterStatus.PENDING_REVIEW
    kinds = [record.kind for record in review.dead_letters.history(event_id)]
    assert kinds == [RecordKind.ENTERED, RecordKind.DECIDED, RecordKind.RETURNED]


async def test_letter_is_recovered_only_once_delivery_is_final() -> None:
    review = DeadLetterService()
    event_id = await review.die()
    await requeue(review, event_id)
    (entry,) = review.claim()
    review.store.outbox.finish(
        [Delivered(entry.current_claim, ObservedDelivery(block(7, "beta"), word("tx")))], review.clock.now()
    )
    await review.dead_letter_queue.step()
    assert [one.status for one in review.dead_letters.dead_letters()] == [LetterStatus.RETRY_QUEUED]
    review.store.outbox.confirm([event_id], review.clock.now())
    for _ in range(2):
        await review.dead_letter_queue.step()
    assert [one.status for one in review.dead_letters.dead_letters()] == [LetterStatus.RECOVERED]
    last = review.dead_letters.records()[-1].document
    assert last is not None
    assert (last["by"], last["block"]) == (event_id, 7)
    assert len(review.dead_letters.records()) == 3


@in_virtual_time
async def test_state_change_after_six_failures_is_left_to_an_operator() -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    bridge = SimulatedRelayer(world, store)
    async with running(bridge):
        sent = world.send(ALPHA, BETA, kind=Kind.STATE_SYNC)
        await until(lambda: len(bridge.dead_letters.records()) == 1, seconds=600)
        await asyncio.sleep(60)
        (entry,) = store.outbox.entries(sent.message.id)
        assert (entry.state, entry.failed_tries) == (OutboxState.DEAD, 6), "tried again without a decision"
    await world.stop()


def state_of(store: Store, event_id: str) -> OutboxState | None:
    entry = store.outbox.entry(event_id)
    return entry.state if entry else None


LATE = 1.1  # seconds: the worker looks once in half a second
KINDS = [Kind.STATE_SYNC, Kind.QUERY, Kind.GOVERNANCE_VOTE, Kind.REGULATORY_ACTION_CRITICAL]
"""Rows with a letter and without, with few tries and without end; `test_delivery_policy.py` compares all rows."""


@for_each_case("kind", KINDS)
@in_virtual_time
async def test_kind_is_tried_by_its_row_and_leaves_its_letter(kind: Kind) -> None:
    """What it does follows the row: how many tries, how long each wait, and whether an operator hears of the end."""
    policy, world, store = DEFAULT_POLICIES[kind], World(block_time=30), memory_store()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    bridge = SimulatedRelayer(world, store)
    async with running(bridge):
        sent = world.send(ALPHA, BETA, kind=kind)
        await until(lambda: sent.created != [] and store.outbox.entries(sent.message.id) != [])
        event_id = store.outbox.entries(sent.message.id)[0].event_id
        if policy.max_retries is None:
            await until(lambda: len(store.outbox.failures(event_id)) > 50, seconds=600)
        else:
            await until(lambda: state_of(store, event_id) is OutboxState.DEAD, seconds=700)
        state, failed = state_of(store, event_id), [one.failure.at for one in store.outbox.failures(event_id)]
        dead_letters = [record.event_id for record in bridge.dead_letters.records()]
    await world.stop()
    assert policy.max_retries is None or len(failed) == policy.max_retries + 1
    assert (state is OutboxState.DEAD) == (policy.max_retries is not None)
    assert dead_letters == ([event_id] if policy.dead_letter else [])
    waits = [later - earlier for earlier, later in itertools.pairwise(failed)]
    nominal = [min(policy.base * 2**number, policy.cap / 1.1) for number in range(len(waits))]
    shares = [waited / wanted for waited, wanted in zip(waits, nominal, strict=True)]
    assert all(0.9 <= share <= 1.1 + LATE / wanted for share, wanted in zip(shares, nominal, strict=True)), waits
    assert all(waited <= policy.cap + LATE for waited in waits)
    assert len(waits) < 2 or max(shares) - min(shares) > 0.001, "no jitter"


@pytest.mark.parametrize("kind", [Kind.QUERY, Kind.ACK], ids=lambda kind: kind.name)
@in_virtual_time
async def test_lost_query_or_ack_leaves_no_dead_letter(kind: Kind) -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    bridge = SimulatedRelayer(world, store)
    async with running(bridge):
        sent = world.send(ALPHA, BETA, kind=kind)
        await until(
            lambda: (
                sent.created != []
                and any(one.state is OutboxState.DEAD for one in store.outbox.entries(sent.message.id))
            )
        )
        (entry,) = store.outbox.entries(sent.message.id)
        assert (entry.failed_tries, bridge.dead_letters.records()) == (4, [])
        again = world.send(ALPHA, BETA, kind=kind, gmps=(Gmp.WORMHOLE,))
        await until(lambda: again.created != [] and world.executions(again.message) == 1)
    assert world.executions(sent.message) == 0
    await world.stop()


@in_virtual_time
async def test_a_relayer_buries_what_fails_and_goes_on_with_the_rest() -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    bridge = SimulatedRelayer(world, store)
    async with running(bridge):
        dead = world.send(ALPHA, BETA, kind=Kind.STATE_SYNC)
        alive = world.send(ALPHA, BETA, gmps=(Gmp.WORMHOLE,))
        await until(lambda: alive.created != [] and world.executions(alive.message) == 1)
        await until(lambda: bridge.dead_letters.records() != [])
        (record,) = bridge.dead_letters.records()
        assert record.document is not None
        assert record.document["messageId"] == f"0x{dead.message.id.hex()}"
        history = record.document["failureHistory"]
        assert [one["attemptNumber"] for one in history] == [1, 2, 3, 4, 5, 6]
        assert {(one["errorCode"], one["errorMessage"]) for one in history} == {
            ("NotAttestedError", "hyperlane gives no proof now")
        }
        assert [[line["failedTries"] for line in one["routingSlipSnapshot"]] for one in history] == [
            [tries] for tries in range(6)
        ]
        failed_at = [datetime.fromisoformat(one["failedAt"]).timestamp() for one in history]
        assert failed_at == sorted(set(failed_at))
        assert failed_at[-1] == pytest.approx(record.at, abs=0.01)
        await until(lambda: store.outbox.entries(dead.message.id)[0].state is OutboxState.DEAD)
        behind = world.send(ALPHA, BETA, gmps=(Gmp.WORMHOLE,))
        await until(lambda: behind.created != [] and world.executions(behind.message) == 1)
        assert store.lanes.held() == []
    assert bridge.dead_letters.counts() == {LetterStatus.PENDING_REVIEW: 1}
    await world.stop()


@in_virtual_time
async def test_kill_while_marking_dead_leaves_one_letter() -> None:
    """The power goes off at each call in turn, from before the letter is written until after the delivery is dead."""
    for draws in range(1, 14):
        store, dead_letters = memory_store(), memory_dead_letters()
        entry_id = await _mark_dead_with_power(store, dead_letters, Power(draws), life=1)
        await _mark_dead_with_power(store, dead_letters, Power(), life=2)
        assert [record.kind for record in dead_letters.records()] == [RecordKind.ENTERED], f"after {draws} draws"
        entry = store.outbox.entry(entry_id)
        assert entry is not None
        assert entry.state is OutboxState.DEAD
        assert verify(dead_letters, trusted=frozenset({SEALER.address}), marked_dead=[entry_id]).violations == ()


async def _mark_dead_with_power(store: Store, dead_letters: DeadLetterLog, power: Power, *, life: int) -> str:
    review = DeadLetterService(store=store)
    if not store.outbox.counts():
        review.observe(message())
    review.clock.time += 1000 * life  # the lease of an earlier life has run out
    guarded = powered_store(store, power)
    dead_letter_queue = DeadLetterQueue(
        cast(DeadLetterLog, Powered(dead_letters, power)), guarded, KeySealer(SEALER), review.clock
    )
    (event,) = store.outbox.listed()
    try:
        claimed = guarded.outbox.claim(
            worker="w", destination_chain=BETA, gmps=frozenset(Gmp), limit=1, now=review.clock.now(), lease=15
        )
        for entry in claimed:
            failure = Failure(at=1.0, kind=FailureKind.TRANSIENT, code="X", message="x")
            outcome = await dead_letter_queue.mark_dead(entry, entry.current_claim, failure, "MAX_RETRIES_EXCEEDED")
            guarded.outbox.finish([outcome], review.clock.now())
    except PowerCut:
        pass
    return event.event_id


@pytest.mark.parametrize("dies_at", range(4))
def test_sigkill_while_marking_dead_leaves_one_letter(tmp_path: Path, dies_at: int) -> None:
    """SIGKILL ends a real process before or after it writes the letter, or before or after it ends the delivery."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])  # imported once for all lives
    store_url, log_url = f"sqlite:///{tmp_path}/bridge.db", f"sqlite:///{tmp_path}/letters.db"
    for life, exit_code in ((dies_at, -signal.SIGKILL), (None, 0)):
        process = processes.Process(target=_mark_dead_in_a_process, args=(store_url, log_url, life))
        process.start()
        process.join(PATIENCE)
        assert process.exitcode == exit_code
    with closing(Store(store_url)) as store, closing(open_dead_letters(log_url)) as log:
        assert [record.kind for record in log.records()] == [RecordKind.ENTERED]
        (entry,) = store.outbox.listed()
        assert entry.state is OutboxState.DEAD
        assert verify(log, trusted=frozenset({SEALER.address}), marked_dead=[entry.event_id]).violations == ()


def _mark_dead_in_a_process(store_url: str, log_url: str, dies_at: int | None) -> None:
    with closing(Store(store_url)) as store, closing(open_dead_letters(log_url)) as log:
        if dies_at is not None:
            counted = counted_until(dies_at)
            for owner, name in ((log, "append"), (store.outbox, "finish")):
                setattr(owner, name, counted(getattr(owner, name)))
        asyncio.run(_mark_dead_with_power(store, log, Power(), life=1 if dies_at is not None else 2))


@in_virtual_time
async def test_relayer_halts_without_letters_and_continues_on_resume() -> None:
    world, store, dead_letters = World(), memory_store(), FailingLog(3)
    world.start()
    world.down.add(Gmp.HYPERLANE)
    bridge = SimulatedRelayer(world, store, dead_letters=dead_letters)
    lane = Lane(ALPHA, BETA)
    task = asyncio.create_task(bridge.run())
    sent = world.send(ALPHA, BETA, kind=Kind.STATE_SYNC)
    await until(lambda: store.lanes.state(lane) is LaneState.HALTED)
    await crash(bridge, task)  # the halt is durable
    async with running(SimulatedRelayer(world, store, dead_letters=dead_letters)):
        await asyncio.sleep(60)
        assert dead_letters.records() == []
        assert store.outbox.entries(sent.message.id)[0].state is OutboxState.PENDING, "ended before its letter"
        store.lanes.change(
            LaneChange(lane=lane, state=LaneState.RUNNING, reason="back", by="ops", at=world.clock.now())
        )
        await until(lambda: dead_letters.records() != [])
    assert store.outbox.entries(sent.message.id)[0].state is OutboxState.DEAD
    await world.stop()
