"""Explains the state of a message, the reason, and the next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from bridge.protocol.addresses import from_bytes32
from bridge.protocol.contracts import explain_refusal
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import (
    ChainRecord,
    DivergenceRecord,
    EventRecord,
    Index,
    MessageRecord,
    PausedThing,
    PauseRecord,
    ReceiptRecord,
)
from bridge.protocol.lanes import Lane, LaneChange
from bridge.protocol.message import EnvelopeError, Kind, Message, decode_envelope
from bridge.protocol.status import Status
from bridge.protocol.text import MOST_QUOTED, shortened
from bridge.queries.advice import Act, Circumstances, Offer, Standing, lane_pause, next_action, offers
from bridge.queries.index_lag import IndexLag
from bridge.queries.lanes import GmpPause, chain_name, gmp_name
from bridge.records.dead_letters import LetterStatus
from bridge.records.jobs import ExecutionJob, ExecutionState, RetryJob, RetryState, SyncJob
from bridge.records.outbox import STUCK_AFTER, OutboxEntry, OutboxState
from bridge.records.spending import Blocked
from bridge.store import Store
from bridge.store.dead_letters import DeadLetterLog


class Stage(StrEnum):
    """The progress of one GMP with a message."""

    REFUSED = "REFUSED"  # the GMP did not accept it
    DISPATCHED = "DISPATCHED"  # the GMP accepted it; no relayer has observed it yet
    ATTESTING = "ATTESTING"  # a relayer has observed it and waits for the GMP's attestation
    DELIVERING = "DELIVERING"
    DELIVERED = "DELIVERED"  # the relayer delivered it; the index has not read its receipt yet
    BLOCKED = "BLOCKED"  # one of the relayer's spending bounds blocks it
    FAILING = "FAILING"
    DEAD = "DEAD"
    RECEIVED = "RECEIVED"


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpProgress:
    """The progress of one GMP with a message, with its attempts and errors."""

    gmp: int  # its number, which may be unknown to this version
    stage: Stage
    attempts: tuple[int, ...]  # attempts of the message that this GMP accepted
    failed_tries: int  # the relayer's failed tries to deliver
    setbacks: int  # interrupted deliveries that do not count as tries; see `OutboxEntry.setbacks`
    last_error: str | None
    next_try_at: float | None  # Unix seconds
    claimed_at: float | None  # when a relayer began the current try, in Unix seconds
    letter: str | None  # the id of its dead letter
    receipt: ReceiptRecord | None  # the index's record of its deliveries


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The records of the relayer and the index about a message. The default values mean that neither has run.

    Attributes:
        relayed: the message as observed by the relayer.
        retriable: whether the message was sent as retriable; None if the relayer did not observe that.
        entries: the message's deliveries.
        retries: the relayer's retries, oldest first.
        changes: the message's state change on every destination; empty if there is none.
        execution: the relayer's execution job, if no delivery executed the message.
        blocked: the work that a spending bound blocks.
        lane: the pause or halt of the message's lane; None if the lane is running.
        dead_letters: the ids of the message's dead letters.
        is_decided: whether an operator has decided about every dead letter.
        record: the message in the index.
        events: the message's events, in chronological order.
        receipts: the deliveries of each GMP.
        divergences: the message's divergences.
        pauses: the pauses on the routers of the message's chains, by chain.
        chains: the progress of the index, by chain.
    """

    relayed: Message | None = None
    retriable: bool | None = None
    entries: Sequence[OutboxEntry] = ()
    retries: Sequence[RetryJob] = ()
    changes: Sequence[SyncJob] = ()
    execution: ExecutionJob | None = None
    blocked: Sequence[Blocked] = ()
    lane: LaneChange | None = None
    dead_letters: frozenset[str] = frozenset()
    is_decided: bool = False
    record: MessageRecord | None = None
    events: Sequence[EventRecord] = ()
    receipts: Sequence[ReceiptRecord] = ()
    divergences: Sequence[DivergenceRecord] = ()
    pauses: Mapping[int, Sequence[PauseRecord]] = field(default_factory=dict)
    chains: Mapping[int, ChainRecord] = field(default_factory=dict)

    @property
    def message(self) -> Message | None:
        """Returns the message, from the relayer's observation or the index's event.

        Returns None if the message is unknown or has an unsupported version.
        """
        envelope = next((event.envelope for event in self.events if event.envelope), None)
        try:
            return self.relayed or (decode_envelope(envelope).message if envelope else None)
        except EnvelopeError:
            return None

    @property
    def receipts_seen(self) -> frozenset[Gmp]:
        """Returns the GMPs that have delivered, according to the index or, without an index, the relayer."""
        delivered = (one.dispatch.gmp for one in self.entries if one.state is OutboxState.DELIVERED)
        return self.record.received if self.record else frozenset(delivered)

    @property
    def is_executed(self) -> bool:
        """Whether the index has seen the message's execution."""
        return self.record is not None and self.record.status is Status.EXECUTED

    @property
    def contradictions(self) -> list[str]:
        """Returns, in words, the kinds of divergence that make the message DIVERGED."""
        kinds = (one.kind.replace("_", " ").lower() for one in self.divergences if one.contradicts_message)
        return list(dict.fromkeys(kinds))

    @property
    def is_contradicted(self) -> bool:
        """Whether there are contradictions, whose evidence must be examined before anything else is done."""
        return any(one.is_contradiction for one in self.divergences)


