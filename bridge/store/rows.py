"""Between rows and records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import orjson
from sqlalchemy import RowMapping

from bridge.domain.failures import Failure, FailureKind, RecordedFailure, snapshot_from, snapshot_text
from bridge.domain.observations import BlockRef, ObservedAttempt, ObservedMessage
from bridge.domain.outbox import Delivered, Delivery, OutboxEntry, OutboxState
from bridge.domain.ports import Call, Dispatch, Fees
from bridge.domain.retries import RetryBudget, RetryJob, RetryPayment, RetryState
from bridge.domain.transactions import BatchedCall, Inclusion, SignedVersion, Slot, SlotState
from bridge.protocol.gmps import Gmp, bits_from_gmps, gmps_from_bits
from bridge.protocol.message import Kind
from bridge.protocol.retry_requests import COLUMNS, RetryRequest
from bridge.store.tables import messages, outbox


def message_row(observed: ObservedMessage) -> dict[str, Any]:
    """The columns of `messages`."""
    message = observed.message
    return {
        "message_id": observed.message_id,
        "envelope": observed.envelope,
        "source_chain": message.source_chain,
        "destination_chain": message.destination_chain,
        "sender": message.sender,
        "nonce": message.nonce,
        "observed_at": observed.observed_at,
        "created_in": observed.created_in,
    }


def message_from(row: RowMapping) -> ObservedMessage:
    """The record of a row of `messages`."""
    return ObservedMessage(row["message_id"], row["envelope"], row["observed_at"], row["created_in"])


def attempt_row(attempt: ObservedAttempt) -> dict[str, Any]:
    """The columns of `attempts`."""
    return {
        "message_id": attempt.message_id,
        "attempt": attempt.attempt,
        "retriable": attempt.retriable,
        "gmps": bits_from_gmps(attempt.gmps),
        "source_chain": attempt.source_chain,
        "block_number": attempt.block.number,
        "block_hash": attempt.block.hash,
        "transaction_hash": attempt.transaction_hash,
    }


def attempt_from(row: RowMapping) -> ObservedAttempt:
    """An attempt from its row."""
    return ObservedAttempt(
        message_id=row["message_id"],
        attempt=row["attempt"],
        retriable=row["retriable"],
        gmps=gmps_from_bits(row["gmps"]),
        source_chain=row["source_chain"],
        block=BlockRef(row["block_number"], row["block_hash"]),
        transaction_hash=row["transaction_hash"],
    )


def dispatch_columns(dispatch: Dispatch) -> dict[str, Any]:
    """The columns of `outbox` that a reorg may change."""
    return {
        "transport_id": dispatch.transport_id,
        "block_number": dispatch.block_number,
        "block_hash": dispatch.block_hash,
        "transaction_hash": dispatch.transaction_hash,
        "log_index": dispatch.log_index,
        "evidence": json.dumps(dict(dispatch.evidence), sort_keys=True),
    }


def state_columns(entry: OutboxEntry) -> dict[str, Any]:
    """The columns of `outbox` that say how far an entry is."""
    delivery = entry.delivery
    return {
        "state": entry.state.value,
        "available_at": entry.available_at,
        "failed_tries": entry.failed_tries,
        "last_error": entry.last_error,
        "fence": entry.fence,
        "claimed_at": entry.claimed_at,
        "claimed_by": entry.claimed_by,
        "lease_until": entry.lease_until,
        "delivered_at": entry.delivered_at,
        "delivery_block_number": delivery and delivery.block.number,
        "delivery_block_hash": delivery and delivery.block.hash,
        "delivery_transaction_hash": delivery and delivery.transaction_hash,
        "confirmed_at": entry.confirmed_at,
        "orphaned_at": entry.orphaned_at,
        "setbacks": entry.setbacks,
    }


def entry_row(entry: OutboxEntry) -> dict[str, Any]:
    """The columns of `outbox`."""
    dispatch = entry.dispatch
    return {
        "event_id": entry.event_id,
        "message_id": dispatch.message_id,
        "gmp": int(dispatch.gmp),
        "attempt_number": entry.attempt_number,
        "kind": int(entry.kind),
        "source_chain": dispatch.source_chain,
        "destination_chain": dispatch.destination_chain,
        "ordering_key": entry.ordering_key,
        "created_at": entry.created_at,
        **dispatch_columns(dispatch),
        **state_columns(entry),
    }


def delivered_columns(delivered: Delivered, now: float) -> dict[str, Any]:
    """The columns of `outbox` that differ between deliveries, with the entry's id as `key`."""
    delivery = delivered.delivery
    return {
        "key": delivered.claim.event_id,
        "delivered_at": now,
        "delivery_block_number": delivery and delivery.block.number,
        "delivery_block_hash": delivery and delivery.block.hash,
        "delivery_transaction_hash": delivery and delivery.transaction_hash,
    }


