"""What the model and the routers exchange: calls, messages' terms, what a router remembers of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from eth_abi.abi import encode

from bridge.protocol.message import Message

NOBODY = "0x" + "00" * 20
HIGHEST_GMP = 16
MAX_PAUSE = 7 * 86_400
"""What the owner may pause for at once, in seconds."""
MIN_TTL = 60  # seconds
WEI_PER_GWEI = 10**9
MAX_FEE = (2**40 - 1) * WEI_PER_GWEI
MESSAGE = "(uint64,bytes32,bytes32,uint64,uint64,bytes32,bytes32,uint64,uint64,uint32,uint8,uint8,bytes32,bytes)"

Fees = tuple[tuple[int, int], ...]
"""GMPs, each with the fee that it gets, in wei."""


class RevertError(Exception):
    """A call reverts. Its argument is the error's name; it is empty where the EVM gives no reason."""

    @property
    def name(self) -> str:
        """The error's name."""
        return str(self.args[0])


class Execution(IntEnum):
    """The end of a message at its destination."""

    NONE = 0
    EXECUTED = 1
    EXPIRED = 2
    CANCELLED = 3


class Mood(IntEnum):
    """What a double does when it is called, as in Double.sol."""

    WILLING = 0
    REFUSES = 1
    REFUSES_MONEY = 2
    ANSWERS_WRONGLY = 3
    BURNS_GAS = 4


@dataclass(frozen=True)
class Call:
    """A call of a router."""

    router: int
    method: str
    arguments: tuple[Any, ...]
    value: int = 0  # wei


@dataclass(frozen=True)
class Conduct:
    """What a double does until it is told otherwise."""

    mood: Mood = Mood.WILLING
    fee: int = 0  # wei; what it asks for as an adapter
    call: Call | None = None


@dataclass(frozen=True)
class Terms:
    """How a message is sent: over which GMPs, how many of them must accept it (0: all), and who gets the refund."""

    fewest: int
    gmps: Fees
    refund_to: str

    @property
    def required(self) -> int:
        """How many GMPs must take the message."""
        return self.fewest or len(self.gmps)


@dataclass(frozen=True)
class Route:
    """A new message, and how to send it."""

    chain: int
    recipient: bytes
    payload: bytes
    gas_limit: int
    ttl: int
    kind: int
    quorum: int
    replaces: bytes
    retriable: bool
    terms: Terms


@dataclass(frozen=True)
class Profile:
    """How the messages of ERC-7786 senders travel; there are no attributes here."""

    gmps: frozenset[int]
    quorum: int
    gas_limit: int
    ttl: int
    retriable: bool
    max_fee: int  # wei


@dataclass(frozen=True)
class Sent:
    """What a source router keeps of a message."""

    sender: str = NOBODY
    attempts: int = 0
    waiting: frozenset[int] = frozenset()
    retriable: bool = False
    unfunded: bool = False
    cancelled: bool = False
    max_fee: int = MAX_FEE


@dataclass(frozen=True)
class Lane:
    """What a router knows of the other chain."""

    peer: str = NOBODY
    peers: frozenset[str] = frozenset()
    floor: int = 0
    paused_until: int = 0
    sent: int = 0
    sent_sum: int = 0
    executed: int = 0
    executed_sum: int = 0


@dataclass(frozen=True)
class Receipts:
    """What a destination router keeps of a message: the epoch in which each GMP delivered it, and its end."""

    epochs: tuple[tuple[int, int], ...] = ()
    end: Execution = Execution.NONE

    def __add__(self, receipt: tuple[int, int]) -> Receipts:
        """The receipts with one more, in place of an older one of its GMP."""
        return replace(self, epochs=tuple(sorted({**dict(self.epochs), **dict([receipt])}.items())))


def word(address: str) -> bytes:
    """An address as messages carry it."""
    return bytes(12) + bytes.fromhex(address[2:])


def address_of(data: bytes) -> str:
    """The address in a word of a message."""
    if any(data[:12]):
        raise RevertError("DirtyAddress")
    return "0x" + data[12:].hex()


def bits(gmps: frozenset[int] | set[int]) -> int:
    """A set of GMPs as the contracts write it."""
    return sum(1 << (gmp - 1) for gmp in gmps)


def fields(message: Message) -> tuple[Any, ...]:
    """A message in the order of the contracts' struct."""
    return (
        message.source_chain,
        message.source_router,
        message.sender,
        message.nonce,
        message.destination_chain,
        message.destination_router,
        message.recipient,
        message.gas_limit,
        message.sent_at,
        message.ttl,
        message.kind,
        message.quorum,
        message.replaces,
        message.payload,
    )


def about(original: Message, end: Execution) -> bytes:
    """The payload of a cancellation or a report: the header of the message it is about, its payload's hash, and its end."""
    header = replace(original, payload=b"")
    return encode([MESSAGE, "bytes32", "uint8"], [fields(header), original.payload_hash, end])


def interoperable(chain: int, account: str) -> bytes:
    """An account of an EVM chain by ERC-7930: version 1, type `eip155`, the chain's id and the address with their lengths."""
    reference = chain.to_bytes((chain.bit_length() + 7) // 8, "big")
    return b"\x00\x01\x00\x00" + bytes([len(reference)]) + reference + b"\x14" + bytes.fromhex(account[2:])