def read_stored(
    message_id: bytes, index: Index | None, store: Store | None, dead_letters: DeadLetterLog | None
) -> Stored:
    """Reads the records about a message.

    Args:
        message_id: the message's id.
        index: the network's index; None if there is none.
        store: the relayer's store; None if there is none.
        dead_letters: the log of dead letters; None if there is none.
    """
    stored = Stored()
    if store is not None:
        observed = store.observations.message(message_id)
        flags = (one.retriable for one in store.observations.attempts(message_id))
        change = store.jobs.newest(SyncJob, message_id)
        stored = replace(
            stored,
            relayed=observed.message if observed else None,
            retriable=next((one for one in flags if one is not None), None),
            entries=store.outbox.entries(message_id),
            retries=store.jobs.of_message(RetryJob, message_id),
            changes=store.jobs.of_change(change.record) if change else (),
            execution=store.jobs.newest(ExecutionJob, message_id),
            blocked=store.spending.blocked(message_id),
            lane=_held_lane(store, observed.message) if observed else None,
        )
    if dead_letters is not None:
        found = dead_letters.dead_letters(message_id=message_id)
        stored = replace(
            stored,
            dead_letters=frozenset(one.event_id for one in found),
            is_decided=bool(found) and all(one.status is not LetterStatus.PENDING_REVIEW for one in found),
        )
    if index is not None:
        stored = replace(
            stored,
            record=index.message(message_id),
            events=index.events(message_id),
            receipts=index.receipts(message_id),
            divergences=index.divergences_of(message_id),
            chains={chain.chain_id: chain for chain in index.chains()},
        )
        known = stored.message or stored.record
        ends = (known.source_chain, known.destination_chain) if known else ()
        stored = replace(stored, pauses={chain: index.pauses(chain) for chain in ends if chain is not None})
    return stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The state of a message, the reason, and the next step."""

    message_id: bytes
    message: Message | None  # None if no chain is known to have created it
    status: Status
    receipts: frozenset[Gmp]
    reason: str
    next_action: str
    standing: Standing
    gmps: tuple[GmpProgress, ...]
    lags: tuple[IndexLag, ...] = ()  # chains of the message that the index is behind on
    unknown: tuple[str, ...] = ()  # for each chain that did not respond, what is unknown without it
    divergences: Sequence[DivergenceRecord] = ()  # contradictory facts about it, according to the index
    gmp_pauses: Sequence[GmpPause] = ()  # pauses of its lane's GMPs on both chains
    changes: Sequence[SyncJob] = ()  # the applications of its state change, on every destination

    @property
    def offers(self) -> tuple[Offer, ...]:
        """Returns the operations that the message's routers accept now."""
        return offers(self.standing)

    def command(self, offer: Offer) -> str:
        """Returns the command for an operation."""
        over = self.standing.retry_option if offer.act is Act.RETRY else ""
        return f"waybill message {offer.act} 0x{self.message_id.hex()}{over}"


