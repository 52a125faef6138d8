"""kill −9 while a delivery is marked dead, in a real process with real databases: the letter is there once, and the delivery is dead."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bridge.dead_letters.integrity import verify
from bridge.records.dead_letters import RecordKind
from bridge.records.outbox import OutboxState
from bridge.store import open_dead_letters, open_store
from tests.builders import message, observed_range
from tests.unit.dead_letters.world import SEALER
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("step", "dead_letters", "state"),
    [
        ("before-letter", 0, OutboxState.CLAIMED),
        ("after-letter", 1, OutboxState.CLAIMED),
    ],
)
def test_a_relayer_killed_while_it_marks_a_delivery_dead_loses_nothing_and_writes_nothing_twice(
    tmp_path: Path, step: str, dead_letters: int, state: OutboxState
) -> None:
    store_url, dlq_url = f"sqlite:///{tmp_path}/bridge.db", f"sqlite:///{tmp_path}/dlq.db"
    sent = message()
    with closing(open_store(store_url)) as store:
        store.observations.record(observed_range(sent, now=100))

    def life(now: float, step: str) -> int:
        command = [sys.executable, "-m", "tests.unit.dead_letters.dying", store_url, dlq_url, str(now), step]
        return subprocess.run(command, cwd=ROOT, check=False, timeout=PATIENCE, capture_output=True).returncode

    assert life(1000, step) == -signal.SIGKILL
    with closing(open_store(store_url)) as store, closing(open_dead_letters(dlq_url)) as log:
        assert len(log.records()) == dead_letters
        assert [entry.state for entry in store.outbox.entries(sent.id)] == [state]
    assert life(2000, "never") == 0
    with closing(open_store(store_url)) as store, closing(open_dead_letters(dlq_url)) as log:
        assert [record.kind for record in log.records()] == [RecordKind.ENTERED]
        (entry,) = store.outbox.entries(sent.id)
        assert entry.state is OutboxState.DEAD
        assert verify(log, trusted=frozenset({SEALER.address}), marked_dead=[entry.event_id]).violations == ()
