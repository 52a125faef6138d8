"""Nodes that answer what little a command asks of a chain."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.unit.evm.rpc_server import Answer, Behaviour, RpcServer, error


def node(
    *,
    balance: int = 10**18,
    code: str = "0x60",
    ahead: int = 0,
    nonce: int = 0,
    said: str = "0x" + "00" * 64,
    base_fee: str | None = "0x7",
    pruned: bool = False,
) -> Behaviour:
    """A node whose contracts all say the same; a `pruned` one has no state but the newest block's."""

    def answer(method: str, params: list[object]) -> Answer:
        named = str(params[0]) if params else ""
        header = {
            "number": named if named.startswith("0x") else "0x64",
            "hash": "0x" + "01" * 32,
            "parentHash": "0x" + "02" * 32,
        }
        if base_fee is not None:
            header["baseFeePerGas"] = base_fee
        if pruned and method == "eth_call" and params[1] != "latest":
            return error(-32000, "missing trie node 0xabc (path ) state 0xdef is not available")
        results: dict[str, Any] = {
            "eth_maxPriorityFeePerGas": "0x1",
            "eth_getBlockByNumber": {**header, "timestamp": hex(int(time.time()) + ahead)},
            "eth_getBalance": hex(balance),
            "eth_getCode": code,
            "eth_getTransactionCount": hex(nonce),
            "eth_getLogs": [],
            "eth_call": said,  # of `receiptsOf` nobody has delivered it, of `tripwire` there is none
        }
        return {"result": results[method]}

    return answer


@contextmanager
def nodes(*behaviours: tuple[int, Behaviour]) -> Iterator[list[str]]:
    """Nodes on real sockets in a thread of their own: the command has an event loop for itself."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers = [RpcServer(behaviour, chain_id=chain_id) for chain_id, behaviour in behaviours]
    try:
        for server in servers:
            asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
        yield [server.url for server in servers]
    finally:
        for server in servers:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