def explain(
    message: Message,
    stored: Stored,
    *,
    receipts: frozenset[Gmp],
    executed: bool,
    outcome: Status | None = None,
    needed: int | None = None,
    refusal: str | None = None,
    recipient_is_missing: bool = False,
    unfunded: bool = False,
    circumstances: Circumstances = Circumstances(),  # noqa: B008  frozen
    usable: frozenset[Gmp] = frozenset(),
    gmp_pauses: Sequence[GmpPause] | None = None,
    left_out: frozenset[Gmp] = frozenset(),
    lags: Sequence[IndexLag] = (),
    unknown: Sequence[str] = (),
    now: float,
) -> Explanation:
    """Combines the records of the destination's router, the index and the relayer's outbox.

    The router is authoritative for receipts and execution, since index and relayer may be behind or stopped.

    Args:
        message: the message, as created on its source.
        stored: the records of relayer and index.
        receipts: the GMPs whose receipts count on the destination now.
        executed: whether the destination's router has executed the message.
        outcome: the final state on that router, or EXPIRED if it would accept `expire`; None if the message is open.
        needed: the number of receipts that the router requires; None means the message's own quorum.
        refusal: the reason why the recipient rejects the message, if the router was queried.
        recipient_is_missing: whether the recipient has no code.
        unfunded: whether the message was created without its fee and nobody has paid the fee since.
        circumstances: the other facts that determine the next step.
        usable: the GMPs on both chains of the message.
        gmp_pauses: the GMPs paused on the routers of the message's chains; None uses the index's records.
        left_out: the GMPs that the relayer's settings exclude.
        lags: the message's chains on which the index is behind.
        unknown: statements about chains that do not respond; see `unknown_without`.
        now: Unix seconds.
    """
    index, execution = stored.record, stored.execution
    gmps = _progress(stored, receipts)
    quorum = message.quorum if needed is None else needed
    has_quorum = len(receipts) >= quorum
    is_rejected = execution is not None and execution.state is ExecutionState.REJECTED
    pending = execution if is_rejected or (execution is not None and execution.finished_at is None) else None
    refused = refusal is not None or (pending is not None and pending.state in _REFUSALS)
    status = _status(receipts, executed=executed, outcome=outcome, index=index, has_quorum=has_quorum, refused=refused)
    if unfunded and status is Status.ROUTED:
        status = Status.UNFUNDED
    given_up = {progress.stage for progress in gmps} - {Stage.REFUSED} in _GIVEN_UP
    if status in _WAITING and given_up and not has_quorum:
        status = Status.DEAD
    if status.is_final:
        pending = None
    facts = _Facts(
        status=status,
        receipts=receipts,
        quorum=quorum,
        stored=stored,
        gmps=gmps,
        refusal=refusal,
        execution=pending,
        left_out=left_out,
    )
    pauses = stored_pauses(stored, now) if gmp_pauses is None else gmp_pauses
    paused = frozenset(one.gmp for one in pauses)
    untried = tuple(sorted(usable - paused - {one.gmp for one in gmps}))
    standing = Standing(
        status=status,
        kind=message.kind,
        has_quorum=has_quorum,
        lacking=facts.lacking,
        untried=untried,
        circumstances=circumstances,
    )
    parts = [
        _reason(message, facts, now),
        *(
            []
            if status.is_final
            else [
                *([_missing(message)] if recipient_is_missing else []),
                *_gmps_paused(message, pauses),
                *_lane_held(stored.lane),
                *_blocked_retries(stored.retries),
            ]
        ),
        *_prospects(facts, now),
        *unknown,
    ]
    return Explanation(
        message_id=message.id,
        message=message,
        status=status,
        receipts=receipts,
        reason="; ".join(parts),
        next_action=_next_action(stored, standing, message.id),
        standing=standing,
        gmps=gmps,
        gmp_pauses=pauses,
        lags=tuple(lags),
        unknown=tuple(unknown),
        divergences=stored.divergences,
        changes=stored.changes,
    )


def unknown_without(message: Message, silent: Mapping[int, str]) -> list[str]:
    """Returns a line for each chain that does not respond, stating what is unknown without it.

    Args:
        message: the message.
        silent: the names of the chains that do not respond, by chain id.
    """
    missing = {
        message.source_chain: "whether it would take a retry or a cancellation",
        message.destination_chain: "what it has received and executed",
    }
    return [
        f"{silent[chain]} does not answer: {what} is known only as far as relayer and index have seen"
        for chain, what in missing.items()
        if chain in silent
    ]


