"""Two simulated chains that can reorganise, and the batches that reading them would bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from eth_utils import keccak
from sqlalchemy import Table, select

from bridge.protocol.message import Kind, Message
from indexer.decode.events import events_table
from indexer.decode.logs import raw_logs
from indexer.sources.position import HASH_PREFIX, ChainPosition
from indexer.store import tables
from indexer.store.blocks import BlockRange
from indexer.store.retention import prune
from indexer.store.store import Store
from tests.unit.indexer.logs import ADAPTERS, ALPHA, BETA, EMITTERS, ROUTERS, message, topics_and_data

START = 1_000_000  # Unix seconds, of block 0

Event = tuple[str, dict[str, Any]]


def routed(sent: Message, *, gmps: int = 0b111, retriable: bool = True) -> Event:
    return "MessageRouted", {
        "message_id": sent.id,
        "destination_chain": sent.destination_chain,
        "retriable": retriable,
        "gmps": gmps,
        "envelope": sent.encode(),
    }


def retried(sent: Message, attempt: int, gmps: int = 0b1) -> Event:
    return "MessageRetried", {
        "message_id": sent.id,
        "destination_chain": sent.destination_chain,
        "attempt": attempt,
        "gmps": gmps,
    }


def received(sent: Message, gmp: int, receipts: int = 1, quorum: int | None = None) -> Event:
    return "MessageReceived", {
        "message_id": sent.id,
        "source_chain": sent.source_chain,
        "gmp": gmp,
        "receipts": receipts,
        "quorum": sent.quorum if quorum is None else quorum,
        "payload_hash": keccak(sent.payload),
    }


def executed(sent: Message) -> Event:
    return "MessageExecuted", {
        "message_id": sent.id,
        "source_chain": sent.source_chain,
        "recipient": "0x" + sent.recipient[12:].hex(),
        "payload_hash": keccak(sent.payload),
    }


def failed(sent: Message, reason: bytes = b"no") -> Event:
    return "ExecutionFailed", {"message_id": sent.id, "source_chain": sent.source_chain, "reason": reason}


def deferred(sent: Message) -> Event:
    return "ExecutionDeferred", {
        "message_id": sent.id,
        "source_chain": sent.source_chain,
        "gas_limit": sent.gas_limit,
    }


def expired(sent: Message) -> Event:
    return "MessageExpired", {"message_id": sent.id, "source_chain": sent.source_chain}


def cancelled(sent: Message) -> Event:
    return "MessageCancelled", {
        "message_id": sent.id,
        "source_chain": sent.source_chain,
        "cancellation_id": bytes(31) + b"\x07",
    }


def created(sent: Message) -> Event:
    return "MessageIdCreated", {
        "message_id": sent.id,
        "sender": "0x" + sent.sender[12:].hex(),
        "nonce": sent.nonce,
    }


def unfunded(sent: Message, *, gmps: int = 0b111, retriable: bool = True) -> Event:
    return "MessageUnfunded", routed(sent, gmps=gmps, retriable=retriable)[1]


def late_receipt(sent: Message, gmp: int, state: int = 2) -> Event:
    return "LateReceipt", {
        "message_id": sent.id,
        "source_chain": sent.source_chain,
        "gmp": gmp,
        "state": state,
    }


def cancellation_requested(sent: Message) -> Event:
    return "CancellationRequested", {"message_id": sent.id, "cancellation_id": bytes(31) + b"\x07"}


def reported(sent: Message, outcome: int) -> Event:
    return "OutcomeReported", {
        "message_id": sent.id,
        "destination_chain": sent.destination_chain,
        "outcome": outcome,
    }


def contradicted(sent: Message, first: int, second: int) -> Event:
    return "OutcomeContradicted", {
        "message_id": sent.id,
        "destination_chain": sent.destination_chain,
        "first": first,
        "second": second,
    }


def lane_pause_set(chain: int, until: int) -> Event:
    return "LanePauseSet", {"chain": chain, "until": until}


def gmp_pause_set(gmp: int, until: int) -> Event:
    return "GmpPauseSet", {"gmp": gmp, "until": until}


def policy_set(recipient: bytes, chain: int, gmps: int, quorum: int = 1) -> Event:
    return "PolicySet", {"recipient": "0x" + recipient[12:].hex(), "chain": chain, "quorum": quorum, "gmps": gmps}


def floor_set(chain: int, floor: int) -> Event:
    return "FloorSet", {"chain": chain, "floor": floor}


def absorbed(sent: Message, gmp: int, **changes: Any) -> Event:
    return "DuplicateAbsorbed", {"message_id": sent.id, "gmp": gmp} | changes


def adapter_added(gmp: int, adapter: bytes) -> Event:
    return "AdapterAdded", {"gmp": gmp, "adapter": "0x" + adapter.hex()}


def adapter_revoked(gmp: int, adapter: bytes) -> Event:
    return "AdapterRevoked", {"gmp": gmp, "adapter": "0x" + adapter.hex(), "epoch": 1}


def adapter_replaced(gmp: int, adapter: bytes, previous: bytes) -> Event:
    return "AdapterReplaced", {"gmp": gmp, "adapter": "0x" + adapter.hex(), "previous": "0x" + previous.hex()}


@dataclass(frozen=True, slots=True)
class Block:
    hash: bytes
    time: int
    events: tuple[Event, ...]


@dataclass(slots=True)
class SimulatedChain:
    chain_id: int
    blocks: list[Block] = field(default_factory=list)
    branch: int = 0
    transactions: dict[bytes, str] = field(default_factory=dict)  # by message id, hashes other than the usual ones
    is_batched: bool = False  # all events of a block are of one transaction

    def __post_init__(self) -> None:
        self.mine()

    @property
    def head(self) -> int:
        return len(self.blocks) - 1

    def mine(self, *events: Event, time: int | None = None) -> None:
        number = len(self.blocks)
        parent = self.blocks[-1].hash if self.blocks else b""
        self.blocks.append(
            Block(
                hash=keccak(parent + repr((self.chain_id, number, self.branch)).encode()),
                time=START + number if time is None else time,
                events=events,
            )
        )

    def reorganise(self, depth: int, *replacements: Sequence[Event]) -> None:
        """Takes the newest `depth` blocks back, and mines others."""
        if depth:
            self.branch += 1
        del self.blocks[max(1, len(self.blocks) - depth) :]
        for events in replacements:
            self.mine(*events)

    def events(self, first: int, last: int) -> pa.Table:
        return events_table(raw_logs(self.logs(first, last)), EMITTERS[self.chain_id])

    def logs(self, first: int, last: int) -> list[dict[str, Any]]:
        """As `eth_getLogs` answers them."""
        logs: list[dict[str, Any]] = []
        for number in range(first, last + 1):
            block = self.blocks[number].hash.hex()
            for index, (name, values) in enumerate(self.blocks[number].events):
                topics, data = topics_and_data(name, **values)
                usual = ADAPTERS if name == "DuplicateAbsorbed" else ROUTERS
                address = values.get("emitter", usual[self.chain_id])
                logs.append(
                    {
                        "address": "0x" + address.hex(),
                        "topics": ["0x" + topic.hex() for topic in topics],
                        "data": "0x" + data.hex(),
                        "blockNumber": hex(number),
                        "blockHash": "0x" + block,
                        "blockTimestamp": hex(self.blocks[number].time),
                        "transactionHash": self.transactions.get(
                            values.get("message_id", b""),
                            "0x" + keccak((block if self.is_batched else repr((name, values))).encode()).hex(),
                        ),
                        "logIndex": hex(index),
                    }
                )
        return logs

    def range(self, first: int, last: int | None = None, *, final: int = -1) -> BlockRange:
        last = self.head if last is None else last
        window = self.blocks[max(0, last - 63) : last + 1]
        return BlockRange(
            first=first,
            parent_hash=self.blocks[first - 1].hash[:HASH_PREFIX] if first else None,
            position=ChainPosition(
                block=last,
                hashes=b"".join(block.hash[:HASH_PREFIX] for block in window),
                final_block=final,
                final_hash=self.blocks[final].hash if final >= 0 else b"",
            ),
            block_hash=self.blocks[last].hash,
            block_time=self.blocks[last].time,
            head_block=self.head,
        )


def apply(store: Store, chain: SimulatedChain, first: int = 0, last: int | None = None, *, final: int = -1) -> None:
    """Tells the store about blocks `first`…`last`."""
    range_ = chain.range(first, last, final=final)
    store.apply(chain.events(first, range_.position.block), {chain.chain_id: range_})


def forget_ended(store: Store, before: int) -> int:
    """The store prunes what ended and the lake has, whether or not the lake's tables have it."""
    chain = tables.chains.c
    with store.engine.connect() as connection:
        noted = connection.execute(select(chain.chain_id, chain.lake_block).where(chain.lake_block.is_not(None))).all()
    return prune(store.engine, before, {row.chain_id: row.lake_block for row in noted})


def contents(store: Store, *chosen: Table) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in tables, by default in those that follow from events alone."""
    chosen = chosen or (tables.events, tables.messages, tables.receipts)
    with store.engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))]
            for table in chosen
        }


def new_world() -> tuple[SimulatedChain, SimulatedChain]:
    return SimulatedChain(ALPHA), SimulatedChain(BETA)


def sent_message(nonce: int = 1, **changes: Any) -> Message:
    return message(nonce, **({"sent_at": START} | changes))


def report_of(sent: Message) -> Message:
    """What its destination sends to say how it ended."""
    return sent_message(
        source_chain=BETA,
        source_router=sent.destination_router,
        destination_chain=ALPHA,
        destination_router=sent.source_router,
        quorum=1,
        kind=Kind.REPORT,
        replaces=sent.id,
    )
