"""Converts messages and deliveries to JSON."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from bridge.protocol.addresses import AddressError, from_bytes32
from bridge.protocol.contracts import message_tuple
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import gmp_label
from bridge.protocol.guarantee import AssetClass, MessagePolicy
from bridge.protocol.indexed import DivergenceRecord, MessageRecord
from bridge.protocol.message import Message
from bridge.protocol.times import iso
from bridge.queries.explain import Explanation, GmpProgress
from bridge.queries.lanes import lane_name
from bridge.records.jobs import SyncJob


def record_value(record: MessageRecord, deployment: Deployment) -> dict[str, Any]:
    """Returns a message from the index, for JSON. Times are block times."""
    return {
        "messageId": f"0x{record.message_id.hex()}",
        "status": record.status.value,
        "lane": lane_name(deployment, record.source_chain, record.destination_chain),
        "sourceChain": record.source_chain,
        "destinationChain": record.destination_chain,
        "kind": record.kind.name if record.kind is not None else None,
        "sender": account_text(record.sender),
        "recipient": account_text(record.recipient),
        "quorum": record.quorum,
        "receipts": record.receipts,
        "retries": record.attempts,
        "duplicates": record.duplicates,
        "dispatched": sorted(gmp.label for gmp in record.dispatched),
        "received": sorted(gmp.label for gmp in record.received),
        "sentAt": iso(record.source_time),
        "executedAt": iso(record.executed_time),
        "sourceTransaction": f"0x{record.source_transaction.hex()}" if record.source_transaction else None,
        "executedTransaction": f"0x{record.executed_transaction.hex()}" if record.executed_transaction else None,
    }


@lru_cache(maxsize=10_000)  # a checksum takes as long as the rest of a row, and few accounts send most messages
def account_text(word: bytes | None) -> str | None:
    """Formats a 32-byte word as an address if it contains one, otherwise as hex digits."""
    if word is None:
        return None
    try:
        return from_bytes32(word)
    except AddressError:
        return f"0x{word.hex()}"


def explanation_value(
    found: Explanation, policy: MessagePolicy | None = None, below: AssetClass | None = None
) -> dict[str, Any]:
    """Returns an explained message, for JSON.

    Args:
        found: the explanation.
        policy: the message's policy under the workspace's settings.
        below: the asset class whose minimum TTL exceeds the message's TTL.
    """
    expires_at = found.message.expires_at if found.message else None
    return {
        "messageId": found.message_id,
        "status": found.status.value,
        "reason": found.reason,
        "unknown": list(found.unknown),
        "next": found.next_action,
        "acts": [
            {"act": offer.act.value, "by": offer.by.value, "command": found.command(offer)} for offer in found.offers
        ],
        "divergences": [divergence_value(one) for one in found.divergences],
        "message": _message_value(found.message) if found.message else None,
        "retryRoute": _retry_value(found.message) if found.message else None,
        "expiresAt": iso(expires_at) if expires_at is not None else None,
        "guarantee": policy.value() if policy else None,
        "belowAssetClass": {"name": below.name, "minTtl": below.min_ttl} if below else None,
        "primaryRecords": [_record_value(job) for job in found.changes],
        "gmps": [_progress_value(progress) for progress in found.gmps],
        "gmpPauses": [
            {"gmp": one.gmp.label, "chainId": one.chain_id, "until": iso(one.until)} for one in found.gmp_pauses
        ],
        "indexBehind": [
            {"chainId": lag.chain_id, "blocks": lag.blocks, "seconds": lag.seconds, "halted": lag.halted}
            for lag in found.lags
        ],
    }


def _record_value(job: SyncJob) -> dict[str, Any]:
    return {**job.record.signed_document, "state": job.state.value, "problem": job.outcome}


def divergence_value(found: DivergenceRecord) -> dict[str, Any]:
    """Returns a divergence, for JSON."""
    return {
        "kind": found.kind,
        "severity": found.severity,
        "messageId": f"0x{found.message_id.hex()}" if found.message_id else None,
        "sourceChain": found.source_chain,
        "destinationChain": found.destination_chain,
        "evidence": found.evidence,
        "next": found.next_action,
    }


def _progress_value(progress: GmpProgress) -> dict[str, Any]:
    receipt = progress.receipt
    return {
        "gmp": gmp_label(progress.gmp),
        "stage": progress.stage.value,
        "attempts": list(progress.attempts),
        "failedTries": progress.failed_tries,
        "setbacks": progress.setbacks,
        "lastError": progress.last_error,
        "nextTryAt": iso(progress.next_try_at),
        "claimedAt": iso(progress.claimed_at),
        "receivedAt": iso(receipt.received_time) if receipt else None,
        "duplicates": receipt.duplicates if receipt else 0,
        "deadLetter": progress.letter,
    }


def _retry_value(message: Message) -> dict[str, Any]:
    """Returns the message argument of `retryRoute` on the source: the struct's fields, in order."""
    return {
        "chainId": message.source_chain,
        "router": from_bytes32(message.source_router),
        "messageId": message.id,
        "message": list(message_tuple(message)),
    }


def _message_value(message: Message) -> dict[str, Any]:
    return {
        "sourceChain": message.source_chain,
        "sourceRouter": from_bytes32(message.source_router),
        "sender": from_bytes32(message.sender),
        "nonce": message.nonce,
        "destinationChain": message.destination_chain,
        "destinationRouter": from_bytes32(message.destination_router),
        "recipient": from_bytes32(message.recipient),
        "gasLimit": message.gas_limit,
        "sentAt": iso(message.sent_at),
        "ttl": message.ttl,
        "kind": message.kind.name,
        "quorum": message.quorum,
        "replaces": message.replaces if any(message.replaces) else None,
        "payload": message.payload,
    }


def printable(payload: bytes) -> str | None:
    """Returns a payload as text, or None if it is empty, not UTF-8, or has characters that can't be printed."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    return text if text and all(one.isprintable() or one in "\n\t" for one in text) else None