def explain_stored(message: Message, stored: Stored, usable: frozenset[Gmp], now: float) -> Explanation:
    """Explains a message from the records of relayer and index, without querying its chains.

    Args:
        message: the message.
        stored: the records.
        usable: the GMPs on both chains of the message.
        now: Unix seconds.
    """
    return explain(
        message,
        stored,
        receipts=stored.receipts_seen,
        executed=stored.is_executed,
        needed=stored.record.quorum if stored.record else None,
        circumstances=stored_circumstances(message, stored, now),
        usable=usable,
        now=now,
    )


def stored_explanation(deployment: Deployment, message_id: bytes, stored: Stored, now: float) -> Explanation:
    """Explains a message from the records of relayer and index, even if these do not contain its creation.

    Args:
        deployment: the network.
        message_id: the message's id.
        stored: the records.
        now: Unix seconds.
    """
    message, record = stored.message, stored.record
    if message is not None:
        usable = deployment.gmps_between(message.source_chain, message.destination_chain)
        return explain_stored(message, stored, usable, now)
    executed_on = [chain_name(deployment, record.destination_chain)] if record and record.executions else []
    return explain_unsent(
        message_id, stored, executed_on, chain_name(deployment, record.source_chain if record else None)
    )


def stored_circumstances(message: Message, stored: Stored, now: float) -> Circumstances:
    """Returns the circumstances known to relayer and index.

    Args:
        message: the message.
        stored: the records.
        now: Unix seconds.
    """
    here, there, record = message.source_chain, message.destination_chain, stored.record
    times = {chain: max(read.block_time, int(now)) for chain, read in stored.chains.items()}
    return Circumstances(
        retriable=record.retriable if record and record.source_block is not None else None,
        is_ended=record.is_ended if record else False,
        is_cancelling=record is not None and record.cancellation_id is not None,
        cancellation=record.cancellation_id if record else None,
        source_expired=message.expires_at is not None and times.get(here, 0) > message.expires_at,
        source_paused_until=lane_pause(stored.pauses.get(here, ()), there, times.get(here, 0)),
        destination_paused_until=lane_pause(stored.pauses.get(there, ()), here, times.get(there, 0)),
        has_letter=bool(stored.dead_letters),
        is_decided=stored.is_decided,
        replaced_by=record.replaced_by if record else None,
    )


def explain_unsent(
    message_id: bytes, stored: Stored, executed_on: Sequence[str], unread: str | None = None
) -> Explanation:
    """Explains a message whose creation is unknown.

    Args:
        message_id: the message's id.
        stored: the records of relayer and index.
        executed_on: the names of the chains whose routers report the message's execution.
        unread: the name of the source if no chain was queried, or if the source did not respond; None if all
            chains were queried.
    """
    status = stored.record.status if stored.record else Status.UNKNOWN
    if stored.contradictions or (executed_on and unread is None):
        status = Status.DIVERGED
    unsent = "no chain of the network has created it"
    if unread is not None:
        never = "no chain that has been read created it"
        behind = f"{unread} has not been read far enough to show that it was ever sent"
        unsent = never if stored.divergences or status is Status.DIVERGED else behind
    evidence = (
        f"{' and '.join(executed_on)} says that it was executed" if executed_on else "only its destination has it"
    )
    found = f"facts about it contradict each other: {', '.join(stored.contradictions)}"
    standing = Standing(status=status, kind=Kind.PLAIN)
    return Explanation(
        message_id=message_id,
        message=None,
        status=status,
        receipts=stored.record.received if stored.record else frozenset(),
        reason="; ".join([*([found] if stored.contradictions else []), f"{evidence}, and {unsent}"]),
        next_action=_next_action(stored, standing, message_id),
        standing=standing,
        gmps=_progress(stored, stored.record.received if stored.record else frozenset()),
        divergences=stored.divergences,
    )


def _next_action(stored: Stored, standing: Standing, message_id: bytes) -> str:
    """Returns the next step. Contradictions come first."""
    return next_action(replace(standing, status=Status.DIVERGED) if stored.is_contradicted else standing, message_id)


