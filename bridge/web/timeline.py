"""The steps of a message, with the time between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bridge.protocol.contracts import explain_refusal, explain_revert
from bridge.protocol.gmps import gmps_from_bits
from bridge.protocol.indexed import EventRecord
from bridge.queries.lanes import gmp_name
from bridge.records.jobs import RetryJob, RetryState
from bridge.web.cells import without_solidity


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a message."""

    title: str
    tone: str  # good, warn, bad or plain
    at: float  # Unix seconds
    after: float = 0.0  # seconds since the step before
    chain_id: int | None = None  # None for a decision of index or relayer
    block_number: int | None = None
    transaction_hash: bytes | None = None
    note: str = ""  # its reason and outcome


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction that made one or more steps of a message."""

    chain_id: int
    hash: bytes
    steps: tuple[str, ...]  # the steps' titles


def transactions(steps: Iterable[Step]) -> tuple[Transaction, ...]:
    """Returns the transactions behind the steps, each once, in chronological order."""
    titles: dict[tuple[int, bytes], list[str]] = {}
    for step in steps:
        if step.chain_id is not None and step.transaction_hash is not None:
            titles.setdefault((step.chain_id, step.transaction_hash), []).append(step.title)
    return tuple(Transaction(chain_id, digest, tuple(of_one)) for (chain_id, digest), of_one in titles.items())


def timeline(
    events: Sequence[EventRecord],
    jobs: Sequence[RetryJob],
    *,
    is_proven: bool = True,
) -> list[Step]:
    """Returns the chains' events and the retries decided by index and relayer, in chronological order.

    Args:
        events: the message's events.
        jobs: the retries that the index or an operator requested.
        is_proven: whether the facts are consistent. If not, no step is shown as a success.
    """
    steps = [_of_event(event) for event in events if event.event != "MessageIdCreated"]
    if not is_proven:
        steps = [replace(step, tone="plain") if step.tone == "good" else step for step in steps]
    made = {event.transaction_hash: event.block_time for event in events if event.event == "MessageRetried"}
    for job in jobs:
        request = job.request
        # Block times are whole seconds, so a retry may seem to precede its request in the same second.
        at = min(request.requested_at, made.get(job.transaction_hash or b"", request.requested_at))
        title = f"Retry {request.attempt}: {request.reason}"
        steps.append(Step(title=title, tone="warn", at=at, note=_ended(job)))
    steps.sort(key=lambda step: (step.at, step.transaction_hash is not None))
    before = steps[0].at if steps else 0.0
    timed = []
    for step in steps:
        timed.append(replace(step, after=max(0.0, step.at - before)))
        before = step.at
    return timed


_ENDS: Final[Mapping[RetryState, str]] = {
    RetryState.OPEN: "The relayer has not sent it yet",
    RetryState.SENDING: "The relayer is sending it",
    RetryState.SENT: "The relayer sent it",
    RetryState.NOT_NEEDED: "It was not needed any more",
    RetryState.IMPOSSIBLE: "It can't be made",
}


def _ended(job: RetryJob) -> str:
    """Describes the outcome of a retry request."""
    outcome = job.outcome.replace("`", "")  # the headline has the command
    return f"{_ENDS[job.state]}{f': {outcome}' if outcome else ''}."


def _of_event(event: EventRecord) -> Step:
    title, tone = _words(event)
    return Step(
        title=title,
        tone=tone,
        at=event.block_time,
        chain_id=event.chain_id,
        block_number=event.block_number,
        transaction_hash=event.transaction_hash,
    )


_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "MessageRouted": ("Sent over {gmps}", "plain"),
    "MessageUnfunded": ("Created, not paid for yet over {gmps}", "warn"),
    "MessageRetried": ("Retry {attempt} over {gmps}", "plain"),
    "DispatchFailed": ("{gmp} did not accept it: {reason}", "bad"),
    "MessageReceived": ("{gmp} delivered: {counted}", "good"),
    "MessageExecuted": ("Executed by the recipient", "good"),
    "ExecutionFailed": ("The recipient refused: {reason}", "bad"),
    "ExecutionDeferred": ("The delivery left too little gas to execute it", "warn"),
    "DuplicateAbsorbed": ("{gmp} delivered again: absorbed, nothing changed", "plain"),
    "MessageExpired": ("Marked as expired", "bad"),
    "CancellationRequested": ("Its sender asked to cancel it", "warn"),
    "MessageCancelled": ("Cancelled", "bad"),
    "CancellationRejected": ("The cancellation came too late", "warn"),
    "LateReceipt": ("{gmp} delivered it after its end: nothing changed", "plain"),
    "OutcomeReported": ("The destination reported the outcome: {outcome}", "good"),
    "OutcomeContradicted": ("A later report contradicts the first: {second}", "bad"),
}
"""By event, its text and tone."""

_OUTCOMES: Final[Mapping[int | None, str]] = {1: "executed", 2: "expired", 3: "cancelled"}


def _words(event: EventRecord) -> tuple[str, str]:
    words, tone = _WORDS.get(event.event, (event.event, "plain"))
    over = ", ".join(item.title for item in sorted(gmps_from_bits(event.gmps or 0))) or "no GMP"
    explained = explain_refusal if event.event == "ExecutionFailed" else explain_revert
    reason = without_solidity(explained(event.reason or b""))
    shown = words.format(
        gmp=gmp_name(event.gmp),
        gmps=over,
        attempt=event.attempt,
        reason=reason,
        counted=_counted(event),
        outcome=_OUTCOMES.get(event.outcome, event.outcome),
        second=_OUTCOMES.get(event.second_outcome, event.second_outcome),
    )
    return shown, tone


def _counted(event: EventRecord) -> str:
    receipts, quorum = event.receipts or 0, event.quorum or 0
    return f"{receipts}, more than the {quorum} needed" if receipts > quorum else f"{receipts} of {quorum}"
