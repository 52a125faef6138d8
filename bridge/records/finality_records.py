"""Primary finality records: the state changes that are final on their source, and how far each lane has applied them.

The source is authoritative. Where a destination differs from it, the destination is brought into line, never the other way round.
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
"""Messages that are looked at again, since a reorg may have taken them away and brought them back."""


FOLLOWED: Final = frozenset(
    {
        Kind.STATE_SYNC,
        Kind.REGULATORY_ACTION,
        Kind.REGULATORY_ACTION_CRITICAL,
        Kind.LOCK_MANAGEMENT,
        Kind.GOVERNANCE_EXECUTE,
    }
)
"""Kinds that change state, whose application is followed to its end. What stalls of the others, the index asks to retry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimaryRecord:
    """The evidence that a message is final on its source. A record is kept for ever.

    Attributes:
        change_id: the same for all messages that carry one state change to several chains.
        final_at: Unix seconds.
        signer: the relayer's account; empty until the relayer has signed the record.
        signature: of `digest`.
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
        """The record of a message that was routed by that attempt."""
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
        """The lane that it is on."""
        return Lane(self.source_chain, self.destination_chain)

    @property
    def digest(self) -> bytes:
        """The hash that the relayer signs."""
        return keccak(b"waybill primary record" + canonical(self.document))

    @property
    def signed_document(self) -> Mapping[str, Any]:
        """The record as JSON, with the relayer's signature of its digest."""
        signature = f"0x{self.signature.hex()}" if self.signature else None
        return {**self.document, "signer": self.signer or None, "signature": signature}

    @property
    def document(self) -> Mapping[str, Any]:
        """The record as JSON, without its signature."""
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
    """What a heartbeat says about a lane."""

    primary_final: int  # messages that are final on the source
    applied: int  # of those, resolved on the destination
    lag_seconds: float  # since the oldest unresolved one became final; 0 if there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A signed sign of life of one lane. The latest one counts, and none is ever queued."""

    lane: Lane
    at: float  # Unix seconds
    progress: SyncProgress
    signer: str = ""
    signature: bytes = b""

    @property
    def digest(self) -> bytes:
        """What is signed."""
        content = [
            str(self.lane),
            self.at,
            self.progress.primary_final,
            self.progress.applied,
            self.progress.lag_seconds,
        ]
        return keccak(b"waybill heartbeat" + canonical(content))


def change_id_of(message: Message, transaction_hash: bytes) -> bytes:
    """The name of a state change: same source transaction, sender, kind and payload, whatever chains it goes to."""
    head = message.source_chain.to_bytes(32, "big") + transaction_hash + message.sender + bytes([message.kind])
    return keccak(head + keccak(message.payload))
