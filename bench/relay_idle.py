"""Counts an idle relayer's HTTP requests to each chain, which should be one per block."""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridge import devnet as devnets
from bridge.devnet import Devnet
from bridge.devnet.accounts import RELAYER_KEY
from bridge.devnet.gmps import devnet_attesters
from bridge.service.relayer_service import open_relayer
from bridge.service.settings import Settings
from tests.anvil.fault_proxy import FaultProxy
from tests.anvil.rpc import free_ports, rpc

_BLOCK_TIME: Final = 2  # seconds
_SECONDS: Final = 60
_WARM_UP: Final = 5  # blocks, in which the relayer learns how often they come


@dataclass(frozen=True, slots=True)
class Idle:
    """Result of a measurement, for one chain."""

    requests: int  # HTTP requests
    blocks: int
    seconds: float
    cpu: float  # of one core, for both chains

    def an_hour(self, count: int) -> float:
        """Returns the count for an hour."""
        return count * 3600 / self.seconds


def idle_relayer(folder: Path, *, block_time: int, seconds: float) -> Idle:
    """Runs an idle relayer with its defaults for some seconds, while empty blocks come every `block_time` seconds."""
    (port,) = free_ports(2)[:1]
    devnet = asyncio.run(devnets.up(home=folder, block_time=block_time, first_port=port))
    try:
        return asyncio.run(_count(devnet, folder, block_time, seconds))
    finally:
        devnets.down(home=folder)


async def _count(devnet: Devnet, folder: Path, block_time: int, seconds: float) -> Idle:
    alpha, *others = devnet.deployment.chains
    proxy = FaultProxy(alpha.rpc_urls[0], 0, 0.0)
    settings = Settings.load(relayer_key=RELAYER_KEY, store=f"sqlite:///{folder}/idle.db")
    async with proxy.serving() as url:
        through = (alpha.model_copy(update={"rpc_urls": (url,)}), *others)
        async with open_relayer(
            devnet.deployment.model_copy(update={"chains": through}), settings, devnet_attesters
        ) as bridge:
            task = asyncio.create_task(bridge.run())
            await asyncio.sleep(_WARM_UP * block_time)
            before, blocks, cpu = proxy.requests, _height(alpha.rpc_urls[0]), time.process_time()
            await asyncio.sleep(seconds)
            requests, grown = proxy.requests - before, _height(alpha.rpc_urls[0]) - blocks
            used = time.process_time() - cpu
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    return Idle(requests=requests, blocks=grown, seconds=seconds, cpu=used / seconds)


def _height(url: str) -> int:
    return int(rpc(url, "eth_blockNumber"), 16)


def measure(folder: Path) -> Idle:
    """Returns an idle relayer's requests to one chain in a minute, on a new devnet."""
    return idle_relayer(folder, block_time=_BLOCK_TIME, seconds=_SECONDS)


def sentence(idle: Idle) -> str:
    """Returns the result as a sentence."""
    return (
        f"{idle.an_hour(idle.requests):,.0f} HTTP requests an hour and chain, {idle.an_hour(idle.blocks):,.0f} blocks (goal: no"
        f" more than one each), {idle.cpu:.1%} of a core"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as name:
        print(sentence(measure(Path(name))))
