"""What transactions cost, as a real chain's own receipts say."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from indexer.decode.events import Emitters
from indexer.model.settings import SourceLimits
from indexer.sources.chain import ChainConfig, ChainReader
from tests.anvil.rpc import free_ports, rpc
from tests.spark.chain import TOOLS
from tests.waiting import eventually

CHAIN = 31337


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (port,) = free_ports(1)
    found = f"http://127.0.0.1:{port}"
    options = ["--port", str(port), "--chain-id", str(CHAIN), "--silent", "--cache-path", str(tmp_path / "states")]
    anvil = subprocess.Popen([TOOLS / "anvil", *options])
    try:
        eventually(lambda: _answers(found))
        yield found
    finally:
        anvil.kill()
        anvil.wait()


def _answers(url: str) -> bool:
    try:
        return rpc(url, "eth_chainId") is not None
    except httpx.TransportError:
        return False


def test_costs_are_gas_price_and_value(url: str) -> None:
    sender, recipient = rpc(url, "eth_accounts")[:2]
    call = {"from": sender, "to": recipient, "gas": hex(30_000)}
    sent = [rpc(url, "eth_sendTransaction", call | {"value": hex(value)}) for value in (0, 7 * 10**18)]
    rpc(url, "anvil_mine", "0x1")
    receipts = [rpc(url, "eth_getTransactionReceipt", transaction) for transaction in sent]
    emitters = Emitters(chain_id=CHAIN, router=bytes(20), adapters=frozenset())
    chain = ChainConfig(chain_id=CHAIN, urls=(url,), start_block=0, emitters=emitters)
    hashes = [bytes.fromhex(transaction[2:]) for transaction in sent]
    with ChainReader(chain, SourceLimits()) as reader:
        costs = reader.costs([*hashes, b"\x01" * 32])
    assert costs.keys() == set(hashes)
    assert [costs[one].value for one in hashes] == [0, 7 * 10**18]
    assert [costs[one].gas for one in hashes] == [21_000, 21_000]
    assert [costs[one].gas_paid for one in hashes] == [
        int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16) for receipt in receipts
    ]
