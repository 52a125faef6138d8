"""The tripwire in a simulated world: no honest history pauses anything, and every incident that was exported is found again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.protocol.gmps import Gmp
from tests.support.simulation.time import run_in_virtual_time
from tests.support.simulation.tripwire import TripwireWorld, honest_history, play_incident

INCIDENTS = sorted((Path(__file__).parent / "incidents").glob("*.json"))


@pytest.mark.parametrize("seed", range(2))
def test_no_honest_history_pauses_anything_and_a_lie_after_it_does(tmp_path: Path, seed: int) -> None:
    before, after = run_in_virtual_time(honest_history(seed, tmp_path / "tripwire.db", messages=300))
    assert (before.incidents, before.pauses, before.kinds) == ((), 0, ())
    assert before.receipts > 0
    # Whether each fault happens takes more messages: `bench/trust.py` makes sure of it.
    assert all(
        before.faults[name] for name in ("reorg on alpha", "reorg on beta", "creation fell", "lie of an endpoint")
    )
    assert len(after.incidents) == 1


@pytest.mark.parametrize("file", INCIDENTS, ids=lambda file: file.stem)
def test_each_exported_incident_is_found_again(tmp_path: Path, file: Path) -> None:
    seed = json.loads(file.read_text())
    outcome = run_in_virtual_time(play_incident(seed, tmp_path / "tripwire.db"))
    assert sorted(outcome.kinds) == sorted(one["kind"] for one in seed["forgeries"])
    assert outcome.pauses >= len({(one["gmp"], one["destination"]) for one in seed["forgeries"]})


def test_each_way_to_lie_is_found_in_its_own_words(tmp_path: Path) -> None:
    lies = [
        ("RECEIPT_WITHOUT_CREATION", "hyperlane"),
        ("RECEIPT_OVER_UNUSED_GMP", "axelar"),
        ("PAYLOAD_DIFFERS", "wormhole"),
    ]
    seed = {
        "seed": 1,
        "chains": [{"name": "alpha"}, {"name": "beta"}],
        "forgeries": [
            {"kind": kind, "gmp": gmp, "source": "alpha", "destination": "beta", "after": 10 * number}
            for number, (kind, gmp) in enumerate(lies)
        ],
    }
    outcome = run_in_virtual_time(play_incident(seed, tmp_path / "tripwire.db"))
    assert sorted(outcome.kinds) == sorted(kind for kind, _ in lies)
    assert outcome.pauses == len(lies)


def test_a_source_that_is_silent_shields_no_lie_from_another_one(tmp_path: Path) -> None:
    async def history() -> None:
        world = TripwireWorld(3, tmp_path / "tripwire.db", names=("alpha", "beta", "gamma"))
        alpha, beta, gamma = world.chains
        world.start()
        try:
            await world.pass_blocks(5)
            world.chains[alpha].faults.unavailable = 1.0
            world.forge(alpha, beta, Gmp.AXELAR)
            await world.pass_blocks(2)
            world.forge(gamma, beta, Gmp.WORMHOLE)
            assert await world.wait_for(Gmp.WORMHOLE, beta)
            assert not world.chains[beta].state.pauses.get(int(Gmp.AXELAR)), "nothing shows that alpha did not send it"
            world.chains[alpha].faults.unavailable = 0.0
            assert await world.wait_for(Gmp.AXELAR, beta)
        finally:
            await world.kill()

    run_in_virtual_time(history())
