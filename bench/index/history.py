"""Synthetic histories of messages: logs in a lake, or answers of an endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import orjson
from eth_abi.abi import encode

from bridge.protocol.events import SIGNATURES
from bridge.protocol.message import Kind, Message
from indexer.decode.events import Emitters, events_table
from indexer.decode.logs import raw_logs
from indexer.pipeline.bronze import FinalBlocks, Lake

SOURCE: Final = 31337
DESTINATION: Final = 31338
ROUTER: Final = b"\xa1" * 20
MESSAGES_OF_A_BLOCK: Final = 20
LOGS_OF_A_BLOCK: Final = 96  # five of each message, but four of each fifth, which is not executed
POSITIONS_OF_A_MESSAGE: Final = 5
_BLOCKS_AT_ONCE: Final = 5_000
_BY_NAME: Final = {signature.name: signature for signature in SIGNATURES.values()}
_ID: Final = "ab" * 32
"""Stands for the id in the texts that logs are made from; in no other place of them."""


def fill_lake(lake: Lake, first: int, blocks: int) -> None:
    """Adds the raw logs of blocks from `first` to a lake, as a backfill does."""
    emitters = Emitters(chain_id=SOURCE, router=ROUTER, adapters=frozenset())
    for start in range(first, first + blocks, _BLOCKS_AT_ONCE):
        end = min(start + _BLOCKS_AT_ONCE, first + blocks)
        texts = b",".join(blocks_of_logs(end, first=start))
        logs = events_table(raw_logs(orjson.loads(b"[" + texts + b"]")), emitters)
        lake.append(logs, {SOURCE: FinalBlocks(start, end - 1, (end - 1).to_bytes(32, "big"))})


def id_of_message(number: int) -> str:
    """Returns a message's id in hexadecimal, which is also its transaction's hash and never zero, because Ponder rejects that."""
    return f"{number + 1:064x}"


def blocks_of_logs(blocks: int, first: int = 0) -> Iterator[bytes]:
    """Yields the JSON logs of consecutive blocks, without brackets, of a router that sends to itself.

    Args:
        blocks: Number of blocks.
        first: First block.
    """
    templates = _templates()
    for block in range(first, blocks):
        logs = []
        start = block * MESSAGES_OF_A_BLOCK
        for number in range(start, start + MESSAGES_OF_A_BLOCK):
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
    """Returns a log's text with placeholders for message id, block and index."""
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
