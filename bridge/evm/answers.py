"""A node's answers: the error in one, and the records that its JSON holds. `bridge.protocol.node_errors` says what errors mean."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils.address import to_checksum_address

from bridge.domain.ports import Block, Log, Receipt
from bridge.protocol.node_errors import Meaning, meaning_of

T = TypeVar("T")


class RpcError(Exception):
    """A node answered a request with an error.

    Attributes:
        code: the JSON-RPC error code.
        text: the node's words.
        data: what it added; for a revert, the contract's answer in one of several forms.
    """

    def __init__(self, method: str, code: int, text: str, data: Any = None) -> None:
        super().__init__(f"{method} was refused: {text} (code {code})")
        self.method = method
        self.code = code
        self.text = text
        self.data = data

    @property
    def meaning(self) -> Meaning:
        """What the node means by it."""
        return meaning_of(self.code, self.text)

    @classmethod
    def from_json(cls, method: str, error: Any) -> RpcError:
        """The error in an answer; a shape that no standard knows becomes its own text."""
        if not isinstance(error, dict):
            return cls(method, 0, str(error))
        code = error.get("code")
        return cls(method, code if isinstance(code, int) else 0, str(error.get("message", error)), error.get("data"))


_HEX = re.compile(r"0x((?:[0-9a-fA-F]{2})*)")


def revert_data(error: RpcError) -> bytes:
    """What a contract reverted with, or nothing where the node does not say."""
    data = error.data
    if isinstance(data, dict):
        data = data.get("data") or data.get("result")
    found = _HEX.search(data) if isinstance(data, str) else None
    return bytes.fromhex(found[1]) if found else b""


class UndecodableError(Exception):
    """An answer does not have the form that every honest node's has."""


def decoder_of(what: str, decoder: Callable[[Any], T]) -> Callable[[Any], T]:
    """A decoder that raises `UndecodableError` for every answer that it can't make a value of; `what` names it."""

    def decode(answer: Any) -> T:
        try:
            return decoder(answer)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, DecodingError) as error:
            if answer == "0x":
                raise UndecodableError(
                    f"{what} is empty: the contract is not there, or not on this node; is the deployments file of this network?"
                ) from error
            raise UndecodableError(f"{what} has an unusable form ({type(error).__name__}: {error})") from error

    return decode


def to_int(quantity: str) -> int:
    """A JSON-RPC quantity."""
    if not quantity.startswith("0x"):
        raise ValueError(f"{quantity[:20]!r} does not start with 0x")
    return int(quantity, 16)


def to_bytes(data: str) -> bytes:
    """JSON-RPC data."""
    if not data.startswith("0x"):
        raise ValueError(f"{data[:20]!r} does not start with 0x")
    return bytes.fromhex(data[2:])


def to_values(types: Sequence[str]) -> Callable[[str], bytes]:
    """The data of a call's answer; refuses what does not decode as those ABI types. Without types it takes all data."""

    def check(data: str) -> bytes:
        answer = to_bytes(data)
        if types:
            decode(types, answer)
        return answer

    return check


def to_block(block: Mapping[str, Any]) -> Block:
    """A block's header."""
    return Block(
        number=to_int(block["number"]),
        hash=to_bytes(block["hash"]),
        parent_hash=to_bytes(block["parentHash"]),
        timestamp=to_int(block["timestamp"]),
    )


def to_base_fee(block: Mapping[str, Any]) -> int | None:
    """A block's base fee in wei per gas, or None on a chain without EIP-1559."""
    fee = block.get("baseFeePerGas")
    return None if fee is None else to_int(fee)


@functools.lru_cache(maxsize=4096)  # a hash each time, for the few contracts that emit nearly everything
def _checksummed(address: str) -> str:
    return to_checksum_address(address)


def to_log(log: Mapping[str, Any]) -> Log:
    """An event of an included transaction."""
    return Log(
        address=_checksummed(log["address"]),
        topics=tuple(to_bytes(topic) for topic in log["topics"]),
        data=to_bytes(log["data"]),
        block_number=to_int(log["blockNumber"]),
        block_hash=to_bytes(log["blockHash"]),
        transaction_hash=to_bytes(log["transactionHash"]),
        log_index=to_int(log["logIndex"]),
    )


def to_logs(logs: list[Mapping[str, Any]]) -> list[Log]:
    """Events in the chain's order, each once; those that a node reports as removed are left out."""
    found = {}
    for item in logs:
        if not item.get("removed", False):
            log = to_log(item)
            found[log.block_number, log.log_index] = log
    return [found[position] for position in sorted(found)]


def to_receipt(receipt: Mapping[str, Any]) -> Receipt:
    """A transaction's receipt."""
    return Receipt(
        transaction_hash=to_bytes(receipt["transactionHash"]),
        block_number=to_int(receipt["blockNumber"]),
        block_hash=to_bytes(receipt["blockHash"]),
        succeeded=to_int(receipt["status"]) == 1,
        gas_used=to_int(receipt["gasUsed"]),
        logs=tuple(to_logs(receipt["logs"])),
    )
