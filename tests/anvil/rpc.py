"""Talking to anvil past the bridge: ports for it, and its own methods."""

from __future__ import annotations

import os
import random
import socket
import ssl
from contextlib import ExitStack
from typing import Any

import httpx

from tests.waiting import PATIENCE

_NO_CERTIFICATES = ssl.SSLContext(
    ssl.PROTOCOL_TLS_CLIENT
)  # anvil has none, and httpx takes 20 ms to load the machine's

_FIRST_PORT, _PORT_RANGES, _PORTS_OF_A_RANGE = 20_000, 6, 2_000


def rpc(url: str, method: str, *params: Any) -> Any:
    """The result of a request; an error fails the test."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
    answer = httpx.post(url, json=request, timeout=PATIENCE, trust_env=False, verify=_NO_CERTIFICATES).json()
    assert "error" not in answer, answer
    return answer["result"]


def mine(url: str, blocks: int = 1) -> None:
    """Puts empty blocks on a chain."""
    rpc(url, "anvil_mine", hex(blocks))


def free_ports(count: int) -> list[int]:
    """Ports in a row that nobody listens on; below the system's own, and each test process has a range of its own."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    start = _FIRST_PORT + worker % _PORT_RANGES * _PORTS_OF_A_RANGE
    while True:
        first = random.randrange(start, start + _PORTS_OF_A_RANGE - count)
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    probe = stack.enter_context(socket.socket())
                    probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return list(range(first, first + count))
