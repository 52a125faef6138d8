"""Every column of the index's events, beside what web3.py reads from the same chain."""

from __future__ import annotations

import random
import re
from dataclasses import asdict
from typing import Any, Final

import pytest
from eth_utils import keccak
from web3 import HTTPProvider, Web3

from bridge.protocol.events import load_abi
from bridge.protocol.message import Kind, decode_envelope
from indexer.model import schemas
from indexer.model.settings import SourceLimits
from indexer.sources.chain import ChainReader, chain_config
from tests.spark.chain import AnvilChain, Log, anvil_chain
from tests.unit.indexer.logs import ALPHA, BETA, SIGNATURE_OF, message, topics_and_data

pytestmark = pytest.mark.long

OF_EACH: Final = 5
RENAMED: Final = {"state": "outcome", "first": "outcome", "second": "second_outcome", "floor": "quorum"}
OF_ADAPTERS: Final = "DuplicateAbsorbed"


def value_of(kind: str, name: str, dice: random.Random) -> Any:
    if name == "gmp":
        return dice.randint(1, 16)
    if kind == "bool":
        return dice.random() < 0.5
    if kind == "bytes":
        return dice.randbytes(dice.choice([0, 1, 31, 32, 33, 100]))
    if kind in ("bytes32", "address"):
        raw = dice.randbytes(32 if kind == "bytes32" else 20)
        return raw if kind == "bytes32" else "0x" + raw.hex()
    bits = int(kind.removeprefix("uint"))
    return dice.choice([0, 1, dice.getrandbits(bits), 2**bits - 1]) & (2**63 - 1)


def log_of(name: str, dice: random.Random, router: bytes) -> Log:
    signature = SIGNATURE_OF[name]
    values = {field: value_of(kind, field, dice) for field, kind in (*signature.indexed, *signature.unindexed)}
    if "envelope" in values:
        sent = message(
            dice.getrandbits(60),
            source_router=router.rjust(32, b"\0"),
            sender=dice.randbytes(32),
            gas_limit=dice.getrandbits(64),
            kind=dice.choice(list(Kind)),
            payload=dice.randbytes(dice.randint(0, 80)),
        )
        values |= {"message_id": sent.id, "destination_chain": BETA, "envelope": sent.encode()}
    return topics_and_data(name, **values)


def by_web3(chain: AnvilChain) -> list[dict[str, Any]]:
    """All logs of the chain as rows of `schemas.EVENTS`, decoded by web3.py from the contracts' ABIs."""
    web3 = Web3(HTTPProvider(chain.url))
    contract = web3.eth.contract(abi=[*load_abi("Router"), *load_abi("IAdapter")])
    events = {str(event.topic): event for event in (contract.events[name]() for name in SIGNATURE_OF)}
    rows = []
    for log in web3.eth.get_logs({"fromBlock": 0, "toBlock": "latest"}):
        row: dict[str, Any] = dict.fromkeys(schemas.EVENTS.names)
        row |= {
            "chain_id": web3.eth.chain_id,
            "block_number": log["blockNumber"],
            "log_index": log["logIndex"],
            "block_hash": bytes(log["blockHash"]),
            "block_time": web3.eth.get_block(log["blockNumber"])["timestamp"],
            "transaction_hash": bytes(log["transactionHash"]),
            "address": bytes.fromhex(log["address"][2:]),
        }
        event = events.get(log["topics"][0].to_0x_hex())
        if event is None:
            row |= {"topics": b"".join(bytes(topic) for topic in log["topics"]), "data": bytes(log["data"])}
        else:
            row |= {"event": event.event_name} | arguments(event.process_log(log)["args"])
        rows.append(row)
    return rows


def arguments(decoded: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in decoded.items():
        column = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        word = bytes.fromhex(value[2:]).rjust(32, b"\0") if isinstance(value, str) else value
        found[RENAMED.get(column, column)] = word
    if "envelope" in found:
        sent = decode_envelope(found["envelope"]).message
        found |= {name: value for name, value in asdict(sent).items() if name != "payload"}
        found["payload_hash"] = keccak(sent.payload)
    return found


def test_every_column_of_every_event_is_what_web3_reads_from_a_real_chain() -> None:
    dice = random.Random(20_260_711)
    with anvil_chain(ALPHA) as chain:
        router = bytes.fromhex(chain.router[2:])
        for _ in range(OF_EACH):
            chain.emit(*[log_of(name, dice, router) for name in SIGNATURE_OF if name != OF_ADAPTERS])
            chain.emit(log_of(OF_ADAPTERS, dice, router), by_adapter=True)
        chain.emit(([b"\x77" * 32, b"\x01" * 32], b"of no interest"))
        expected = by_web3(chain)
        with ChainReader(chain_config(chain.deployment("alpha")), SourceLimits()) as reader:
            rows = [row for table in reader.read_final(0, reader.head().number) for row in table.to_pylist()]
    assert len(rows) == len(expected) == OF_EACH * len(SIGNATURE_OF) + 1
    for row, other in zip(rows, expected, strict=True):
        for column, value in other.items():
            assert row[column] == value, (other["event"], column)