def _status(
    receipts: frozenset[Gmp],
    *,
    executed: bool,
    outcome: Status | None,
    index: MessageRecord | None,
    has_quorum: bool,
    refused: bool,
) -> Status:
    known = index.status if index else None
    if executed and known is not Status.DIVERGED:
        return Status.EXECUTED
    ended = known if known in _ENDED else outcome
    if ended is not None:
        return ended
    if has_quorum:
        return _with_quorum(known, refused=refused)
    if known is not None and known not in (Status.ROUTED, Status.RECEIVED, Status.EXECUTED):
        return known
    return Status.RECEIVED if receipts else Status.ROUTED


def _with_quorum(known: Status | None, *, refused: bool) -> Status:
    """Returns the state of a message that has reached its quorum but is not executed."""
    if refused or known is Status.EXECUTION_FAILED:
        return Status.EXECUTION_FAILED
    return known if known is Status.EXECUTION_DEFERRED else Status.RECEIVED


_PROSPECTS = {
    ExecutionState.WAITING: "the relayer executes it once its router allows that",
    ExecutionState.REFUSED: "the relayer tests the execution from time to time, and executes it when the test succeeds",
    ExecutionState.REJECTED: "that ends the relayer's tries",
    ExecutionState.BLOCKED: "it could be executed, but the relayer holds it back",
    ExecutionState.SENT: "the relayer is executing it",
}

_REFUSALS = (ExecutionState.REFUSED, ExecutionState.REJECTED)

_GIVEN_UP = ({Stage.DEAD}, {Stage.DEAD, Stage.RECEIVED})
"""Sets of its GMPs' stages in which no delivery of a message is open."""

_OPEN = frozenset(
    {Status.ROUTED, Status.RECEIVED, Status.STALLED, Status.DEAD, Status.EXECUTION_FAILED, Status.EXECUTION_DEFERRED}
)
"""States in which a message may still be executed."""

_WAITING = frozenset({Status.ROUTED, Status.RECEIVED, Status.STALLED})
"""States in which a message without open deliveries is dead."""

_ENDED = frozenset({Status.EXPIRED, Status.CANCELLED, Status.ORPHANED, Status.DIVERGED})
"""States that further receipts do not change."""

_REASONS = {
    Status.EXPIRED: "its time to live of {ttl} s ran out first",
    Status.CANCELLED: "its sender cancelled it",
    Status.ORPHANED: "a reorg took its transaction back, so its source has no such message any more",
    Status.DIVERGED: "facts about it contradict each other: {kinds}",
    Status.UNFUNDED: "it was created without its fee, and it is not funded yet",
}


def _progress(stored: Stored, receipts: frozenset[Gmp]) -> tuple[GmpProgress, ...]:
    seen = {int(entry.dispatch.gmp) for entry in stored.entries} | {receipt.gmp for receipt in stored.receipts}
    known = seen | receipts | (stored.record.dispatched if stored.record else frozenset())
    return tuple(_of_gmp(gmp, stored, received=gmp in receipts) for gmp in sorted(known))


def _of_gmp(gmp: int, stored: Stored, *, received: bool) -> GmpProgress:
    receipt = next((one for one in stored.receipts if one.gmp == gmp), None)
    entries = [entry for entry in stored.entries if entry.dispatch.gmp == gmp]
    newest = max(entries, key=lambda entry: entry.attempt_number, default=None)
    waiting = newest is not None and newest.state is OutboxState.PENDING
    taken = sorted({event.attempt or 0 for event in stored.events if (event.gmps or 0) >> (gmp - 1) & 1})
    refused = receipt is not None and receipt.dispatch_failures > 0 and not taken
    blocked = None if newest is None or received else _blocked(newest, stored.blocked)
    return GmpProgress(
        gmp=gmp,
        stage=Stage.RECEIVED if received else _stage(newest, blocked, refused=refused),
        attempts=tuple(taken or [entry.attempt_number for entry in entries]),
        failed_tries=sum(entry.failed_tries for entry in entries),
        setbacks=newest.setbacks if newest and not received else 0,
        last_error=newest.last_error if newest and not received else None,
        next_try_at=newest.available_at if newest and waiting and not received else None,
        claimed_at=newest.claimed_at if newest and not received else None,
        letter=newest.event_id if newest and newest.event_id in stored.dead_letters else None,
        receipt=receipt,
    )


