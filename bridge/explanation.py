"""Where a message is, why, and what to do next: the answer to the question that people ask most."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bridge.ports import Block
from bridge.protocol.contracts import explain_revert
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import ChainRecord
from bridge.protocol.message import Message
from bridge.protocol.status import Status
from bridge.records.executions import UNENDED, AwaitedExecution, ExecutionState
from bridge.records.outbox import STUCK_AFTER, OutboxEntry, OutboxState
from bridge.records.retries import RetryJob, RetryState
from bridge.records.spending import Held


class Stage(StrEnum):
    """How far one GMP is with a message."""

    DISPATCHED = "DISPATCHED"  # the GMP took it; no relayer has seen that yet, or has it waiting
    DELIVERING = "DELIVERING"
    HELD = "HELD"  # a bound on what the relayer spends has no room for it
    FAILING = "FAILING"
    DEAD = "DEAD"
    RECEIVED = "RECEIVED"


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpProgress:
    """One GMP's part in a message."""

    gmp: Gmp
    stage: Stage
    attempts: tuple[int, ...]  # of the message, in which this GMP took it
    tries: int  # of our relayer to deliver, that failed
    setbacks: int  # its deliveries that came to nothing and cost no try; see `OutboxEntry.setbacks`
    last_error: str | None
    next_try_at: float | None  # Unix seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexView:
    """What the index knows beyond the chains' present state."""

    status: Status
    dispatched: frozenset[Gmp]
    attempts: int
    failure_reason: bytes  # of the recipient, the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLag:
    """A chain of the message that the index has not read as far as it goes: what the index says may be old."""

    chain_id: int
    blocks: int  # that the chain has and the index has not
    seconds: int  # from the last block that the index has to the chain's newest
    halted: str | None  # why the index reads it no further

    @property
    def text(self) -> str:
        """In words, without the chain's name."""
        why = f", halted: {self.halted}" if self.halted else ""
        return f"{self.blocks} blocks ({self.seconds} s) behind{why}"


def lag_of(record: ChainRecord, head: Block) -> IndexLag | None:
    """How far the index is behind a chain; None if that is no more than a look or two.

    Args:
        record: of the chain in the index.
        head: the chain's newest block.
    """
    blocks, seconds = distance(record, head.number, head.timestamp)
    if not record.halted and (blocks == 0 or seconds <= _USUAL_LAG):
        return None
    return IndexLag(chain_id=record.chain_id, blocks=blocks, seconds=seconds, halted=record.halted)


def distance(record: ChainRecord, head: int, head_time: int) -> tuple[int, int]:
    """How many blocks, and seconds of block time, the index is behind a chain's newest block."""
    return max(0, head - record.block), max(0, head_time - record.block_time)


