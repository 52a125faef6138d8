"""A message's events, proven against block hashes: what a third party checks without Waybill, an index or an endpoint.

A header's Keccak hash is its block's hash, and it names the root of a trie that has the block's receipts. So a header and the
trie's nodes on the way to a receipt prove an event to everybody who trusts the block's hash. Who signed which block hash is
not proven here, nor that a router is the one that you mean: `check` says which hashes and routers it rests on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
import rlp
from eth_utils import keccak
from eth_utils.address import to_checksum_address
from rlp.exceptions import RLPException
from trie.hexary import HexaryTrie

from bridge.protocol.addresses import to_bytes32
from bridge.protocol.events import (
    Creation,
    EventDecodingError,
    MessageExecuted,
    MessageReceived,
    OfMessage,
    decode_event,
)
from bridge.protocol.message import EnvelopeError, Message, decode_envelope

FORMAT: Final = "waybill-proof-1"

_DATA: Final = re.compile(r"0x(?:[0-9a-fA-F]{2})*")
_BRANCH: Final = 17  # items of a branch; a leaf and an extension have two

# A header's fields in their order (execution-specs, `Header`), and whether each is a number. A block has all up to the fork
# that it is of.
_HEADER: Final = (
    ("parentHash", False),
    ("sha3Uncles", False),
    ("miner", False),
    ("stateRoot", False),
    ("transactionsRoot", False),
    ("receiptsRoot", False),
    ("logsBloom", False),
    ("difficulty", True),
    ("number", True),
    ("gasLimit", True),
    ("gasUsed", True),
    ("timestamp", True),
    ("extraData", False),
    ("mixHash", False),
    ("nonce", False),
    ("baseFeePerGas", True),
    ("withdrawalsRoot", False),
    ("blobGasUsed", True),
    ("excessBlobGas", True),
    ("parentBeaconBlockRoot", False),
    ("requestsHash", False),
)
_RECEIPTS_ROOT, _NUMBER, _TIMESTAMP = 5, 8, 11  # places in a header
_DEPOSIT: Final = 0x7E  # type of an OP Stack deposit, whose receipt has two fields more


class ProofError(ValueError):
    """A proof that proves nothing; the text says why."""


class UntrustedBlockError(ProofError):
    """A proof that rests on a block which its reader has not named."""


@dataclass(frozen=True, slots=True)
class ProvenLog:
    """An event that a block has."""

    address: str
    topics: tuple[bytes, ...]
    data: bytes
    block_number: int
    block_time: int  # Unix seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProof:
    """An event, its block's header and the nodes on the way to it."""

    chain_id: int  # EIP-155; said by the proof alone, since a header does not name its chain
    header: bytes  # RLP
    transaction: int  # its place in the block, from 0
    log: int  # the event's place among those of its transaction, from 0
    nodes: tuple[bytes, ...]  # RLP, from the root of the block's receipts on

    @property
    def block_hash(self) -> bytes:
        """Of the block that has the event: what must be trusted."""
        return keccak(self.header)

    def proven(self) -> ProvenLog:
        """The event, of the block with this header's hash.

        Raises:
            ProofError: header and nodes do not lead to it.
        """
        try:
            header = rlp.decode(self.header)
            receipt = _value_at(rlp.encode(self.transaction), header[_RECEIPTS_ROOT], self.nodes)
            status, _gas, _bloom, logs, *_more = rlp.decode(receipt[1:] if receipt[:1] < b"\xc0" else receipt)
            address, topics, data = logs[_number(self.log)]
            number, time = (int.from_bytes(header[place], "big") for place in (_NUMBER, _TIMESTAMP))
        except (RLPException, ValueError, TypeError, IndexError) as error:
            reason = f"{type(error).__name__}: {str(error)[:200]}"
            raise ProofError(
                f"the nodes do not lead from block 0x{self.block_hash.hex()} to the event ({reason})"
            ) from error
        if status != b"\x01":
            raise ProofError(f"transaction {self.transaction} of block 0x{self.block_hash.hex()} failed")
        return ProvenLog(to_checksum_address(address), tuple(topics), data, number, time)