ENTRY_COLUMNS: Final = (
    *(column for column in outbox.c if column is not outbox.c.sequence),
    messages.c.envelope,
)
"""What `entry_from` reads, in this order."""


def entry_from(row: Sequence[Any]) -> OutboxEntry:
    """An entry from its `ENTRY_COLUMNS`. By place, since claims read many: names would cost as much as all the rest."""
    event_id, _, _, attempt, kind, _, _, ordering_key, created_at = row[:9]
    state, available_at, failed_tries, last_error, fence, claimed_at, claimed_by, lease_until, delivered_at = row[15:24]
    confirmed_at, orphaned_at, setbacks = row[27:30]
    return OutboxEntry(
        event_id=event_id,
        attempt_number=attempt,
        kind=Kind(kind),
        ordering_key=ordering_key,
        created_at=created_at,
        dispatch=_dispatch_from(row),
        state=OutboxState(state),
        available_at=available_at,
        failed_tries=failed_tries,
        setbacks=setbacks,
        last_error=last_error,
        fence=fence,
        claimed_at=claimed_at,
        claimed_by=claimed_by,
        lease_until=lease_until,
        delivered_at=delivered_at,
        delivery=_delivery_from(row),
        confirmed_at=confirmed_at,
        orphaned_at=orphaned_at,
    )


def _dispatch_from(row: Sequence[Any]) -> Dispatch:
    message_id, gmp, _, _, source_chain, destination_chain = row[1:7]
    transport_id, block_number, block_hash, transaction_hash, log_index, evidence = row[9:15]
    return Dispatch(
        gmp=Gmp(gmp),
        message_id=message_id,
        source_chain=source_chain,
        destination_chain=destination_chain,
        envelope=row[30],
        transport_id=transport_id,
        block_number=block_number,
        block_hash=block_hash,
        transaction_hash=transaction_hash,
        log_index=log_index,
        evidence=orjson.loads(evidence),
    )


def _delivery_from(row: Sequence[Any]) -> Delivery | None:
    number, block_hash, transaction_hash = row[24:27]
    return None if block_hash is None else Delivery(BlockRef(number, block_hash), transaction_hash)


def failure_row(event_id: str, recorded: RecordedFailure) -> dict[str, Any]:
    """The columns of `outbox_failures`."""
    failure = recorded.failure
    return {
        "event_id": event_id,
        "number": recorded.number,
        "worker": recorded.worker,
        "failed_at": failure.at,
        "kind": failure.kind.value,
        "code": failure.code,
        "message": failure.message,
        "delivery_snapshot": snapshot_text(failure.delivery_snapshot),
        "letter": failure.letter,
    }


def failure_from(row: RowMapping) -> RecordedFailure:
    """A failure from its row."""
    failure = Failure(
        at=row["failed_at"],
        kind=FailureKind(row["kind"]),
        code=row["code"],
        message=row["message"],
        delivery_snapshot=snapshot_from(row["delivery_snapshot"]),
        letter=row["letter"],
    )
    return RecordedFailure(row["number"], row["worker"], failure)


def slot_columns(slot: Slot) -> dict[str, Any]:
    """The columns of `slots`, but for its key."""
    return {
        "chain_id": slot.chain_id,
        "account": slot.account,
        "nonce": slot.nonce,
        "transaction_key": slot.transaction_key,
        "call_to": slot.call and slot.call.to,
        "call_data": slot.call and slot.call.data,
        "call_value": slot.call and str(slot.call.value),
        "call_gas": slot.call and slot.call.gas,
        "reserved_at": slot.reserved_at,
        "broadcast_at": slot.broadcast_at,
        **inclusion_columns(slot),
    }


