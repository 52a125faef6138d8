"""A tripwire at work on a devnet, for a test or a measurement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from bridge.devnet.accounts import TRIPWIRE_KEY
from bridge.protocol.deployment import Deployment
from bridge.service.tripwire_service import open_tripwire
from bridge.settings import Settings
from bridge.tripwire.tripwire import Tripwire

_PATIENCE: Final = 60.0  # seconds until it has read all chains


def tripwire_settings(**changes: Any) -> Settings:
    """Settings of a tripwire on a devnet."""
    table = {"key": TRIPWIRE_KEY, "agreement": 1, "max_clock_skew": 1, "poll_interval": 0.2}
    return Settings.load(None, {"tripwire": table | changes})


@asynccontextmanager
async def watching(
    deployment: Deployment, file: Path, *, dry_run: bool = False, **changes: Any
) -> AsyncIterator[Tripwire]:
    """A tripwire as `waybill tripwire run` puts it together, once it has read all chains.

    Args:
        deployment: the network.
        file: its memory.
        dry_run: whether it pauses nothing.
        changes: to its settings.
    """
    async with open_tripwire(deployment, tripwire_settings(**changes), file, is_dry_run=dry_run) as tripwire:
        task = asyncio.create_task(tripwire.run())
        try:
            async with asyncio.timeout(_PATIENCE):
                while len(tripwire.read_at) < len(deployment.chains):  # it tells nobody
                    await asyncio.sleep(0.1)
            yield tripwire
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
