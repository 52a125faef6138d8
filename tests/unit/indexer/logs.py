"""Logs of Waybill's events, made by `eth_abi`, for tests of the index."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eth_abi.abi import encode
from eth_utils import keccak

from bridge.protocol.events import SIGNATURES
from bridge.protocol.message import Kind, Message
from indexer.decode.events import Emitters

ALPHA = 31337
BETA = 31338
ROUTERS = {ALPHA: b"\xa1" * 20, BETA: b"\xb1" * 20}
ADAPTERS = {ALPHA: b"\xa2" * 20, BETA: b"\xb2" * 20}
EMITTERS = {
    chain: Emitters(chain_id=chain, router=ROUTERS[chain], adapters=frozenset({ADAPTERS[chain]})) for chain in ROUTERS
}
SIGNATURE_OF = {signature.name: signature for signature in SIGNATURES.values()}


def message(nonce: int = 1, **changes: Any) -> Message:
    fields: dict[str, Any] = {
        "source_chain": ALPHA,
        "source_router": ROUTERS[ALPHA].rjust(32, b"\0"),
        "sender": (b"\x11" * 20).rjust(32, b"\0"),
        "nonce": nonce,
        "destination_chain": BETA,
        "destination_router": ROUTERS[BETA].rjust(32, b"\0"),
        "recipient": (b"\x22" * 20).rjust(32, b"\0"),
        "gas_limit": 100_000,
        "sent_at": 1_700_000_000,
        "ttl": 0,
        "kind": Kind.PLAIN,
        "quorum": 2,
        "replaces": bytes(32),
        "payload": b"payload %d" % nonce,
    }
    return Message(**(fields | changes))


def topics_and_data(event: str, **values: Any) -> tuple[list[bytes], bytes]:
    """The log of one event; `values` by the names of the event's parameters in snake case."""
    signature = SIGNATURE_OF[event]
    topics = [signature.topic, *(encode([kind], [values[name]]) for name, kind in signature.indexed)]
    return topics, encode([kind for _, kind in signature.unindexed], [values[name] for name, _ in signature.unindexed])


@dataclass(slots=True)
class LogBook:
    """Logs as `eth_getLogs` answers them; block n has hash keccak(chain, n, branch) and time 1,000,000 + n."""

    chain: int = ALPHA
    branch: str = ""
    logs: list[dict[str, Any]] = field(default_factory=list)

    def block_hash(self, number: int) -> bytes:
        return keccak(text=f"{self.chain} {number} {self.branch}")

    def add(
        self, block: int, topics: list[bytes], data: bytes, *, address: bytes | None = None, timestamp: bool = True
    ) -> None:
        log = {
            "address": "0x" + (address or ROUTERS[self.chain]).hex(),
            "topics": ["0x" + topic.hex() for topic in topics],
            "data": "0x" + data.hex(),
            "blockNumber": hex(block),
            "blockHash": "0x" + self.block_hash(block).hex(),
            "transactionHash": "0x" + keccak(text=f"tx {self.chain} {block} {len(self.logs)}").hex(),
            "transactionIndex": "0x0",
            "logIndex": hex(len(self.logs)),
            "removed": False,
        }
        if timestamp:
            log["blockTimestamp"] = hex(1_000_000 + block)
        self.logs.append(log)

    def event(self, block: int, event: str, **values: Any) -> None:
        address = ADAPTERS[self.chain] if event == "DuplicateAbsorbed" else ROUTERS[self.chain]
        self.add(block, *topics_and_data(event, **values), address=address)
