"""How many HTTP requests an idle relayer makes to each chain: it should be one for each block, and no more."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridge import devnet as devnets
from bridge.devnet import Devnet
from bridge.devnet.accounts import RELAYER_KEY
from bridge.devnet.gmps import devnet_attesters
from bridge.service.relayer_service import open_relayer
from bridge.settings import Settings
from tests.anvil.fault_proxy import FaultProxy
from tests.anvil.rpc import free_ports, rpc

BLOCK_TIME: Final = 2  # seconds
WARM_UP: Final = 10  # seconds, in which the relayer learns it
SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Idle:
    """Of one chain, for an hour."""

    requests: float  # HTTP requests
    blocks: float
    cpu: float  # of one core, for both chains


def measure(folder: Path) -> Idle:
    """Counts what the relayer with its defaults asks while nothing happens, on a devnet of its own."""
    (port,) = free_ports(2)[:1]
    devnet = asyncio.run(devnets.up(home=folder, block_time=BLOCK_TIME, first_port=port))
    try:
        return asyncio.run(_count(devnet, folder))
    finally:
        devnets.down(home=folder)


async def _count(devnet: Devnet, folder: Path) -> Idle:
    alpha, *others = devnet.deployment.chains
    proxy = FaultProxy(alpha.rpc_urls[0], 0, 0.0)
    settings = Settings.load(relayer_key=RELAYER_KEY, store=f"sqlite:///{folder}/idle.db", payments={"required": False})
    async with proxy.serving() as url:
        through = (alpha.model_copy(update={"rpc_urls": (url,)}), *others)
        async with open_relayer(
            devnet.deployment.model_copy(update={"chains": through}), settings, devnet_attesters
        ) as bridge:
            task = asyncio.create_task(bridge.run())
            await asyncio.sleep(WARM_UP)
            before, blocks, cpu = proxy.requests, _height(alpha.rpc_urls[0]), time.process_time()
            await asyncio.sleep(SECONDS)
            requests, grown = proxy.requests - before, _height(alpha.rpc_urls[0]) - blocks
            used = time.process_time() - cpu
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    hours = SECONDS / 3600
    return Idle(requests=requests / hours, blocks=grown / hours, cpu=used / SECONDS)


def _height(url: str) -> int:
    return int(rpc(url, "eth_blockNumber"), 16)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as name:
        found = measure(Path(name))
    print(
        f"{found.requests:,.0f} HTTP requests an hour and chain, {found.blocks:,.0f} blocks, {found.cpu:.1%} of a core"
    )
