"""Reads the GMPs that a router has paused."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from bridge.evm.routers import RouterReader
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import PausedThing
from bridge.protocol.ports import Chain
from bridge.protocol.times import utc


@dataclass(frozen=True, slots=True)
class GmpPause:
    """A pause of a GMP on a router. The router neither sends nor receives over the GMP, and ignores its receipts."""

    gmp: Gmp
    chain_id: int
    until: int  # Unix seconds

    @property
    def text(self) -> str:
        """Describes the pause, without the chain's name."""
        return f"{self.gmp.title} is paused until {utc(self.until)} UTC"


async def gmp_pauses(here: ChainDeployment, chain: Chain) -> list[GmpPause]:
    """Reads the pauses of GMPs on one chain, in order of GMP.

    Raises:
        UnansweredError: no endpoint responds.
    """
    router, gmps = RouterReader(chain, here.router), sorted(here.gmp_numbers)
    asked = asyncio.gather(*(router.paused_until(PausedThing.GMP, int(gmp)) for gmp in gmps))
    head, ends = await asyncio.gather(chain.head(), asked)
    now = max(time.time(), head.timestamp)  # a chain's clock may be ahead, or stand still without blocks
    return [GmpPause(gmp, here.chain_id, until) for gmp, until in zip(gmps, ends, strict=True) if until > now]
