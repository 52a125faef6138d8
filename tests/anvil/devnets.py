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
from tests.anvil.rpc import free_ports


@contextmanager
def new_devnet(home: Path, keep_states: int | None = None, block_time: int = 0) -> Iterator[Devnet]:
    """Two chains. With a block time of 0 they make a block for each transaction, else one in so many seconds."""
    (first_port,) = free_ports(2)[:1]
    try:
        yield asyncio.run(devnets.up(home=home, block_time=block_time, first_port=first_port, keep_states=keep_states))
    finally:
        devnets.down(home=home)


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
