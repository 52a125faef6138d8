"""A real anvil chain with two contracts that emit whatever a test wants: one plays the router, one an adapter."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from eth_abi.abi import encode
from eth_utils import keccak

from bridge.protocol.deployment import ChainDeployment, Deployment
from tests.anvil.rpc import free_ports

TOOLS = Path(__file__).parents[2] / "build" / "tools" / "bin"
_SELECTOR = keccak(text="emitLogs((bytes32[],bytes)[])")[:4]
_GAS = 15_000_000  # below the cap that EIP-7825 puts on a transaction

Log = tuple[list[bytes], bytes]


@cache
def emitter_bytecode() -> str:
    source = Path(__file__).with_name("LogEmitter.sol")
    request = {
        "language": "Solidity",
        "sources": {source.name: {"content": source.read_text()}},
        "settings": {"outputSelection": {"*": {"*": ["evm.bytecode.object"]}}, "evmVersion": "cancun"},
    }
    answer = subprocess.run(
        [TOOLS / "solc", "--standard-json"], input=json.dumps(request), capture_output=True, text=True, check=True
    )
    output = json.loads(answer.stdout)
    assert "contracts" in output, output["errors"]
    bytecode: str = output["contracts"][source.name]["LogEmitter"]["evm"]["bytecode"]["object"]
    return "0x" + bytecode


class AnvilChain:
    """Talks to one anvil."""

    def __init__(self, chain_id: int, port: int, process: subprocess.Popen[bytes]) -> None:
        self.chain_id = chain_id
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(timeout=30)
        self._wait_until_up()
        self.account = self.rpc("eth_accounts")[0]
        self.router = self._deploy()
        self.adapter = self._deploy()

    def rpc(self, method: str, *params: Any) -> Any:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        answer = self.http.post(self.url, json=request).json()
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def emit(self, *logs: Log, by_adapter: bool = False) -> str:
        """Emits logs in one transaction, in a block of its own."""
        data = _SELECTOR + encode(["(bytes32[],bytes)[]"], [list(logs)])
        call = {"from": self.account, "to": self.adapter if by_adapter else self.router, "data": "0x" + data.hex()}
        transaction: str = self.rpc("eth_sendTransaction", call | {"gas": hex(_GAS)})
        self._receipt(transaction)
        return transaction

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Takes requests and answers none."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def mine(self, blocks: int = 1) -> None:
        self.rpc("anvil_mine", hex(blocks))

    def let_pass(self, seconds: int) -> None:
        """A new block that many seconds later."""
        self.rpc("evm_increaseTime", seconds)
        self.rpc("evm_mine")

    def head(self) -> dict[str, Any]:
        block: dict[str, Any] = self.rpc("eth_getBlockByNumber", "latest", False)
        return block

    def time(self) -> int:
        return int(self.head()["timestamp"], 16)

    def log_places(self) -> set[tuple[int, int, bytes, bytes]]:
        """What the chain itself has now: block, log index, block hash, data, of both contracts' logs."""
        query = {"fromBlock": "0x0", "toBlock": "latest", "address": [self.router, self.adapter]}
        return {
            (
                int(log["blockNumber"], 16),
                int(log["logIndex"], 16),
                bytes.fromhex(log["blockHash"][2:]),
                bytes.fromhex(log["transactionHash"][2:]),
            )
            for log in self.rpc("eth_getLogs", query)
        }

    def deployment(self, name: str, url: str | None = None) -> ChainDeployment:
        return ChainDeployment.model_validate(
            {
                "chainId": self.chain_id,
                "name": name,
                "rpcUrls": [url or self.url],
                "startBlock": 1,
                "confirmations": 1,
                "router": self.router,
                "adapters": {"hyperlane": self.adapter},
                "gmps": {
                    "hyperlane": {
                        "domain": self.chain_id,
                        "mailbox": self.adapter,
                        "merkleTreeHook": self.adapter,
                    }
                },
            }
        )

    def _deploy(self) -> str:
        transaction = self.rpc(
            "eth_sendTransaction", {"from": self.account, "data": emitter_bytecode(), "gas": hex(_GAS)}
        )
        address: str = self._receipt(transaction)["contractAddress"]
        return address

    def _receipt(self, transaction: str) -> dict[str, Any]:
        """Anvil mines at once, but answers before it has."""
        for _ in range(500):
            receipt: dict[str, Any] | None = self.rpc("eth_getTransactionReceipt", transaction)
            if receipt is not None:
                assert int(receipt["status"], 16) == 1, receipt
                return receipt
            time.sleep(0.01)
        raise AssertionError(f"{transaction} was not mined")

    def _wait_until_up(self) -> None:
        for _ in range(200):
            try:
                self.rpc("eth_chainId")
            except httpx.TransportError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError(f"anvil did not answer at {self.url}")


@contextmanager
def anvil_chain(chain_id: int) -> Iterator[AnvilChain]:
    (port,) = free_ports(1)
    command = [
        str(TOOLS / "anvil"),
        "--port",
        str(port),
        "--chain-id",
        str(chain_id),
        "--silent",
        "--gas-limit",
        "100000000",
        "--prune-history",  # no states on disk, from which a reorg would bring back accounts without their code
        "500",
    ]
    process = subprocess.Popen(command)
    try:
        chain = AnvilChain(chain_id, port, process)
        try:
            yield chain
        finally:
            chain.http.close()
    finally:
        process.kill()
        process.wait()


def network(*chains: ChainDeployment) -> Deployment:
    return Deployment(version=1, network="test", chains=chains)
