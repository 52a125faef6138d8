"""A devnet of its own, for a test or a measurement."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from bridge import devnet as devnets
from bridge.devnet import Devnet
from tests.anvil.rpc import free_ports, rpc


@contextmanager
def new_devnet(home: Path, keep_states: int | None = None, block_time: int = 0) -> Iterator[Devnet]:
    """Two chains. With a block time of 0 they make a block for each transaction, else one per `block_time` seconds."""
    (first_port,) = free_ports(2)[:1]
    try:
        yield asyncio.run(devnets.up(home=home, block_time=block_time, first_port=first_port, keep_states=keep_states))
    finally:
        devnets.down(home=home)


@contextmanager
def undone(devnet: Devnet) -> Iterator[None]:
    """Takes the chains back to where they are now when it ends.

    A snapshot does not hold the next block's base fee, so that what one test drove up the next one would pay.
    """
    snapshots = {chain.url: rpc(chain.url, "evm_snapshot") for chain in devnet.chains}
    fees = {chain.url: next_base_fee(chain.url) for chain in devnet.chains}
    yield
    for url, snapshot in snapshots.items():
        assert rpc(url, "evm_revert", snapshot)
        rpc(url, "anvil_setNextBlockBaseFeePerGas", hex(fees[url]))


def next_base_fee(url: str) -> int:
    """In wei."""
    return int(rpc(url, "eth_feeHistory", "0x1", "latest", [])["baseFeePerGas"][-1], 16)


@contextmanager
def silent(pid: int) -> Iterator[None]:
    """Stops a chain's process: meanwhile it takes connections, and answers nothing."""
    chain = psutil.Process(pid)
    chain.suspend()
    try:
        while not _has_stopped(chain):
            time.sleep(0.01)
        yield
    finally:
        if chain.is_running():
            chain.resume()


def _has_stopped(process: psutil.Process) -> bool:
    """Whether all its threads have: they stop one by one, and one that still runs answers."""
    stats = [Path(f"/proc/{process.pid}/task/{thread.id}/stat").read_text() for thread in process.threads()]
    return all(stat.rpartition(") ")[2].startswith("T") for stat in stats)
