"""A message, its id and its envelope, as `contracts/types/Message.sol` defines them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

from eth_utils import keccak

ENVELOPE_VERSION = 1

_TYPE = (
    "Message(uint8 version,uint64 sourceChain,bytes32 sourceRouter,bytes32 sender,uint64 nonce,"
    "uint64 destinationChain,bytes32 destinationRouter,bytes32 recipient,uint64 gasLimit,uint64 sentAt,"
    "uint32 ttl,uint8 kind,uint8 quorum,bytes32 replaces,bytes payload)"
)
TYPEHASH = keccak(text=_TYPE)

# version, id, source chain and router, sender, nonce, destination chain and router, recipient, gas limit, sent-at, ttl,
# kind, quorum, replaces; the payload follows.
_HEADER = struct.Struct(">B32sQ32s32sQQ32s32sQQIBB32s")
HEADER_LENGTH = _HEADER.size


class EnvelopeError(ValueError):
    """The bytes are not an envelope of a supported version."""


MAX_GAS_LIMIT: Final = 14_000_000
"""The highest gas limit that a router accepts, as `MAX_GAS_LIMIT` of `contracts/types/Message.sol`."""

MOST_GAS: Final = 16_000_000
"""Default gas limit of a relayer's transactions. EIP-7825 allows 2^24."""


class Kind(IntEnum):
    """The purpose of a message, which determines its policy."""

    PLAIN = 0
    STATE_SYNC = 1
    REGULATORY_ACTION = 2
    REGULATORY_ACTION_CRITICAL = 3
    LOCK_MANAGEMENT = 4
    QUERY = 5
    ACK = 6
    HEARTBEAT = 7
    GOVERNANCE_PROPOSAL = 8
    GOVERNANCE_VOTE = 9
    GOVERNANCE_EXECUTE = 10
    CANCELLATION = 11
    REPORT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message. Chains are EIP-155 ids. Routers, sender, recipient and `replaces` are 32 bytes each."""

    source_chain: int
    source_router: bytes
    sender: bytes
    nonce: int
    destination_chain: int
    destination_router: bytes
    recipient: bytes
    gas_limit: int  # gas
    sent_at: int  # Unix seconds
    ttl: int  # seconds; 0 = never expires
    kind: Kind
    quorum: int
    replaces: bytes
    payload: bytes

    @property
    def id(self) -> bytes:
        """Returns the 32-byte message id, which is the EIP-712 struct hash."""
        return _id_of(self)

    @property
    def payload_hash(self) -> bytes:
        """Returns the Keccak-256 hash of the payload, which represents the payload in the message id."""
        return keccak(self.payload)

    @property
    def expires_at(self) -> int | None:
        """Returns the Unix seconds after which the message may no longer execute, or None if it never expires."""
        return self.sent_at + self.ttl if self.ttl else None

    def encode(self) -> bytes:
        """Returns the envelope that a GMP carries."""
        header = _HEADER.pack(
            ENVELOPE_VERSION,
            self.id,
            self.source_chain,
            self.source_router,
            self.sender,
            self.nonce,
            self.destination_chain,
            self.destination_router,
            self.recipient,
            self.gas_limit,
            self.sent_at,
            self.ttl,
            self.kind,
            self.quorum,
            self.replaces,
        )
        return header + self.payload


@dataclass(frozen=True, slots=True)
class Envelope:
    """A decoded envelope, which consists of the message and the id that the envelope states."""

    stated_id: bytes
    message: Message

    @property
    def is_genuine(self) -> bool:
        """Whether the id that the envelope states is that of the message."""
        return self.stated_id == self.message.id


def decode_envelope(envelope: bytes) -> Envelope:
    """Decodes an envelope without checking the stated id; see `Envelope.is_genuine`.

    Raises:
        EnvelopeError: the envelope is too short, or has an unknown version or kind.
    """
    if len(envelope) < HEADER_LENGTH:
        raise EnvelopeError(f"envelope has {len(envelope)} bytes; the header alone takes {HEADER_LENGTH}")
    version, stated_id, *fields = _HEADER.unpack_from(envelope)
    if version != ENVELOPE_VERSION:
        raise EnvelopeError(f"envelope version {version} is unknown; this code reads version {ENVELOPE_VERSION}")
    kind = fields[10]
    if kind > max(Kind):
        raise EnvelopeError(f"message kind {kind} is unknown")
    message = Message(
        source_chain=fields[0],
        source_router=fields[1],
        sender=fields[2],
        nonce=fields[3],
        destination_chain=fields[4],
        destination_router=fields[5],
        recipient=fields[6],
        gas_limit=fields[7],
        sent_at=fields[8],
        ttl=fields[9],
        kind=Kind(kind),
        quorum=fields[11],
        replaces=fields[12],
        payload=envelope[HEADER_LENGTH:],
    )
    return Envelope(stated_id, message)


@lru_cache(maxsize=1024)  # cached: a delivery needs it five times, and it costs two hashes
def _id_of(message: Message) -> bytes:
    integer = _word
    return keccak(
        TYPEHASH
        + integer(ENVELOPE_VERSION)
        + integer(message.source_chain)
        + message.source_router
        + message.sender
        + integer(message.nonce)
        + integer(message.destination_chain)
        + message.destination_router
        + message.recipient
        + integer(message.gas_limit)
        + integer(message.sent_at)
        + integer(message.ttl)
        + integer(message.kind)
        + integer(message.quorum)
        + message.replaces
        + message.payload_hash
    )


def _word(value: int) -> bytes:
    return value.to_bytes(32, "big")