_USUAL_LAG = 30  # seconds; a chain is looked at several times in that


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The answer."""

    message: Message
    status: Status
    receipts: frozenset[Gmp]
    reason: str
    next_action: str
    gmps: tuple[GmpProgress, ...]
    lags: tuple[IndexLag, ...] = ()  # chains of the message that the index is behind on


def explain(
    message: Message,
    *,
    receipts: frozenset[Gmp],
    executed: bool,
    unfunded: bool = False,
    index: IndexView | None,
    entries: Sequence[OutboxEntry],
    retries: Sequence[RetryJob] = (),
    execution: AwaitedExecution | None = None,
    held: Sequence[Held] = (),
    lags: Sequence[IndexLag] = (),
    now: float,
) -> Explanation:
    """Puts together what the destination's router, the index and the relayer's outbox say.

    The router has the last word on receipts and execution, since index and relayer may be behind or not running at all.

    Args:
        message: what the source created.
        receipts: the GMPs whose receipts count on the destination now.
        executed: whether the destination's router executed it.
        unfunded: whether its source says that it was created without its fee, and that nobody has paid since.
        index: None if no index knows the message.
        entries: the relayer's outbox entries of the message; empty if no relayer has seen it.
        retries: the relayer's retries of the message, the oldest first.
        execution: how far the relayer is with executing it, if no delivery of its own did that.
        held: what of it waits since a bound on what the relayer spends has no room.
        lags: the message's chains that the index is behind on.
        now: Unix seconds.
    """
    gmps = _progress(receipts, index, entries, {one.subject for one in held})
    status = _status(message, receipts, executed=executed, index=index)
    if unfunded and status is Status.ROUTED:
        status = Status.UNFUNDED
    spent = _spent(retries, entries)
    if status in _WAITING and (spent or {progress.stage for progress in gmps} in _GIVEN_UP):
        status = Status.DEAD
    pending = None if status.is_final or execution is None or execution.state not in UNENDED else execution
    reason = _reason(status, message, receipts=receipts, index=index, gmps=gmps, execution=pending, now=now)
    return Explanation(
        message=message,
        status=status,
        receipts=receipts,
        reason="; ".join(
            [
                reason,
                *([spent] if spent and status is Status.DEAD else []),
                *([] if status.is_final else _held_retries(retries)),
                *_prospects(pending, now),
            ]
        ),
        next_action=status.next_action.format(id=f"0x{message.id.hex()}"),
        gmps=gmps,
        lags=tuple(lags),
    )


def _status(message: Message, receipts: frozenset[Gmp], *, executed: bool, index: IndexView | None) -> Status:
    if executed and (index is None or index.status is not Status.DIVERGED):
        return Status.EXECUTED
    if index is not None and index.status in _ENDED:
        return index.status
    if len(receipts) >= message.quorum:
        deferred = index is not None and index.status is Status.EXECUTION_DEFERRED
        return Status.EXECUTION_DEFERRED if deferred else Status.EXECUTION_FAILED
    if index is not None and index.status not in (Status.ROUTED, Status.RECEIVED, Status.EXECUTED):
        return index.status
    return Status.RECEIVED if receipts else Status.ROUTED


def _spent(retries: Sequence[RetryJob], entries: Sequence[OutboxEntry]) -> str | None:
    """Why the relayer retries it no more, if its retry budget is spent and nobody has made that attempt since."""
    last = retries[-1] if retries else None
    if last is None or last.state is not RetryState.DEAD:
        return None
    return None if any(entry.attempt >= last.request.attempt for entry in entries) else last.outcome


_PROSPECTS = {
    ExecutionState.WAITING: "the relayer executes it once its router allows that",
    ExecutionState.REFUSED: "the relayer executes it once a call without a transaction succeeds",
    ExecutionState.HELD: "it could be executed, and the relayer leaves that alone",
    ExecutionState.SENT: "the relayer is executing it",
}

_GIVEN_UP = ({Stage.DEAD}, {Stage.DEAD, Stage.RECEIVED})
"""Stages of a message's GMPs when nothing of it is on its way any more."""

_WAITING = frozenset({Status.ROUTED, Status.RECEIVED, Status.STALLED})
"""States in which a message is dead if none of its deliveries is left."""

_ENDED = frozenset({Status.EXPIRED, Status.CANCELLED, Status.ORPHANED, Status.DIVERGED})
"""What receipts do not change any more."""

_REASONS = {
    Status.EXPIRED: "its time to live of {ttl} s ran out first",
    Status.CANCELLED: "its sender cancelled it",
    Status.ORPHANED: "a reorg took its transaction back, so its source has no such message any more",
    Status.DIVERGED: "its two chains contradict each other",
    Status.UNFUNDED: "it was created without its fee, and nobody has paid for its dispatch yet",
}


def _progress(
    receipts: frozenset[Gmp], index: IndexView | None, entries: Sequence[OutboxEntry], held: Collection[str]
) -> tuple[GmpProgress, ...]:
    seen = {entry.dispatch.gmp for entry in entries}
    known = seen | receipts | (index.dispatched if index else frozenset())
    return tuple(
        _of_gmp(gmp, [entry for entry in entries if entry.dispatch.gmp is gmp], held, received=gmp in receipts)
        for gmp in sorted(known)
    )


def _of_gmp(gmp: Gmp, entries: Sequence[OutboxEntry], held: Collection[str], *, received: bool) -> GmpProgress:
    newest = max(entries, key=lambda entry: entry.attempt, default=None)
    waiting = newest is not None and newest.state is OutboxState.PENDING
    return GmpProgress(
        gmp=gmp,
        stage=Stage.RECEIVED if received else _stage(newest, held),
        attempts=tuple(entry.attempt for entry in entries),
        tries=sum(entry.attempts for entry in entries),
        setbacks=newest.setbacks if newest and not received else 0,
        last_error=newest.last_error if newest and not received else None,
        next_try_at=newest.available_at if newest and waiting and not received else None,
    )


