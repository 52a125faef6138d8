"""Tasks beside the stream."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from indexer.jobs import periodic
from indexer.jobs.periodic import Periodic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    told = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(periodic, "time", SimpleNamespace(monotonic=lambda: told.now))
    return told


def test_periodic_task_runs_when_due_and_blocks_nobody(clock: SimpleNamespace) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    def task() -> None:
        begun.release()
        assert go_on.wait(60)

    one = Periodic("one", 300.0, task)
    clock.now += 299.0
    one.tick()
    assert not begun.acquire(blocking=False)
    clock.now += 1.0
    one.tick()
    assert begun.acquire(timeout=60)
    clock.now += 300.0
    one.tick()  # the first run is still under way
    go_on.set()
    one.close()
    assert not begun.acquire(blocking=False)


@pytest.mark.usefixtures("clock")
def test_periodic_task_that_fails_is_raised_at_a_tick() -> None:
    def task() -> None:
        raise ValueError("broken")

    one = Periodic("one", 0.0, task)
    one.tick()
    one.close()
    with pytest.raises(ValueError, match="broken"):
        one.tick()
