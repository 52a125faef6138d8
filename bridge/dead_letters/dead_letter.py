"""The contents of a dead letter: the verbatim message, its history, and its origin. Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bridge.protocol.addresses import AddressError, from_bytes32
from bridge.protocol.classification import class_of
from bridge.protocol.failures import Failure, RecordedFailure
from bridge.protocol.message import EnvelopeError, Message, decode_envelope
from bridge.protocol.times import iso_milliseconds
from bridge.records.dead_letters import ACTION_ROUTE, Draft, LogRecord, RecordKind, action_letter_id
from bridge.records.outbox import OutboxEntry, snapshot_of

PIPELINE: Final = "observe>attest>deliver"


def entered_record(
    entry: OutboxEntry,
    history: Sequence[RecordedFailure],
    last: Failure,
    *,
    reason: str,
    siblings: Sequence[OutboxEntry],
    now: float,
    retention: float,
) -> Draft:
    """Builds the record of a delivery that used up its tries.

    Args:
        entry: The delivery.
        history: The delivery's failures in the outbox.
        last: The failure that used up the tries, which is not in the outbox yet.
        reason: Reason for giving up, such as `MAX_RETRIES_EXCEEDED`.
        siblings: All deliveries of the message, for the snapshot in its routing slip.
        now: Unix seconds.
        retention: Minimum time in seconds for which the document is kept.
    """
    dispatch = entry.dispatch
    failures = [*history, RecordedFailure(len(history) + 1, entry.claimed_by or "", last)]
    document = {
        "eventId": entry.event_id,
        "messageId": f"0x{dispatch.message_id.hex()}",
        "messageType": entry.kind.name,
        "sourceChainId": dispatch.source_chain,
        "destinationChainId": dispatch.destination_chain,
        "gmp": dispatch.gmp.label,
        "attempt": entry.attempt_number,
        "reason": reason,
        "originalMessage": f"0x{dispatch.envelope.hex()}",
        "failureHistory": [_failure(one) for one in failures],
        "routingSlip": routing_slip(entry, siblings),
        "headers": headers(entry, last, reason),
    }
    return _entering(document, now, retention)


def action_record(
    action_id: bytes,
    branch: int,
    message: Message,
    *,
    deliveries: Sequence[OutboxEntry],
    failure: Failure,
    reason: str,
    attempt: int,
    evidence: Mapping[str, Any],
    now: float,
    retention: float,
) -> Draft:
    """Builds the record for a participant of an action that contradicts the decision.

    Args:
        action_id: The action.
        branch: Number of the participant.
        message: Message that carries the decision to the participant.
        deliveries: All deliveries of that message.
        failure: The failure.
        reason: State of the action.
        attempt: Number of the phase's retries.
        evidence: Records of the coordinator and of the participant.
        now: Unix seconds.
        retention: Minimum time in seconds for which the document is kept.
    """
    document = {
        "eventId": action_letter_id(action_id, branch),
        "messageId": f"0x{message.id.hex()}",
        "messageType": message.kind.name,
        "sourceChainId": message.source_chain,
        "destinationChainId": message.destination_chain,
        "gmp": ACTION_ROUTE,
        "attempt": attempt,
        "reason": reason,
        "originalMessage": f"0x{message.encode().hex()}",
        "failureHistory": [_failure(RecordedFailure(1, "", failure))],
        "routingSlip": {"deliveries": [line.value() for line in snapshot_of(deliveries)]},
        "headers": _failure_headers(failure, reason),
        "action": dict(evidence),
    }
    return _entering(document, now, retention)


def _entering(document: dict[str, Any], now: float, retention: float) -> Draft:
    kept = {
        "enteredDLQAt": iso_milliseconds(now),
        "retentionUntil": iso_milliseconds(now + retention),
        "retentionUntilSeconds": now + retention,
    }
    event_id = document["eventId"]
    return Draft(
        key=f"entered/{event_id}", kind=RecordKind.ENTERED, event_id=event_id, at=now, document=document | kept
    )


def returned_record(entered: Draft, last: LogRecord) -> Draft:
    """Builds the record of a delivery that used up its tries again, after the event that `last` records."""
    return Draft(
        key=f"returned/{entered.event_id}/{last.sequence}",
        kind=RecordKind.RETURNED,
        event_id=entered.event_id,
        at=entered.at,
        document=entered.document,
    )


def recovered_record(letter: str, evidence: Mapping[str, Any], last: LogRecord, now: float) -> Draft:
    """Builds the record of a message that arrived after its letter was written."""
    return Draft(
        key=f"recovered/{letter}/{last.sequence}",
        kind=RecordKind.RECOVERED,
        event_id=letter,
        at=now,
        document={"eventId": letter, "recoveredAt": iso_milliseconds(now), **evidence},
    )


def headers(entry: OutboxEntry, last: Failure, reason: str) -> dict[str, str]:
    """Returns the headers by which a consumer can sort dead letters without parsing them.

    `topic` is the source router, `partition` the lane with its GMP, and `offset` the block (with its hash) and
    log index. `pipeline`, `destination`, `filter` and `transform` are the step, its target, the log filter and
    the result.
    """
    dispatch = entry.dispatch
    return {
        **_failure_headers(last, reason),
        "waybill-source-topic": f"{dispatch.source_chain}/{_router(dispatch.envelope)}",
        "waybill-source-partition": entry.ordering_key,
        "waybill-source-offset": f"{dispatch.block_number}/{dispatch.log_index}@0x{dispatch.block_hash.hex()}",
        "waybill-pipeline": PIPELINE,
        "waybill-destination": str(dispatch.destination_chain),
        "waybill-filter": f"{dispatch.gmp.label} dispatches of the router",
        "waybill-transform": f"{dispatch.gmp.label} attestation",
    }


def _failure_headers(last: Failure, reason: str) -> dict[str, str]:
    return {
        "waybill-error": last.message,
        "waybill-error-type": last.code,
        "waybill-reason": reason,
        "waybill-timestamp": iso_milliseconds(last.at),
    }


def routing_slip(entry: OutboxEntry, siblings: Sequence[OutboxEntry]) -> dict[str, Any]:
    """Returns the message's route, with the state of each delivery at the time when the given delivery died."""
    dispatch = entry.dispatch
    return {
        "sourceTransaction": f"0x{dispatch.transaction_hash.hex()}",
        "sourceBlock": dispatch.block_number,
        "sourceBlockHash": f"0x{dispatch.block_hash.hex()}",
        "transportId": dispatch.transport_id,
        "deliveries": [
            {
                "eventId": one.event_id,
                "state": "DEAD" if one.event_id == entry.event_id else one.state.value,
                "failedTries": one.failed_tries + (one.event_id == entry.event_id),
                "lastError": one.last_error,
            }
            for one in siblings
        ],
    }


def _failure(recorded: RecordedFailure) -> dict[str, Any]:
    failure = recorded.failure
    return {
        "attemptNumber": recorded.number,
        "failedAt": iso_milliseconds(failure.at),
        "errorCode": failure.code,
        "errorMessage": failure.message,
        "kind": failure.kind.value,
        "disposition": class_of(failure.code).disposition.value,
        "worker": recorded.worker,
        "routingSlipSnapshot": [line.value() for line in failure.delivery_snapshot],
    }


def _router(envelope: bytes) -> str:
    try:
        return from_bytes32(decode_envelope(envelope).message.source_router)
    except (EnvelopeError, AddressError):
        return "unknown"