def inclusion_columns(slot: Slot) -> dict[str, Any]:
    """The columns of `slots` that change with a transaction's way into a block."""
    included = slot.included
    return {
        "state": slot.state.value,
        "included_hash": included and included.transaction_hash,
        "included_block_number": included and included.block.number,
        "included_block_hash": included and included.block.hash,
        "succeeded": included and included.succeeded,
    }


def part_rows(slot: Slot) -> list[dict[str, Any]]:
    """The columns of `slot_parts` for each of a slot's parts."""
    return [
        {"slot_id": slot.slot_id, "position": position, "transaction_key": part.transaction_key, "gas": part.gas}
        for position, part in enumerate(slot.parts)
    ]


def slot_from(row: RowMapping, versions: tuple[SignedVersion, ...], parts: tuple[BatchedCall, ...]) -> Slot:
    """A slot from its row, what was signed for it, and what shares it."""
    call = included = None
    if row["call_to"] is not None:
        call = Call(to=row["call_to"], data=row["call_data"], value=int(row["call_value"]), gas=row["call_gas"])
    if row["included_hash"] is not None:
        block = BlockRef(row["included_block_number"], row["included_block_hash"])
        included = Inclusion(row["included_hash"], block, row["succeeded"])
    return Slot(
        slot_id=row["slot_id"],
        chain_id=row["chain_id"],
        account=row["account"],
        nonce=row["nonce"],
        transaction_key=row["transaction_key"],
        parts=parts,
        call=call,
        state=SlotState(row["state"]),
        reserved_at=row["reserved_at"],
        versions=versions,
        broadcast_at=row["broadcast_at"],
        included=included,
    )


def version_row(slot_id: int, number: int, version: SignedVersion) -> dict[str, Any]:
    """The columns of `signed_versions`."""
    return {
        "slot_id": slot_id,
        "number": number,
        "hash": version.hash,
        "raw": version.raw,
        "max_fee": version.fees.max_fee,
        "priority_fee": version.fees.priority_fee,
        "signed_at": version.signed_at,
        "is_noop": version.is_noop,
    }


def version_from(row: RowMapping) -> SignedVersion:
    """A signed version from its row."""
    return SignedVersion(
        hash=row["hash"],
        raw=row["raw"],
        fees=Fees(row["max_fee"], row["priority_fee"]),
        signed_at=row["signed_at"],
        is_noop=row["is_noop"],
    )


def job_row(job: RetryJob) -> dict[str, Any]:
    """The columns of `retry_jobs`, but for its key."""
    request = {column: getattr(job.request, column) for column in COLUMNS}
    request["missing_gmps"] = bits_from_gmps(job.request.missing_gmps)
    request["received_gmps"] = bits_from_gmps(job.request.received_gmps)
    return {
        **request,
        "state": job.state.value,
        "available_at": job.available_at,
        "tries": job.tries,
        "outcome": job.outcome,
        "held_by": job.held_by,
        "letter": job.letter,
        "gmps": bits_from_gmps(job.gmps),
        "transaction_hash": job.transaction_hash,
        "finished_at": job.finished_at,
    }


def payment_row(payment: RetryPayment) -> dict[str, Any]:
    """The columns of `retry_payments`."""
    return {**asdict(payment), "wei": str(payment.wei)}


def job_from(row: RowMapping) -> RetryJob:
    """A retry from its row."""
    return RetryJob(
        request=RetryRequest.from_row({column: row[column] for column in COLUMNS}),
        state=RetryState(row["state"]),
        available_at=row["available_at"],
        tries=row["tries"],
        outcome=row["outcome"],
        held_by=RetryBudget(row["held_by"]) if row["held_by"] else None,
        letter=row["letter"],
        gmps=gmps_from_bits(row["gmps"]),
        transaction_hash=row["transaction_hash"],
        finished_at=row["finished_at"],
    )