def _blocked(entry: OutboxEntry, blocked: Sequence[Blocked]) -> Blocked | None:
    """Returns the spending bound that blocks an open delivery, if any."""
    is_open = entry.state in (OutboxState.PENDING, OutboxState.CLAIMED)
    return next((one for one in blocked if one.subject == entry.event_id), None) if is_open else None


def _stage(entry: OutboxEntry | None, blocked: Blocked | None, *, refused: bool) -> Stage:
    if entry is None:
        return Stage.REFUSED if refused else Stage.DISPATCHED
    if blocked is not None:
        return Stage.BLOCKED
    match entry.state:
        case OutboxState.DEAD:
            return Stage.DEAD
        case OutboxState.PENDING:
            return Stage.FAILING if entry.failed_tries or entry.setbacks else Stage.ATTESTING
        case OutboxState.DELIVERED:
            return Stage.DELIVERED
        case _:
            return Stage.DELIVERING


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """The facts from which the reason for a message's state is built."""

    status: Status
    receipts: frozenset[Gmp]
    quorum: int
    stored: Stored
    gmps: Sequence[GmpProgress]
    refusal: str | None
    execution: ExecutionJob | None
    left_out: frozenset[Gmp]

    @property
    def has_quorum(self) -> bool:
        return len(self.receipts) >= self.quorum

    @property
    def lacking(self) -> int:
        """Returns the number of GMPs that must still carry the message to reach the quorum.

        Returns 0 while the message's GMPs are unknown.
        """
        carrying = sum(one.stage is not Stage.REFUSED for one in self.gmps)
        return max(0, self.quorum - carrying) if self.gmps else 0


def _reason(message: Message, facts: _Facts, now: float) -> str:
    names = _names(facts.receipts)
    match facts.status:
        case Status.EXECUTED:
            return f"{names} delivered, and the recipient accepted it" if names else "the recipient accepted it"
        case Status.EXECUTION_FAILED:
            return f"{names or 'its GMPs'} delivered, but the recipient refused it{_refusal(facts)}"
        case Status.EXECUTION_DEFERRED:
            return f"{names} delivered, but with less gas than its limit of {message.gas_limit}"
        case Status.EXPIRED | Status.CANCELLED | Status.ORPHANED | Status.DIVERGED | Status.UNFUNDED:
            kinds = ", ".join(facts.stored.contradictions) or "see its events"
            return _REASONS[facts.status].format(ttl=message.ttl, kinds=kinds)
        case _ if facts.has_quorum:
            return f"{names} delivered, which is enough, and it has not been executed yet"
        case _:
            unsure = "the index is too far behind to tell more; " if facts.status is Status.UNKNOWN else ""
            counted = f"{len(facts.receipts)} of {facts.quorum} GMPs have delivered"
            few = [f"too few GMPs carry it: it needs {facts.lacking} more"] if facts.lacking else []
            return unsure + "; ".join([counted, *few, *_silences(facts, now)])


def _missing(message: Message) -> str:
    recipient = from_bytes32(message.recipient)
    return (
        f"no contract is at its recipient {recipient}, so it can't be executed until one is there that takes messages"
        " (IERC7786Recipient)"
    )


def _refusal(facts: _Facts) -> str:
    """Returns the reason why the recipient rejects the message.

    The reason comes from the router, the relayer's last check, or the event.
    """
    if facts.refusal is not None:
        return f": {facts.refusal}"
    if facts.execution is not None and facts.execution.outcome:
        return ""  # `_prospects` adds it
    index = facts.stored.record
    reason = (index.failure_reason if index else None) or b""
    is_known = bool(reason) or (index is not None and index.status is Status.EXECUTION_FAILED)
    return f": {explain_refusal(reason)}" if is_known else ""


def _prospects(facts: _Facts, now: float) -> list[str]:
    """States whether the relayer will execute the message, and the result of its last check."""
    execution = facts.execution
    if execution is None or (execution.state is ExecutionState.WAITING and not facts.has_quorum):
        return []
    found = f": {execution.outcome}" if execution.outcome and facts.refusal is None else ""
    return [f"{_PROSPECTS[execution.state]}{found} (next look in {max(0, round(execution.available_at - now))} s)"]