def _stage(entry: OutboxEntry | None, held: Collection[str]) -> Stage:
    if entry is None:
        return Stage.DISPATCHED
    if entry.event_id in held and entry.state in (OutboxState.PENDING, OutboxState.CLAIMED):
        return Stage.HELD
    match entry.state:
        case OutboxState.DEAD:
            return Stage.DEAD
        case OutboxState.PENDING:
            return Stage.FAILING if entry.attempts or entry.setbacks else Stage.DISPATCHED
        case _:
            return Stage.DELIVERING


def _reason(
    status: Status,
    message: Message,
    *,
    receipts: frozenset[Gmp],
    index: IndexView | None,
    gmps: Sequence[GmpProgress],
    execution: AwaitedExecution | None,
    now: float,
) -> str:
    match status:
        case Status.EXECUTED:
            return f"{_names(receipts)} delivered, and the recipient accepted it"
        case Status.EXECUTION_FAILED if execution is not None and execution.state is not ExecutionState.REFUSED:
            return f"{_names(receipts)} delivered, and nobody has executed it yet"
        case Status.EXECUTION_FAILED:
            refusal = f": {explain_revert(index.failure_reason)}" if index and index.failure_reason else ""
            return f"{_names(receipts)} delivered, but the recipient refused it{refusal}"
        case Status.EXECUTION_DEFERRED:
            return f"{_names(receipts)} delivered, but with less gas than its limit of {message.gas_limit}"
        case Status.EXPIRED | Status.CANCELLED | Status.ORPHANED | Status.DIVERGED | Status.UNFUNDED:
            return _REASONS[status].format(ttl=message.ttl)
        case _:
            unsure = "the index is too far behind to tell more; " if status is Status.UNKNOWN else ""
            counted = f"{len(receipts)} of {message.quorum} GMPs have delivered"
            return unsure + "; ".join([counted, *_silences(gmps, now)])


def _prospects(execution: AwaitedExecution | None, now: float) -> list[str]:
    """Whether the relayer will execute it, and what it found when it looked last."""
    if execution is None:
        return []
    found = f": {execution.outcome}" if execution.outcome else ""
    return [f"{_PROSPECTS[execution.state]}{found} (next look in {max(0, round(execution.next_at - now))} s)"]


def _held_retries(retries: Sequence[RetryJob]) -> list[str]:
    """Why the relayer does not retry it now, if a budget or a bound has no room for that."""
    last = retries[-1] if retries else None
    is_held = last is not None and last.state is RetryState.OPEN and last.held_by is not None
    return [f"the relayer does not retry it now: {last.outcome}"] if last is not None and is_held else []


def _silences(gmps: Sequence[GmpProgress], now: float) -> list[str]:
    """Why there is no receipt yet; GMPs of which the same is to be said are named together."""
    said: dict[str, list[str]] = {}
    for progress in gmps:
        if progress.stage is not Stage.RECEIVED:
            said.setdefault(_silence(progress, now), []).append(progress.gmp.label)
    return [f"{' and '.join(names)} {words}" for words, names in said.items()]


def _silence(progress: GmpProgress, now: float) -> str:
    """What is to be said of one GMP or of several."""
    match progress.stage:
        case Stage.FAILING:
            wait = max(0, round((progress.next_try_at or now) - now))
            times = "once" if progress.tries == 1 else f"{progress.tries} times"
            failed = f"failed {times}" if progress.tries else "is not delivered"
            stuck = (
                f", makes no progress after {progress.setbacks} setbacks: look at the relayer's endpoints"
                if progress.setbacks >= STUCK_AFTER
                else ""
            )
            return f"{failed} ({progress.last_error}){stuck}, next try in {wait} s"
        case Stage.DEAD:
            tries = "1 try" if progress.tries == 1 else f"{progress.tries} tries"
            return f"took it, and the relayer gave up after {tries} ({progress.last_error})"
        case Stage.DELIVERING:
            return "took it, and the relayer is delivering it"
        case Stage.HELD:
            wait = max(0, round((progress.next_try_at or now) - now))
            return f"took it, and the relayer does not pay for it now: {progress.last_error} (next look in {wait} s)"
        case _ if progress.attempts:
            return "took it, and its delivery is still to come: the GMP may be paused, or its proof not there yet"
        case _:
            return "took it, and no relayer has seen that: is `waybill relayer run` running?"


def _names(gmps: frozenset[Gmp]) -> str:
    return ", ".join(gmp.label for gmp in sorted(gmps))
