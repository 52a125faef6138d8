"""What the relayer's own store knows about the log of dead letters: how far it had come, and which deliveries need a letter."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from eth_account import Account
from sqlalchemy import create_engine, insert, text

from bridge.dead_letters.channels import Notice
from bridge.dead_letters.integrity import denied_decisions, verify
from bridge.dead_letters.signing import KeySealer
from bridge.protocol.delivery_policy import DEFAULT_POLICIES
from bridge.protocol.deployment import Deployment
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.protocol.ports import Chain
from bridge.records.dead_letters import Decision, RecordKind
from bridge.records.outbox import Dead, OutboxState
from bridge.relayer.own_messages import OwnMessages
from bridge.service.dead_letter_service import DeadLetterService as RunningService
from bridge.service.dead_letter_service import verify_letters
from bridge.service.keys import open_sealer
from bridge.service.settings import Settings
from bridge.store import open_store
from bridge.store.dead_letters import DeadLetterLog, dead_letter_log
from tests.builders import ALPHA, BETA, message
from tests.support.simulation import SimulatedRelayer, World
from tests.support.stores import memory_store
from tests.unit.dead_letters.test_alerts import ParameterChain
from tests.unit.dead_letters.test_review import deployed
from tests.unit.dead_letters.world import SEALER, DeadLetterService, StillClock, entered, happened
from tests.virtual_time import in_virtual_time, running, until


def cut_off(url: str, *changes: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        for change in changes:
            assert connection.execute(text(change)).rowcount == 1
    engine.dispose()


@pytest.mark.parametrize("goes_on", [False, True])
async def test_truncated_log_is_found_at_the_next_start(tmp_path: Path, goes_on: bool) -> None:
    """Also when the log has grown since: what is noted in the relayer's store never passes a cut."""
    url = f"sqlite:///{tmp_path}/dlq.db"
    trusted = frozenset({SEALER.address})
    with closing(DeadLetterLog(url)) as log:
        review = DeadLetterService(store=open_store(f"sqlite:///{tmp_path}/bridge.db"), dead_letters=log)
        event_id = await review.die()
        log.append(happened(event_id, RecordKind.DECIDED, 1, decisionType=Decision.ABANDON), KeySealer(SEALER))
        await review.dead_letter_queue.step()
        whole = [str(one) for one in verify_letters(log, review.store, trusted).violations]
        cut_off(
            url,
            "DELETE FROM dead_letter_log WHERE sequence = 2",
            "UPDATE dead_letters SET status = 'PENDING_REVIEW', last_sequence = 1",
        )
        if goes_on:
            log.append(entered("b"), KeySealer(SEALER))
            log.append(entered("c"), KeySealer(SEALER))
            await review.dead_letter_queue.step()
        found = [str(one) for one in verify_letters(log, review.store, trusted).violations]
        review.store.close()
    assert not any("noted" in problem for problem in whole)
    assert any("was cut off or written again" in problem for problem in found)


def test_record_of_another_log_of_the_same_signer_is_found(tmp_path: Path) -> None:
    """It is whole, signed, and in its place: only the hash of the record before it tells."""
    ours, theirs = (f"sqlite:///{tmp_path}/{name}.db" for name in ("ours", "theirs"))
    for url, first in ((ours, "a"), (theirs, "b")):
        with closing(DeadLetterLog(url)) as log:
            log.append(entered(first), KeySealer(SEALER))
            log.append(entered("c"), KeySealer(SEALER))
    second = "SELECT * FROM dead_letter_log WHERE sequence = 2"
    with create_engine(theirs).connect() as connection:
        row = dict(connection.execute(text(second)).mappings().one())
    cut_off(ours, "DELETE FROM dead_letter_log WHERE sequence = 2")
    with create_engine(ours).begin() as connection:
        connection.execute(insert(dead_letter_log).values(**row))
    with closing(DeadLetterLog(ours)) as log:
        found = verify(log, trusted=frozenset({SEALER.address})).violations
    assert [(one.sequence, one.problem) for one in found] == [
        (2, "does not follow the record before it: one of the two was changed")
    ]


async def test_only_confirmed_contract_decisions_are_checked_again() -> None:
    review = DeadLetterService()
    event_id, sealer = await review.die(), KeySealer(SEALER)
    review.dead_letters.append(happened(event_id, RecordKind.DECIDED, 1, decisionType=Decision.ABANDON), sealer)
    assert await denied_decisions(review.dead_letters, {}) == frozenset()

    elsewhere = {"chainId": ALPHA, "confirmedAt": {"block": 1}}  # a chain that the relayer does not know
    confirmed = happened(
        await review.die(message(2)), RecordKind.DECIDED, 1, decisionType=Decision.ABANDON, **elsewhere
    )
    last = review.dead_letters.append(confirmed, sealer)
    assert last is not None
    assert await denied_decisions(review.dead_letters, {}) == frozenset({last.sequence})


