"""The loop of tests that live through hours at once."""

import asyncio

import pytest

from tests.support.simulation import StandstillError, run_in_virtual_time


def test_what_never_pauses_fails_its_test_which_would_hang_else() -> None:
    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(StandstillError):
        run_in_virtual_time(spin())


def test_work_of_many_rounds_ends_if_time_goes_on_between_them() -> None:
    async def work() -> float:
        for _ in range(300):
            for _ in range(100):
                await asyncio.sleep(0)
            await asyncio.sleep(1)
        return asyncio.get_running_loop().time()

    assert run_in_virtual_time(work()) == 300
