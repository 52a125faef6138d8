"""What the relayer's own store knows about the log of dead letters: how far it had come, and which deliveries need a letter."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from bridge.dlq.signing import KeySealer
from bridge.policies import DEFAULT_POLICIES
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.records.dead_letters import Decision, RecordKind
from bridge.records.failures import Failure, FailureKind
from bridge.records.outbox import Dead, OutboxState
from bridge.records.retries import RetryState, spent_id
from bridge.settings import Settings
from bridge.simulation import SimulatedBridge, World
from bridge.store import MemoryStore, open_store
from bridge.store.sql.dead_letters import SqlDeadLetterLog
from bridge.undertaking import verify_letters
from tests.builders import message, retry_request
from tests.unit.dlq_world import SEALER, Undertaking, entered, happened
from tests.virtual_time import in_virtual_time, running, until


def cut_off(url: str, *changes: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        for change in changes:
            assert connection.execute(text(change)).rowcount == 1
    engine.dispose()


@pytest.mark.requirement("OIP-129", "OIP-130")
@pytest.mark.parametrize("goes_on", [False, True])
async def test_a_log_whose_last_decision_was_cut_off_is_found_at_the_next_start(tmp_path: Path, goes_on: bool) -> None:
    """Also when the log has grown since: what is noted in the relayer's store never passes a cut."""
    url, settings = f"sqlite:///{tmp_path}/dlq.db", Settings.load(relayer_key="0x" + "44" * 32)
    trusted = frozenset({SEALER.address})
    with closing(SqlDeadLetterLog(url)) as log:
        desk = Undertaking(store=open_store(f"sqlite:///{tmp_path}/bridge.db"), letters=log)
        event_id = await desk.die()
        log.append(happened(event_id, RecordKind.DECIDED, 1, decisionType=Decision.ABANDON), KeySealer(SEALER))
        await desk.office.step()
        whole = [str(one) for one in verify_letters(log, desk.store, trusted, settings).violations]
        cut_off(
            url,
            "DELETE FROM dead_letter_log WHERE sequence = 2",
            "UPDATE dead_letters SET status = 'PENDING_REVIEW', last_sequence = 1",
        )
        if goes_on:
            log.append(entered("b"), KeySealer(SEALER))
            log.append(entered("c"), KeySealer(SEALER))
            await desk.office.step()
        found = [str(one) for one in verify_letters(log, desk.store, trusted, settings).violations]
        desk.store.close()
    assert not any("noted" in problem for problem in whole)
    assert any("was cut off or written anew" in problem for problem in found)


async def test_a_delivery_whose_sender_wanted_no_letter_is_not_missed() -> None:
    desk = Undertaking()
    sent = message()
    desk.observe(sent)
    (entry,) = desk.claim()
    failure = Failure(at=desk.clock.now(), kind=FailureKind.TERMINAL, code="E", message="no")
    desk.store.outbox.finish([Dead(entry.claim_held, failure)], desk.clock.now())
    promised: dict[str, Any] = {f"0x{sent.id.hex()}": {"max_retries": 0, "dead_letter": False}}
    for guarantees, missing in ((promised, 0), ({**promised, f"0x{sent.id.hex()}": {"max_retries": 0}}, 1)):
        settings = Settings.load(relayer_key="0x" + "44" * 32, guarantees=guarantees)
        assert len(verify_letters(desk.letters, desk.store, frozenset(), settings).violations) == missing


@pytest.mark.parametrize("where", ["memory", "sqlite"])
async def test_a_death_before_letters_were_switched_on_is_told_from_one_whose_letter_is_gone(
    tmp_path: Path, where: str
) -> None:
    store = open_store("memory" if where == "memory" else f"sqlite:///{tmp_path}/bridge.db")
    desk = Undertaking(store=store)
    desk.observe(message(1), message(2), message(3))
    failure = Failure(at=desk.clock.now(), kind=FailureKind.TERMINAL, code="E", message="no")
    ends = {"earlier": None, "off": False, "on": True}
    entries = dict(zip(ends, desk.claim(3), strict=True))
    store.outbox.finish(
        [Dead(entry.claim_held, replace(failure, letter=ends[name])) for name, entry in entries.items()], 100
    )
    verified = verify_letters(desk.letters, store, frozenset(), letters_for_all())
    assert {one.event_id for one in verified.violations} == {entries["earlier"].event_id, entries["on"].event_id}
    assert verified.unpromised == (entries["off"].event_id,)
    off = Settings.load(relayer_key="0x" + "44" * 32, policies={"plain": {"dead_letter": False}})
    switched_off = verify_letters(desk.letters, store, frozenset(), off)
    assert [one.event_id for one in switched_off.violations] == [entries["on"].event_id], "it was promised one"
    store.close()


async def test_a_retry_that_died_before_letters_were_switched_on_is_told_from_one_whose_letter_is_gone() -> None:
    desk = Undertaking()
    desk.observe(message(1), message(2))
    for number, letter in ((1, False), (2, True)):
        request = retry_request(number, message(number))
        desk.store.retries.copy([request], number, now=50)
        (job,) = desk.store.retries.due(100, 1)
        assert desk.store.retries.save(job.died("spent", 60, letter=letter), expected=RetryState.OPEN)
    verified = verify_letters(desk.letters, desk.store, frozenset(), letters_for_all())
    assert [one.event_id for one in verified.violations] == [spent_id(message(2).id, 1)]
    assert verified.unpromised == (spent_id(message(1).id, 1),)


async def test_the_office_notes_with_a_death_that_it_has_its_letter() -> None:
    desk = Undertaking()
    event_id = await desk.die()
    assert desk.store.outbox.letters() == {event_id: True}


def letters_for_all() -> Settings:
    return Settings.load(relayer_key="0x" + "44" * 32, policies={"plain": {"dead_letter": True, "max_retries": 0}})


@in_virtual_time
async def test_the_relayer_notes_with_a_death_that_no_letter_was_promised() -> None:
    world, store = World(), MemoryStore()
    world.start()
    world.down.add(Gmp.HYPERLANE)
    plain = replace(DEFAULT_POLICIES[Kind.PLAIN], max_retries=0, dead_letter=False)
    async with running(SimulatedBridge(world, store, policies={**DEFAULT_POLICIES, Kind.PLAIN: plain})):
        world.send()
        await until(lambda: bool(store.outbox.listed(state=OutboxState.DEAD)))
    assert list(store.outbox.letters().values()) == [False]
    await world.stop()
