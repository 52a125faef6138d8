"""(e) The cost of an idle index: HTTP requests per chain, CPU and memory, on a devnet with empty blocks."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil

from bridge import devnet as devnets
from tests.anvil.fault_proxy import FaultProxy
from tests.anvil.rpc import free_ports, rpc

_BLOCK_TIME: Final = 2  # seconds
_CATCHING_UP: Final = 40  # seconds, in which it also learns the block time
_SECONDS: Final = 60


def idle(folder: Path) -> dict[str, float]:
    """Returns figures of `waybill index run` with a public network's settings: `idle_requests_per_block` and others."""
    (port,) = free_ports(2)[:1]
    devnet = asyncio.run(devnets.up(home=folder, block_time=_BLOCK_TIME, first_port=port))
    try:
        return asyncio.run(_count([chain.rpc_urls[0] for chain in devnet.deployment.chains], folder))
    finally:
        devnets.down(home=folder)


async def _count(urls: list[str], folder: Path) -> dict[str, float]:
    proxies = [FaultProxy(url, 0, 0.0) for url in urls]
    async with proxies[0].serving() as alpha, proxies[1].serving() as beta:
        settings = (
            f'index.poll_interval = 1.0\nchains.alpha.rpc_urls = ["{alpha}"]\nchains.beta.rpc_urls = ["{beta}"]\n'
        )
        (folder / "waybill.toml").write_text(settings)
        index = psutil.Popen(
            [sys.executable, "-m", "bridge.cli", "index", "run"],
            env={**os.environ, "WAYBILL_HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            await asyncio.sleep(_CATCHING_UP)
            before = _figures(proxies, urls, index)
            await asyncio.sleep(_SECONDS)
            after = _figures(proxies, urls, index)
        finally:
            index.send_signal(signal.SIGINT)
            await asyncio.to_thread(index.wait, 60)
    requests, blocks, cpu = (now - then for now, then in zip(after[:3], before[:3], strict=True))
    return {
        "idle_requests_per_block": round(requests / blocks, 2),
        "idle_requests_per_s": round(requests / _SECONDS / len(urls), 2),
        "idle_requests_per_hour_and_chain": round(requests / _SECONDS / len(urls) * 3600),
        "idle_cores": round(cpu / _SECONDS, 3),
        "idle_mb": round(after[3] / 2**20),
    }


def _figures(proxies: list[FaultProxy], urls: list[str], index: psutil.Process) -> tuple[float, float, float, float]:
    """Returns HTTP requests, blocks, CPU seconds and bytes of memory of all chains and processes so far."""
    processes = [index, *index.children(recursive=True)]
    seconds = sum(times.user + times.system for times in (one.cpu_times() for one in processes))
    blocks = sum(int(rpc(url, "eth_blockNumber"), 16) for url in urls)
    return sum(proxy.requests for proxy in proxies), blocks, seconds, sum(one.memory_info().rss for one in processes)
