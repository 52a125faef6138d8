"""Loops outlive errors, say each once, and pause longer while it lasts."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from bridge.evm.supervision import Wakeup, retry_until_success, run_forever
from bridge.protocol.ports import TerminalError, TransientError
from tests.virtual_time import in_virtual_time


class Step:
    """Fails as told, and notes when it was called."""

    def __init__(self, *outcomes: Exception | bool) -> None:
        self._outcomes = list(outcomes)
        self.at: list[float] = []

    async def __call__(self) -> bool:
        self.at.append(asyncio.get_running_loop().time())
        outcome = self._outcomes.pop(0) if self._outcomes else False
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def repeat(step: Step, seconds: float, wakeup: Wakeup | None = None) -> None:
    task = asyncio.create_task(run_forever("step", step, every=1, wakeup=wakeup))
    await asyncio.sleep(seconds)
    task.cancel()


@in_virtual_time
async def test_step_repeats_at_its_interval_or_at_once() -> None:
    step = Step(True, True, False)
    await repeat(step, 2.5)
    assert step.at == [0, 0, 0, 1, 2]


@in_virtual_time
async def test_after_errors_the_pauses_grow_and_shrink_again() -> None:
    step = Step(TransientError("a"), TransientError("a"), False)
    await repeat(step, 8.5)
    assert step.at == [0, 2, 6, 7, 8]


@in_virtual_time
async def test_no_pause_is_longer_than_half_a_minute() -> None:
    step = Step(*[TransientError("a")] * 100)
    await repeat(step, 1000)
    assert max(later - earlier for earlier, later in zip(step.at, step.at[1:], strict=False)) == 30


@in_virtual_time
async def test_error_is_logged_once_with_its_end() -> None:
    with capture_logs() as logs:
        await repeat(
            Step(TransientError("a"), TransientError("a"), TerminalError("b"), ZeroDivisionError("c"), False), 60
        )
    assert [(line["log_level"], line["event"]) for line in logs] == [
        ("warning", "step failed, will be retried"),
        ("warning", "step failed, will be retried"),
        ("error", "step failed unexpectedly, will be retried"),
        ("info", "step recovered"),
    ]
    assert logs[-1]["failures"] == 4


@in_virtual_time
async def test_a_wakeup_ends_the_pause_and_is_not_lost_before_it() -> None:
    step, wakeup = Step(), Wakeup()
    wakeup.set()
    task = asyncio.create_task(run_forever("step", step, every=100, wakeup=wakeup))
    await asyncio.sleep(5)
    assert step.at == [0, 0]
    wakeup.set()
    await asyncio.sleep(5)
    assert step.at == [0, 0, 5]
    task.cancel()


@in_virtual_time
async def test_insisting_waits_out_transient_errors_only() -> None:
    answers: list[Exception | None] = [TransientError("later"), TransientError("later"), None]

    async def step() -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    await retry_until_success("step", step, every=1)
    assert answers == []
    answers.append(TerminalError("never"))
    with pytest.raises(TerminalError):
        await retry_until_success("step", step, every=1)