async def test_head_noted_elsewhere_must_still_exist() -> None:
    review = DeadLetterService()
    await review.die()
    trusted, here = frozenset({SEALER.address}), review.dead_letters.records()[0].hash
    assert verify_letters(review.dead_letters, review.store, trusted, here).violations == ()
    (gone,) = verify_letters(review.dead_letters, review.store, trusted, b"\x01" * 32).violations
    assert f"no record has the hash 0x{'01' * 32}" in str(gone)


async def test_letter_that_is_gone_is_told_from_a_death_without_one() -> None:
    review = DeadLetterService()
    review.observe(message(1), message(2))
    failure = Failure(at=review.clock.now(), kind=FailureKind.TERMINAL, code="E", message="no")
    without, gone = review.claim(2)
    ends = [
        Dead(without.current_claim, replace(failure, letter=False)),
        Dead(gone.current_claim, replace(failure, letter=True)),
    ]
    review.store.outbox.finish(ends, 100)
    verified = verify_letters(review.dead_letters, review.store, frozenset())
    assert [one.event_id for one in verified.violations] == [gone.event_id]


async def test_the_office_notes_with_a_death_that_it_has_its_letter() -> None:
    review = DeadLetterService()
    event_id = await review.die()
    assert review.store.outbox.dead_letters() == {event_id: True}


@in_virtual_time
async def test_death_without_a_promised_letter_is_recorded() -> None:
    world, store = World(), memory_store()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    plain = replace(DEFAULT_POLICIES[Kind.PLAIN], max_retries=0, dead_letter=False)
    async with running(SimulatedRelayer(world, store, policies={**DEFAULT_POLICIES, Kind.PLAIN: plain})):
        world.send()
        await until(lambda: bool(store.outbox.listed(state=OutboxState.DEAD)))
    assert list(store.outbox.dead_letters().values()) == [False]
    await world.stop()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "UPDATE dead_letter_log SET document = '{}' WHERE sequence = 3",
            "its document is not the one that was hashed",
        ),
        ("UPDATE dead_letter_log SET at = at + 1 WHERE sequence = 2", "record 2 is not the one that was verified"),
        ("DELETE FROM dead_letter_log WHERE sequence = 3", "record 3 is not the one that was verified"),
    ],
)
async def test_running_relayer_reports_a_changed_log_once(tmp_path: Path, change: str, said: str) -> None:
    log_url, told = f"sqlite:///{tmp_path}/dlq.db", list[Notice]()

    class Told:
        name = "told"

        async def tell(self, notice: Notice) -> None:
            told.append(notice)

    settings = Settings.load(relayer_key="0x" + "44" * 32, dlq={"url": log_url})
    chains = dict.fromkeys((ALPHA, BETA), cast(Chain, ParameterChain({})))
    document = {"version": 1, "network": "test", "chains": [deployed(ALPHA, "alpha"), deployed(BETA, "beta")]}
    service = RunningService(
        Deployment.model_validate(document),
        chains,
        memory_store(),
        settings,
        StillClock(),
        messages=cast(OwnMessages, None),
        sealer=open_sealer(settings),
    )
    service.alerts.channels = [Told()]
    with closing(service.dead_letters):
        for name in ("a", "b"):
            service.dead_letters.append(entered(name), KeySealer(SEALER))
        await service.verify()
        grown = "sequence = 3" in change
        if grown:
            service.dead_letters.append(entered("c"), KeySealer(SEALER))
        if "DELETE" in change:
            await service.verify()
        assert told == []
        cut_off(log_url, change)
        for _ in range(3):
            await service.verify()
    (notice,) = told
    assert said in notice.summary


async def test_decision_recorded_during_a_check_is_left_to_the_next() -> None:
    """Its signer was no operator yet when the check read whom to trust."""
    review = DeadLetterService()
    event_id = await review.die()
    last = review.dead_letters.last_sequence()
    decided = happened(event_id, RecordKind.DECIDED, 1, decisionType=Decision.REQUEUE.value)
    review.dead_letters.append(decided, KeySealer(Account.from_key("0x" + "77" * 32)))
    await review.dead_letter_queue.step()  # notes the new head
    trusted = frozenset({SEALER.address})
    assert verify_letters(review.dead_letters, review.store, trusted, until=last).violations == ()
    (untrusted, *_) = verify_letters(review.dead_letters, review.store, trusted).violations
    assert "who is not trusted" in str(untrusted)
