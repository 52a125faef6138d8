"""Primary finality records.

These record the state changes that are final on their source chain, and each lane's progress in applying them.

The source is authoritative: if a destination differs from its source, the destination is changed, never the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from eth_utils import keccak

from bridge.protocol.lanes import Lane
from bridge.protocol.message import Kind, Message
from bridge.records.dead_letters import canonical
from bridge.records.observations import BlockRef, ObservedAttempt

LOOKED_BACK: Final = 1_000
"""Number of earlier messages that are checked again, since a reorg may have removed and restored them."""


FOLLOWED: Final = frozenset(
    {
        Kind.STATE_SYNC,
        Kind.REGULATORY_ACTION,
        Kind.REGULATORY_ACTION_CRITICAL,
        Kind.LOCK_MANAGEMENT,
        Kind.GOVERNANCE_EXECUTE,
    }
)
"""Kinds that change state and are followed until applied. The index requests retries for stalled messages of other kinds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryRecord:
    """Evidence that a message is final on its source. Records are never deleted.

    Attributes:
        change_id: Identity of the state change, shared by all messages that carry it to several chains.
        final_at: Unix seconds when the message became final on its source.
        signer: The relayer's account; empty until the relayer has signed the record.
        signature: Signature of `digest`.
    """

    message_id: bytes
    change_id: bytes
    source_chain: int
    destination_chain: int
    block: BlockRef
    transaction_hash: bytes
    final_at: float
    signer: str = ""
    signature: bytes = b""

    @classmethod
    def of(cls, message: Message, attempt: ObservedAttempt, final_at: float) -> PrimaryRecord:
        """Builds the record of a message from the attempt that routed it."""
        return cls(
            message_id=message.id,
            change_id=change_id_of(message, attempt.transaction_hash),
            source_chain=message.source_chain,
            destination_chain=message.destination_chain,
            block=attempt.block,
            transaction_hash=attempt.transaction_hash,
            final_at=final_at,
        )

    @property
    def lane(self) -> Lane:
        """Returns the message's lane."""
        return Lane(self.source_chain, self.destination_chain)

    @property
    def digest(self) -> bytes:
        """Returns the hash that the relayer signs."""
        return keccak(b"waybill primary record" + canonical(self.document))

    @property
    def signed_document(self) -> Mapping[str, Any]:
        """Returns the record as JSON, with the relayer's signature of its digest."""
        signature = f"0x{self.signature.hex()}" if self.signature else None
        return {**self.document, "signer": self.signer or None, "signature": signature}

    @property
    def document(self) -> Mapping[str, Any]:
        """Returns the record as JSON, without its signature."""
        return {
            "messageId": f"0x{self.message_id.hex()}",
            "changeId": f"0x{self.change_id.hex()}",
            "sourceChain": self.source_chain,
            "destinationChain": self.destination_chain,
            "block": self.block.number,
            "blockHash": f"0x{self.block.hash.hex()}",
            "transaction": f"0x{self.transaction_hash.hex()}",
            "finalAt": self.final_at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncProgress:
    """A lane's progress, as stated in its heartbeat."""

    primary_final: int  # messages that are final on the source
    applied: int  # of those, resolved on the destination
    lag_seconds: float  # since the oldest unresolved one became final; 0 if there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A signed statement of one lane's progress. Only the latest heartbeat counts, so heartbeats are never queued."""

    lane: Lane
    at: float  # Unix seconds
    progress: SyncProgress
    signer: str = ""
    signature: bytes = b""

    @property
    def digest(self) -> bytes:
        """Returns the hash that the relayer signs."""
        content = [
            str(self.lane),
            self.at,
            self.progress.primary_final,
            self.progress.applied,
            self.progress.lag_seconds,
        ]
        return keccak(b"waybill heartbeat" + canonical(content))


def change_id_of(message: Message, transaction_hash: bytes) -> bytes:
    """Returns the id of a state change.

    The id is a hash of source transaction, sender, kind and payload, and does not depend on the destinations.
    """
    head = message.source_chain.to_bytes(32, "big") + transaction_hash + message.sender + bytes([message.kind])
    return keccak(head + keccak(message.payload))
