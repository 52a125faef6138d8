"""Records with sensible values, for tests that care about one or two of them."""

from __future__ import annotations

from typing import Any

from eth_utils import keccak

from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import MessageRecord
from bridge.protocol.message import Kind, Message
from bridge.protocol.ports import Dispatch
from bridge.protocol.retry_requests import RetryRequest
from bridge.protocol.status import Status
from bridge.records.observations import BlockRef, NumberedDispatch, ObservedAttempt, ObservedMessage, ObservedRange
from bridge.streams.settings import DeadLetterTopicSettings

ALPHA, BETA = 31337, 31338

DOCUMENTED_DEAD_LETTER_TOPIC = DeadLetterTopicSettings(
    enabled=True,
    topic="waybill.dlq",
    brokers=None,
    include_original_headers=True,
    include_stack_trace=False,
    compression="none",
    max_dlq_retries=3,
)
"""What StreamForge's document says of the topic where nobody sets anything."""


def word(text: str) -> bytes:
    """32 bytes that stand for a name."""
    return keccak(text=text)


def block(number: int, branch: str = "main") -> BlockRef:
    return BlockRef(number, word(f"block {number} of {branch}"))


def message(nonce: int = 1, **changes: Any) -> Message:
    values: dict[str, Any] = {
        "source_chain": ALPHA,
        "source_router": bytes(12) + b"\x0a" * 20,
        "sender": bytes(12) + b"\x5e" * 20,
        "nonce": nonce,
        "destination_chain": BETA,
        "destination_router": bytes(12) + b"\x0b" * 20,
        "recipient": bytes(12) + b"\x1b" * 20,
        "gas_limit": 100_000,
        "sent_at": 1_700_000_000,
        "ttl": 0,
        "kind": Kind.PLAIN,
        "quorum": 1,
        "replaces": bytes(32),
        "payload": b"hello",
    }
    return Message(**{**values, **changes})


def dispatch(sent: Message, gmp: Gmp = Gmp.HYPERLANE, *, at: BlockRef | None = None, **changes: Any) -> Dispatch:
    where = at or block(10)
    values: dict[str, Any] = {
        "gmp": gmp,
        "message_id": sent.id,
        "source_chain": sent.source_chain,
        "destination_chain": sent.destination_chain,
        "envelope": sent.encode(),
        "transport_id": f"{gmp.label}-{sent.nonce}",
        "block_number": where.number,
        "block_hash": where.hash,
        "transaction_hash": word(f"transaction of {sent.nonce}"),
        "log_index": 3,
        "evidence": {"index": sent.nonce},
    }
    return Dispatch(**{**values, **changes})


def attempt(sent: Message, number: int = 0, *, at: BlockRef | None = None, **changes: Any) -> ObservedAttempt:
    values: dict[str, Any] = {
        "message_id": sent.id,
        "attempt": number,
        "retriable": True if number == 0 else None,
        "gmps": frozenset({Gmp.HYPERLANE}),
        "source_chain": sent.source_chain,
        "block": at or block(10),
        "transaction_hash": word(f"transaction of {sent.nonce}"),
    }
    return ObservedAttempt(**{**values, **changes})


def observed_range(
    *sent: Message,
    previous: BlockRef | None = None,
    position: BlockRef | None = None,
    gmps: tuple[Gmp, ...] = (Gmp.HYPERLANE,),
    at: BlockRef | None = None,
    number: int = 0,
    now: float = 100.0,
) -> ObservedRange:
    """A range in which those messages were dispatched over those GMPs, in the block `at` (its last one by default)."""
    position = position or block(10)
    where = at or position
    return ObservedRange(
        chain_id=ALPHA,
        previous=previous,
        position=position,
        watched="everything",
        messages=tuple(ObservedMessage(one.id, one.encode(), now, where.number) for one in sent),
        attempts=tuple(attempt(one, number, at=where, gmps=frozenset(gmps)) for one in sent),
        dispatches=tuple(NumberedDispatch(dispatch(one, gmp, at=where), number) for one in sent for gmp in gmps),
        observed_at=now,
    )


def retry_request(sequence: int = 1, sent: Message | None = None, **changes: Any) -> RetryRequest:
    sent = sent or message()
    values: dict[str, Any] = {
        "sequence": sequence,
        "message_id": sent.id,
        "attempt": 1,
        "generation": 0,
        "source_chain": sent.source_chain,
        "destination_chain": sent.destination_chain,
        "missing_gmps": frozenset({Gmp.HYPERLANE}),
        "received_gmps": frozenset(),
        "reason": "overdue",
        "cause_block": 10,
        "requested_at": 1_700_000_061.5,
    }
    return RetryRequest(**{**values, **changes})


def message_record(sent: Message, status: Status, **changes: Any) -> MessageRecord:
    """A message as an index has it that knows no more than its creation."""
    values: dict[str, Any] = dict.fromkeys(MessageRecord.__dataclass_fields__)
    same = ("source_chain", "destination_chain", "sender", "recipient", "nonce", "gas_limit", "ttl", "kind", "quorum")
    values |= {name: getattr(sent, name) for name in (*same, "source_router", "destination_router", "replaces")}
    counts = dict.fromkeys(("receipts", "executions", "failures", "duplicates", "attempts"), 0)
    values |= counts | {"message_id": sent.id, "status": status, "retriable": True, "is_ended": False}
    return MessageRecord(**{**values, "dispatched": frozenset(), "received": frozenset(), **changes})
