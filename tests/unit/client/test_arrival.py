"""A message that would expire before it could arrive is refused before anything is paid, naming what is too short for what."""

from __future__ import annotations

import random

import pytest

from bridge.client import Client, RouteRequest, TtlTooShortError
from bridge.client.client import USUAL_GMP_SECONDS, refuse_short_ttl
from bridge.protocol.deployment import FinalityTag
from bridge.protocol.gmps import Gmp
from bridge.protocol.guarantee import LEAST_TTL
from bridge.protocol.message import Kind
from tests.support.simulation import World
from tests.support.simulation.chain import SimulatedChain
from tests.virtual_time import in_virtual_time

ALPHA = 31337
BLOCK_TIME = 12
CONFIRMATIONS = 3


def mined() -> SimulatedChain:
    seconds = iter(range(0, 10_000, BLOCK_TIME))
    chain = SimulatedChain(ALPHA, random.Random(1), now=lambda: float(next(seconds)))
    chain.mine(40)
    return chain


async def asked(ttl: int, kind: Kind = Kind.PLAIN, finality: FinalityTag | None = None) -> None:
    chain = mined()
    deployed = World().deployment.chain(ALPHA)
    source = deployed.model_copy(update={"confirmations": CONFIRMATIONS, "finality": finality, "name": "alpha"})
    request = RouteRequest(destination="beta", recipient="0x", payload=b"", gmps=(Gmp.AXELAR,), ttl=ttl, kind=kind)
    await refuse_short_ttl(chain, source, request)


@pytest.mark.parametrize(("finality", "blocks"), [(None, CONFIRMATIONS), ("safe", 4), ("finalized", 8)])
@in_virtual_time
async def test_ttl_below_finality_and_gmp_time_is_refused(finality: FinalityTag | None, blocks: int) -> None:
    least = blocks * BLOCK_TIME + int(USUAL_GMP_SECONDS)
    await asked(least, finality=finality)
    says = f"a TTL of {least - 1} s .* {blocks * BLOCK_TIME} s, and a GMP usually takes 10 s"
    with pytest.raises(TtlTooShortError, match=says):
        await asked(least - 1, finality=finality)


@pytest.mark.parametrize(
    ("confirmations", "kind", "ttl"),
    [
        (CONFIRMATIONS, Kind.STATE_SYNC, 300),
        (30, Kind.STATE_SYNC, 30 * BLOCK_TIME + 10),
        (30, Kind.HEARTBEAT, LEAST_TTL),  # the next one replaces it
    ],
)
@in_virtual_time
async def test_ttl_of_a_kind_covers_source_finality(confirmations: int, kind: Kind, ttl: int) -> None:
    source = World().deployment.chain(ALPHA).model_copy(update={"confirmations": confirmations, "finality": None})
    request = RouteRequest(destination="beta", recipient="0x", payload=b"", gmps=(Gmp.AXELAR,), ttl=None, kind=kind)
    assert await Client(World().deployment, {ALPHA: mined()})._ttl(source, request) == ttl


@in_virtual_time
async def test_what_never_expires_and_heartbeats_are_not_held_to_that() -> None:
    await asked(0)
    await asked(1, Kind.HEARTBEAT)