@dataclass(frozen=True, slots=True)
class MessageProof:
    """What happened to a message, event by event, its creation first."""

    message_id: bytes
    logs: tuple[LogProof, ...]

    def to_json(self) -> dict[str, Any]:
        """For a file; see `from_json`."""
        return {
            "format": FORMAT,
            "messageId": _hex(self.message_id),
            "events": [
                {
                    "chainId": one.chain_id,
                    "header": _hex(one.header),
                    "transaction": one.transaction,
                    "log": one.log,
                    "nodes": [_hex(node) for node in one.nodes],
                }
                for one in self.logs
            ],
        }

    @classmethod
    def from_json(cls, text: bytes) -> MessageProof:
        """Reads a file's content.

        Raises:
            ProofError: it is no proof of this format.
        """
        try:
            value = orjson.loads(text)
            _require_format(value["format"])
            logs = tuple(
                LogProof(
                    chain_id=_number(one["chainId"]),
                    header=_bytes(one["header"]),
                    transaction=_number(one["transaction"]),
                    log=_number(one["log"]),
                    nodes=tuple(map(_bytes, one["nodes"])),
                )
                for one in value["events"]
            )
            return cls(_bytes(value["messageId"]), logs)
        except ProofError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ProofError(f"that is no proof of a message ({type(error).__name__}: {error})") from error


@dataclass(frozen=True, slots=True)
class Proven:
    """What a proof proves, if the routers are those that you mean."""

    message: Message
    created: ProvenLog
    received: Mapping[int, ProvenLog]  # by the GMP's number
    executed: ProvenLog | None


def check(proof: MessageProof, trusted: Mapping[int, Collection[bytes]]) -> Proven:
    """Checks a proof. It asks nobody.

    Args:
        proof: of a stranger.
        trusted: block hashes by chain (EIP-155 id), that the caller knows to be of that chain.

    Raises:
        ProofError: a block is not among the trusted ones, or what is stated does not follow from it.
    """
    if not proof.logs:
        raise ProofError("the proof has no event")
    if len({(one.block_hash, one.transaction, one.log) for one in proof.logs}) < len(proof.logs):
        raise ProofError("the proof has an event twice")
    for one in proof.logs:
        if one.block_hash not in trusted.get(one.chain_id, ()):
            raise UntrustedBlockError(
                f"it rests on block 0x{one.block_hash.hex()} of chain {one.chain_id}, which is not among the trusted blocks"
            )
    first, *rest = proof.logs
    created = first.proven()
    message = _created_message(first.chain_id, created, proof.message_id)
    received, executed = dict[int, ProvenLog](), None
    for one in rest:
        log = one.proven()
        _require_router(one.chain_id, log, message.destination_chain, message.destination_router)
        event = _event(log, proof.message_id)
        if isinstance(event, MessageReceived) and event.source_chain == message.source_chain:
            received[event.gmp] = log
        elif isinstance(event, MessageExecuted) and event.source_chain == message.source_chain:
            executed = log
        else:
            raise ProofError(f"{type(event).__name__} says nothing of this message's delivery")
    return Proven(message, created, received, executed)


def _created_message(chain_id: int, log: ProvenLog, message_id: bytes) -> Message:
    """The message with that id, of the event that its router created it with."""
    event = _event(log, message_id)
    if not isinstance(event, Creation):
        raise ProofError(f"its first event is {type(event).__name__}, not the message's creation")
    try:
        message = decode_envelope(event.envelope).message
    except EnvelopeError as error:
        raise ProofError(f"the event of its creation carries no message: {error}") from error
    if message.id != message_id:
        raise ProofError(f"the message that was created has the id 0x{message.id.hex()}")
    if message.source_chain == message.destination_chain:
        raise ProofError(
            f"it is for the chain {message.source_chain} that it is from, and no router creates such a message"
        )
    _require_router(chain_id, log, message.source_chain, message.source_router)
    return message


def _event(log: ProvenLog, message_id: bytes) -> OfMessage:
    try:
        event = decode_event(log.topics, log.data)
    except EventDecodingError as error:
        raise ProofError(str(error)) from error
    if not isinstance(event, OfMessage) or event.message_id != message_id:
        raise ProofError(f"an event of block {log.block_number} is not about message 0x{message_id.hex()}")
    return event


def _require_router(chain_id: int, log: ProvenLog, expected_chain: int, router: bytes) -> None:
    if (chain_id, to_bytes32(log.address)) != (expected_chain, router):
        raise ProofError(
            f"an event is of {log.address} on chain {chain_id}, not of the message's router 0x{router[-20:].hex()} on chain "
            f"{expected_chain}"
        )


