"""A devnet of its own, for a test or a measurement."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