def _held_lane(store: Store, message: Message) -> LaneChange | None:
    lane = Lane(message.source_chain, message.destination_chain)
    return next((change for change in store.lanes.held() if change.lane == lane), None)


def _lane_held(change: LaneChange | None) -> list[str]:
    if change is None:
        return []
    return [f"the relayer's lane is {change.state.value}, by {change.by}: {change.reason} (`waybill lane resume`)"]


def _blocked_retries(retries: Sequence[RetryJob]) -> list[str]:
    """States why the relayer postpones the retry, if it does."""
    last = retries[-1] if retries else None
    if last is None or last.state is not RetryState.OPEN or not last.outcome:
        return []
    return [f"the relayer does not retry it: {last.outcome}"]


def _silences(facts: _Facts, now: float) -> list[str]:
    """States why receipts are missing. Groups GMPs with the same reason."""
    named: dict[str, list[str]] = {}
    for progress in facts.gmps:
        if progress.stage is not Stage.RECEIVED:
            words = (
                _LEFT_OUT
                if progress.gmp in facts.left_out and progress.stage in _UNDELIVERED
                else _silence(progress, now)
            )
            named.setdefault(words, []).append(gmp_name(progress.gmp))
    return [f"{' and '.join(names)} {words}" for words, names in named.items()]


_LEFT_OUT = "accepted it, and the relayer's settings leave its delivery to others (`gmps` and `paused_gmps`)"

_UNDELIVERED = frozenset({Stage.DISPATCHED, Stage.ATTESTING})


def stored_pauses(stored: Stored, now: float) -> list[GmpPause]:
    """Returns the paused GMPs according to the index."""
    return [
        GmpPause(Gmp(one.number), chain, one.ends)
        for chain, pauses in stored.pauses.items()
        for one in pauses
        if one.thing is PausedThing.GMP and now < one.ends and one.number in set(Gmp)
    ]


def _gmps_paused(message: Message, pauses: Sequence[GmpPause]) -> list[str]:
    """States which GMPs are paused on which chain, and the effect on the message."""
    meanings = {
        message.source_chain: "on its source, which sends nothing over it",
        message.destination_chain: "on its destination, where its receipts do not count",
    }
    return [f"{one.text} {meanings[one.chain_id]}" for one in pauses if one.chain_id in meanings]


_SILENCES = {
    Stage.REFUSED: "refused it",
    Stage.DISPATCHED: "accepted it, and no relayer has seen that: is the relayer running?",
    Stage.ATTESTING: "accepted it and did not deliver it yet: the attestation may be missing, or the relayer may have paused the GMP",
    Stage.DELIVERING: "accepted it, and the relayer is delivering it",
    Stage.DELIVERED: "accepted it, and the relayer has delivered it: the index has not read the receipt yet",
}


def _silence(progress: GmpProgress, now: float) -> str:
    """Describes the progress of a GMP without a receipt. The description may be used for several GMPs at once."""
    match progress.stage:
        case Stage.FAILING:
            wait = max(0, round((progress.next_try_at or now) - now))
            times = "once" if progress.failed_tries == 1 else f"{progress.failed_tries} times"
            failed = f"failed {times}" if progress.failed_tries else "is not delivered"
            stuck = (
                f", makes no progress after {progress.setbacks} setbacks: look at the relayer's endpoints"
                if progress.setbacks >= STUCK_AFTER
                else ""
            )
            return f"{failed} ({_error(progress)}){stuck}, next try in {wait} s"
        case Stage.DEAD:
            tries = "1 try" if progress.failed_tries == 1 else f"{progress.failed_tries} tries"
            return f"accepted it, and the relayer gave up after {tries} ({_error(progress)})"
        case Stage.BLOCKED:
            wait = max(0, round((progress.next_try_at or now) - now))
            return f"accepted it, and the relayer does not pay for it now: {_error(progress)} (next look in {wait} s)"
        case stage:
            return _SILENCES[stage]


def _error(progress: GmpProgress) -> str:
    """Returns the last error, truncated, since it may quote a node or contract at length.

    Backticks mark Waybill's own commands.
    """
    return shortened(progress.last_error or "no error is known", MOST_QUOTED).replace("`", "'")


def _names(gmps: frozenset[Gmp]) -> str:
    return ", ".join(gmp.title for gmp in sorted(gmps))