def encode_header(block: Mapping[str, Any]) -> bytes:
    """A block's header in RLP, of what `eth_getBlockByNumber` answers.

    Raises:
        ValueError: it does not give the block's hash.
    """
    fields = [
        rlp.sedes.big_endian_int.serialize(int(block[name], 16)) if is_number else _bytes(block[name])
        for name, is_number in _HEADER
        if block.get(name) is not None
    ]
    header: bytes = rlp.encode(fields)
    if keccak(header) != _bytes(block["hash"]):
        raise ValueError("its header has fields that this version of Waybill does not know, or the node made it up")
    return header


def prove_logs(
    chain_id: int,
    header: bytes,
    receipts: Sequence[Mapping[str, Any]],
    chosen: Callable[[Mapping[str, Any]], bool],
) -> list[LogProof]:
    """Proofs of those of a block's events that are chosen.

    Args:
        chain_id: EIP-155.
        header: of the block, RLP.
        receipts: what `eth_getBlockReceipts` answers.
        chosen: says of a log, as that answer has it, whether to prove it.

    Raises:
        ValueError: the receipts are not those that the header names.
    """
    trie = HexaryTrie({})
    for place, receipt in enumerate(receipts):
        trie[rlp.encode(place)] = _encode_receipt(receipt)
    if trie.root_hash != rlp.decode(header)[_RECEIPTS_ROOT]:
        raise ValueError(
            "its receipts have fields that this version of Waybill does not know, or the node made them up"
        )
    proofs = []
    for place, receipt in enumerate(receipts):
        found = [log for log, one in enumerate(receipt["logs"]) if chosen(one)]
        if found:
            nodes = tuple(rlp.encode(node) for node in trie.get_proof(rlp.encode(place)))  # type: ignore[no-untyped-call]  # the package types only some of it
            proofs += [
                LogProof(chain_id=chain_id, header=header, transaction=place, log=log, nodes=nodes) for log in found
            ]
    return proofs


def _encode_receipt(receipt: Mapping[str, Any]) -> bytes:
    """As the block's trie has it (EIP-2718)."""
    kind = int(receipt.get("type") or "0x0", 16)
    logs = [
        [_bytes(one["address"]), [_bytes(topic) for topic in one["topics"]], _bytes(one["data"])]
        for one in receipt["logs"]
    ]
    numbers = ["status", "cumulativeGasUsed"], ["depositNonce", "depositReceiptVersion"]
    first, last = ([int(receipt[name], 16) for name in names if receipt.get(name) is not None] for names in numbers)
    encoded: bytes = rlp.encode([*first, _bytes(receipt["logsBloom"]), logs, *(last if kind == _DEPOSIT else [])])
    return (bytes([kind]) if kind else b"") + encoded


def _value_at(key: bytes, root: bytes, nodes: Sequence[bytes]) -> bytes:
    """The value at a key of a trie with that root. The nodes must be those on the way, and no other.

    Each is hashed before it is decoded, so none is read that a trusted block does not have.
    """
    path, expected, is_leaf = key.hex(), root, False
    for node in nodes:
        if keccak(node) != expected or is_leaf:
            raise ProofError("a node is not the next one on the way")
        items = rlp.decode(node)
        if len(items) == _BRANCH:
            expected, path = items[int(path[:1], 16)], path[1:]
            continue
        prefix, expected = items
        flags = prefix[0] >> 4
        shared, is_leaf = prefix.hex()[1 if flags & 1 else 2 :], bool(flags & 2)
        if not path.startswith(shared):
            raise ProofError("a node leads elsewhere")
        path = path[len(shared) :]
    if path or not is_leaf:
        raise ProofError("the nodes end before the receipt")
    return expected


def _require_format(found: object) -> None:
    if found != FORMAT:
        raise ProofError(f"the file's format is {found!r}, this version reads {FORMAT!r}")


def _hex(data: bytes) -> str:
    return "0x" + data.hex()


def _bytes(text: str) -> bytes:
    if not _DATA.fullmatch(text):
        raise ValueError(f"{text[:20]!r} is not 0x and pairs of hex digits")
    return bytes.fromhex(text[2:])


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:  # True is an int, too
        raise ValueError(f"{value!r} is no place and no chain's id")
    return value
