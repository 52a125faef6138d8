"""Observations of source chains: the position up to which each was read, and the messages found."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message, decode_envelope
from bridge.protocol.ports import Block, Dispatch

ANCESTORS_KEPT = 256
"""Number of earlier positions that a cursor remembers. After a reorg below all of them, the chain is read again from the start."""


@dataclass(frozen=True, slots=True)
class BlockRef:
    """A block by height and hash."""

    number: int
    hash: bytes

    def __str__(self) -> str:
        return f"block {self.number} (0x{self.hash.hex()})"

    @classmethod
    def of(cls, block: Block) -> BlockRef:
        """Returns the reference to a block."""
        return cls(block.number, block.hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """The position up to which a chain was read."""

    chain_id: int
    position: BlockRef  # the last block read
    watched: str  # fingerprint of the watched contracts and topics
    deferred_from: int | None = None  # the lowest block with a deferred message


@dataclass(frozen=True, slots=True)
class ObservedMessage:
    """A message's content. The message id commits to all of it."""

    message_id: bytes
    envelope: bytes
    observed_at: float  # Unix seconds
    created_in: int | None = None  # the source block with the router's event; None: none was seen, or it was orphaned

    @property
    def message(self) -> Message:
        """Decodes the message from its envelope."""
        return decode_envelope(self.envelope).message


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAttempt:
    """The router's event for one dispatch of a message. A message without attempts was orphaned."""

    message_id: bytes
    attempt: int
    retriable: bool | None  # known from attempt 0 only
    gmps: frozenset[Gmp]  # GMPs that accepted it
    source_chain: int
    block: BlockRef
    transaction_hash: bytes


@dataclass(frozen=True, slots=True)
class NumberedDispatch:
    """A dispatch with its attempt number."""

    dispatch: Dispatch
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRange:
    """Everything found in a range of blocks; recorded in one store transaction."""

    chain_id: int
    previous: BlockRef | None  # the cursor's position before, None if there was none
    position: BlockRef  # the last block of the range; `previous` itself if the range lies below it and was read again
    watched: str
    messages: tuple[ObservedMessage, ...] = ()
    attempts: tuple[ObservedAttempt, ...] = ()
    dispatches: tuple[NumberedDispatch, ...] = ()
    observed_at: float
    deferred_from: int | None = None  # the lowest block with a message that was left out


@dataclass(frozen=True, slots=True)
class Rewound:
    """The effects of a rollback."""

    dropped: int  # untouched outbox entries from this chain
    orphaned: int  # outbox entries from this chain that are kept, marked
    unconfirmed: int  # deliveries to this chain that no longer are final
