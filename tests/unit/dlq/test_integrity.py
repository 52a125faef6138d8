"""What the relayer's own store knows about the log of dead letters: how far it had come, and which deliveries need a letter."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from bridge.dlq.signing import KeySealer
from bridge.records.dead_letters import Decision, RecordKind
from bridge.records.failures import Failure, FailureKind
from bridge.records.outbox import Dead
from bridge.settings import Settings
from bridge.store import open_store
from bridge.store.sql.dead_letters import SqlDeadLetterLog
from bridge.undertaking import verify_letters
from tests.builders import message
from tests.unit.dlq_world import SEALER, Undertaking, entered, happened


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
