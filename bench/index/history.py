"""Made-up histories of messages: the events of each in a lake, and its logs as an endpoint answers them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from eth_abi.abi import encode

from bridge.protocol.events import SIGNATURES
from bridge.protocol.message import Kind, Message
from indexer.lake.compaction import BUCKETS, by_message, write_bucket
from indexer.lake.lake import FinalBlocks, Lake
from indexer.model import schemas

SOURCE: Final = 31337
DESTINATION: Final = 31338
ROUTER: Final = b"\xa1" * 20
MESSAGES_OF_A_BLOCK: Final = 20
POSITIONS_OF_A_MESSAGE: Final = 5
LOGS_OF_A_BLOCK: Final = 96  # five of each message, but four of each fifth, which is not executed
_AT_ONCE: Final = 100_000  # messages made in memory
_BY_NAME: Final = {signature.name: signature for signature in SIGNATURES.values()}
_ID: Final = "ab" * 32
"""Stands for the id in the texts that logs are made from; in no other place of them."""


def fill_lake(folder: Path, messages: int, first: int = 0, late: np.ndarray | None = None) -> Lake:
    """A lake as compaction leaves it, with 48 events of each ten messages.

    Args:
        folder: of the lake.
        messages: how many it is to have.
        first: how many it has already.
        late: ids of some of these that another GMP delivers now, shape (messages, 32).
    """
    lake = Lake(folder)
    random = np.random.default_rng(first + 1)
    manifests = []
    for bucket in range(BUCKETS):
        numbers = np.arange(first + bucket, messages, BUCKETS)
        for start in range(0, len(numbers), _AT_ONCE):
            chosen = numbers[start : start + _AT_ONCE]
            ids = random.integers(0, 256, (len(chosen), 32), np.uint8)
            ids[:, 0] = bucket * 256 // BUCKETS + ids[:, 0] % (256 // BUCKETS)
            manifests += list(write_bucket(lake.folder, bucket, by_message(_events(ids, chosen))))
    if late is not None:
        receipts = _rows("MessageReceived", 4, late, first + np.arange(len(late)))
        for bucket in range(BUCKETS):
            chosen_ = receipts.filter(pa.array(late[:, 0].astype(int) * BUCKETS // 256 == bucket))
            manifests += list(write_bucket(lake.folder, bucket, by_message(chosen_))) if len(chosen_) else []
    blocks = FinalBlocks(first // MESSAGES_OF_A_BLOCK, (messages - 1) // MESSAGES_OF_A_BLOCK, bytes(32))
    lake.commit(manifests, dict.fromkeys((SOURCE, DESTINATION), blocks))
    return lake


def _events(ids: np.ndarray, numbers: np.ndarray) -> pa.Table:
    executed = numbers % 5 != 0
    parts = [
        _rows("MessageIdCreated", 0, ids, numbers),
        _rows("MessageRouted", 1, ids, numbers),
        _rows("MessageReceived", 2, ids, numbers),
        _rows("MessageReceived", 3, ids, numbers),
        _rows("MessageExecuted", 4, ids[executed], numbers[executed]),
    ]
    return pa.concat_tables(parts).combine_chunks()


def _rows(name: str, position: int, ids: np.ndarray, numbers: np.ndarray) -> pa.Table:
    count = len(numbers)
    words = pa.FixedSizeBinaryArray.from_buffers(pa.binary(32), count, [None, pa.py_buffer(ids.tobytes())])
    on_source = position < 2
    columns: dict[str, pa.Array] = {
        "chain_id": pa.array(np.full(count, SOURCE if on_source else DESTINATION)),
        "block_number": pa.array(numbers // MESSAGES_OF_A_BLOCK),
        "log_index": pa.array(numbers % MESSAGES_OF_A_BLOCK * 5 + position),
        "block_hash": words,
        "block_time": pa.array(1_700_000_000 + numbers // MESSAGES_OF_A_BLOCK + 30 * (not on_source)),
        "transaction_hash": words,
        "address": pa.array([ROUTER] * count, pa.binary()),
        "event": pa.array([name] * count),
        "message_id": words,
        "source_chain": pa.array(np.full(count, SOURCE)),
        "destination_chain": pa.array(np.full(count, DESTINATION)),
        "payload_hash": words,
    }
    if name == "MessageReceived":
        columns |= {"gmp": pa.array(np.full(count, position - 1)), "quorum": pa.array(np.full(count, 2))}
    if name == "MessageRouted":
        columns |= {"gmps": pa.array(np.full(count, 0b11)), "retriable": pa.array(np.ones(count, bool))}
        columns |= {"nonce": pa.array(numbers + 1), "envelope": pa.array([bytes(303)] * count, pa.binary())}
        columns |= dict.fromkeys(("sender", "recipient", "replaces"), words)
        routers = pa.array([ROUTER.rjust(32, b"\0")] * count, pa.binary())
        columns |= dict.fromkeys(("source_router", "destination_router"), routers)
        columns |= {field: pa.array(np.full(count, 2)) for field in ("kind", "quorum", "gas_limit")}
        columns |= {"sent_at": columns["block_time"], "ttl": pa.array(np.full(count, 3_600))}
    return pa.table(
        [
            columns[field.name].cast(field.type) if field.name in columns else pa.nulls(count, field.type)
            for field in schemas.EVENTS
        ],
        schema=schemas.EVENTS,
    )


def id_of_message(number: int) -> str:
    """In hexadecimal; that of its transaction, too, and never zero, which Ponder takes for no transaction."""
    return f"{number + 1:064x}"


def blocks_of_logs(blocks: int, every: int = 1) -> Iterator[bytes]:
    """The logs of one block after another as JSON, without brackets: those of a router that sends to itself.

    Args:
        blocks: how many.
        every: one block of so many has logs.
    """
    templates = _templates()
    for block in range(blocks):
        logs = []
        first = block // every * MESSAGES_OF_A_BLOCK
        for number in range(first, first + MESSAGES_OF_A_BLOCK if block % every == 0 else first):
            for position, template in enumerate(templates[: 4 if number % 5 == 0 else 5]):
                index = number % MESSAGES_OF_A_BLOCK * 5 + position
                logs.append(template % {"id": id_of_message(number), "index": index, "block": block})
        yield ",".join(logs).encode()


def _templates() -> list[str]:
    word = bytes.fromhex(_ID)
    message = Message(
        source_chain=SOURCE,
        source_router=ROUTER.rjust(32, b"\0"),
        sender=b"\x11" * 32,
        nonce=1,
        destination_chain=DESTINATION,
        destination_router=ROUTER.rjust(32, b"\0"),
        recipient=b"\x22" * 32,
        gas_limit=200_000,
        sent_at=1_700_000_000,
        ttl=0,
        kind=Kind.PLAIN,
        quorum=2,
        replaces=bytes(32),
        payload=bytes(64),
    )
    envelope = message.encode().replace(message.id, word)
    lane = {"message_id": word, "source_chain": SOURCE, "destination_chain": DESTINATION}
    receipt = lane | {"receipts": 1, "quorum": 2, "payload_hash": b"\x33" * 32}
    address = "0x" + "44" * 20
    return [
        _template("MessageIdCreated", lane | {"sender": address, "nonce": 1}),
        _template("MessageRouted", lane | {"retriable": True, "gmps": 3, "envelope": envelope}),
        _template("MessageReceived", receipt | {"gmp": 1}),
        _template("MessageReceived", receipt | {"gmp": 2}),
        _template("MessageExecuted", receipt | {"recipient": address}),
    ]


def _template(name: str, values: dict[str, object]) -> str:
    """The text of a log, with places for the message's id, the block and the index."""
    signature = _BY_NAME[name]
    topics = [signature.topic, *(encode([kind], [values[field]]) for field, kind in signature.indexed)]
    data = encode([kind for _, kind in signature.unindexed], [values[field] for field, _ in signature.unindexed])
    words = ",".join(f'"0x{topic.hex()}"' for topic in topics)
    text = (
        f'{{"address":"0x{ROUTER.hex()}","topics":[{words}],"data":"0x{data.hex()}","blockHash":"0x%(block)064x",'
        '"blockNumber":"0x%(block)x","blockTimestamp":"0x%(block)x","transactionHash":"0x%(id)s",'
        '"transactionIndex":"0x0","logIndex":"0x%(index)x","removed":false}'
    )
    return text.replace(_ID, "%(id)s")
