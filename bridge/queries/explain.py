"""Where a message is, why, and what to do next: the answer to the question that people ask most."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from bridge.domain.jobs import ExecutionJob, ExecutionState, RetryJob, RetryState
from bridge.domain.outbox import STUCK_AFTER, OutboxEntry, OutboxState
from bridge.domain.ports import Block
from bridge.domain.spending import Held
from bridge.protocol.contracts import explain_refusal
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import ChainRecord, MessageRecord
from bridge.protocol.message import Message
from bridge.protocol.status import Status
from bridge.protocol.text import MOST_QUOTED, shortened
from bridge.queries import Circumstances, Expiry, Offer, Standing, next_action, offers


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

    @classmethod
    def of(cls, record: MessageRecord) -> Self:
        """What of a record counts here."""
        return cls(
            status=record.status,
            dispatched=record.dispatched,
            attempts=record.attempts or 0,
            failure_reason=record.failure_reason or b"",
        )


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
    standing: Standing
    gmps: tuple[GmpProgress, ...]
    lags: tuple[IndexLag, ...] = ()  # chains of the message that the index is behind on

    @property
    def offers(self) -> tuple[Offer, ...]:
        """What its routers would accept now."""
        return offers(self.standing)


def explain(
    message: Message,
    *,
    receipts: frozenset[Gmp],
    executed: bool,
    outcome: Status | None = None,
    needed: int | None = None,
    refusal: str | None = None,
    unfunded: bool = False,
    circumstances: Circumstances = Circumstances(),  # noqa: B008  frozen
    index: IndexView | None,
    entries: Sequence[OutboxEntry],
    retries: Sequence[RetryJob] = (),
    execution: ExecutionJob | None = None,
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
        outcome: how the message ended as that router says, or would if it were asked to mark its expiry; None if it is open.
        needed: how many receipts the router asks for; None is what the message itself asks for.
        refusal: why the recipient does not take it, where the router was asked now.
        unfunded: whether its source says that it was created without its fee, and that nobody has paid since.
        circumstances: what else decides about the next action.
        index: None if no index knows the message.
        entries: the relayer's outbox entries of the message; empty if no relayer has seen it.
        retries: the relayer's retries of the message, the oldest first.
        execution: how far the relayer is with executing it, if no delivery of its own did that.
        held: what of it waits since a bound on what the relayer spends has no room.
        lags: the message's chains that the index is behind on.
        now: Unix seconds.
    """
    gmps = _progress(receipts, index, entries, {one.subject for one in held})
    has_quorum = len(receipts) >= (message.quorum if needed is None else needed)
    pending = None if execution is None or execution.finished_at is not None else execution
    refused = refusal is not None or (pending is not None and pending.state is ExecutionState.REFUSED)
    status = _status(receipts, executed=executed, outcome=outcome, index=index, has_quorum=has_quorum, refused=refused)
    if unfunded and status is Status.ROUTED:
        status = Status.UNFUNDED
    spent = _spent(retries, entries)
    given_up = spent or {progress.stage for progress in gmps} in _GIVEN_UP
    if status in _WAITING and given_up and not has_quorum:
        status = Status.DEAD
    if status.is_final:
        pending = None
    said = _Said(
        status=status,
        receipts=receipts,
        has_quorum=has_quorum,
        index=index,
        gmps=gmps,
        refusal=refusal,
        execution=pending,
    )
    standing = Standing(status=status, kind=message.kind, has_quorum=has_quorum, circumstances=circumstances)
    parts = [
        _reason(message, said, now),
        *([spent] if spent and status is Status.DEAD else []),
        *([] if status.is_final else _held_retries(retries)),
        *_prospects(said, now),
        *_delays(status, circumstances.expiry, now),
    ]
    return Explanation(
        message=message,
        status=status,
        receipts=receipts,
        reason="; ".join(parts),
        next_action=next_action(standing, message.id),
        standing=standing,
        gmps=gmps,
        lags=tuple(lags),
    )


def _status(
    receipts: frozenset[Gmp],
    *,
    executed: bool,
    outcome: Status | None,
    index: IndexView | None,
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
    """The state of a message that could be executed and is not."""
    if refused or known is Status.EXECUTION_FAILED:
        return Status.EXECUTION_FAILED
    return known if known is Status.EXECUTION_DEFERRED else Status.RECEIVED


def _spent(retries: Sequence[RetryJob], entries: Sequence[OutboxEntry]) -> str | None:
    """Why the relayer retries it no more, if its retry budget is spent and nobody has made that attempt since."""
    last = retries[-1] if retries else None
    if last is None or last.state is not RetryState.DEAD:
        return None
    return None if any(entry.attempt_number >= last.request.attempt for entry in entries) else last.outcome


_PROSPECTS = {
    ExecutionState.WAITING: "the relayer executes it once its router allows that",
    ExecutionState.REFUSED: "the relayer tests the execution from time to time, and executes it when the test succeeds",
    ExecutionState.BLOCKED: "it could be executed, but the relayer holds it back",
    ExecutionState.SENT: "the relayer is executing it",
}

_GIVEN_UP = ({Stage.DEAD}, {Stage.DEAD, Stage.RECEIVED})
"""Stages of a message's GMPs when nothing of it is on its way any more."""

_OPEN = frozenset(
    {Status.ROUTED, Status.RECEIVED, Status.STALLED, Status.DEAD, Status.EXECUTION_FAILED, Status.EXECUTION_DEFERRED}
)
"""States in which a message may still be executed."""

_WAITING = frozenset({Status.ROUTED, Status.RECEIVED, Status.STALLED})
"""States in which a message is dead if none of its deliveries is left."""

_ENDED = frozenset({Status.EXPIRED, Status.CANCELLED, Status.ORPHANED, Status.DIVERGED})
"""What receipts do not change any more."""

_REASONS = {
    Status.EXPIRED: "its time to live of {ttl} s ran out first",
    Status.CANCELLED: "its sender cancelled it",
    Status.ORPHANED: "a reorg took its transaction back, so its source has no such message any more",
    Status.DIVERGED: "its two chains contradict each other",
    Status.UNFUNDED: "it was created without its fee, and it is not funded yet",
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
    newest = max(entries, key=lambda entry: entry.attempt_number, default=None)
    waiting = newest is not None and newest.state is OutboxState.PENDING
    return GmpProgress(
        gmp=gmp,
        stage=Stage.RECEIVED if received else _stage(newest, held),
        attempts=tuple(entry.attempt_number for entry in entries),
        tries=sum(entry.failed_tries for entry in entries),
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
            return Stage.FAILING if entry.failed_tries or entry.setbacks else Stage.DISPATCHED
        case _:
            return Stage.DELIVERING


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What a reason is made of."""

    status: Status
    receipts: frozenset[Gmp]
    has_quorum: bool
    index: IndexView | None
    gmps: Sequence[GmpProgress]
    refusal: str | None
    execution: ExecutionJob | None


def _reason(message: Message, said: _Said, now: float) -> str:
    names = _names(said.receipts)
    match said.status:
        case Status.EXECUTED:
            return f"{names} delivered, and the recipient accepted it" if names else "the recipient accepted it"
        case Status.EXECUTION_FAILED:
            return f"{names or 'its GMPs'} delivered, but the recipient refused it{_refusal(said)}"
        case Status.EXECUTION_DEFERRED:
            return f"{names} delivered, but with less gas than its limit of {message.gas_limit}"
        case Status.EXPIRED | Status.CANCELLED | Status.ORPHANED | Status.DIVERGED | Status.UNFUNDED:
            return _REASONS[said.status].format(ttl=message.ttl)
        case _ if said.has_quorum:
            return f"{names} delivered, which is enough, and it has not been executed yet"
        case _:
            unsure = "the index is too far behind to tell more; " if said.status is Status.UNKNOWN else ""
            counted = f"{len(said.receipts)} of {message.quorum} GMPs have delivered"
            return unsure + "; ".join([counted, *_silences(said.gmps, now)])


def _refusal(said: _Said) -> str:
    """Why the recipient refused it, said once: by the router now, by the relayer's last look, or by the event."""
    if said.refusal is not None:
        return f": {said.refusal}"
    if said.execution is not None and said.execution.outcome:
        return ""  # follows in what the relayer will do
    reason = said.index.failure_reason if said.index else b""
    is_known = bool(reason) or (said.index is not None and said.index.status is Status.EXECUTION_FAILED)
    return f": {explain_refusal(reason)}" if is_known else ""


def _delays(status: Status, expiry: Expiry | None, now: float) -> list[str]:
    """That pauses have put off its expiry, where the nominal one may mislead."""
    if expiry is None or not expiry.blocked or status not in _OPEN or now <= expiry.at - expiry.blocked:
        return []
    return [f"its time to live seems over, but pauses stopped its clock for {expiry.blocked} s"]


def _prospects(said: _Said, now: float) -> list[str]:
    """Whether the relayer will execute it, and what it found when it looked last."""
    execution = said.execution
    if execution is None:
        return []
    found = f": {execution.outcome}" if execution.outcome and said.refusal is None else ""
    return [f"{_PROSPECTS[execution.state]}{found} (next look in {max(0, round(execution.available_at - now))} s)"]


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
            return f"{failed} ({_error(progress)}){stuck}, next try in {wait} s"
        case Stage.DEAD:
            tries = "1 try" if progress.tries == 1 else f"{progress.tries} tries"
            return f"took it, and the relayer gave up after {tries} ({_error(progress)})"
        case Stage.DELIVERING:
            return "took it, and the relayer is delivering it"
        case Stage.HELD:
            wait = max(0, round((progress.next_try_at or now) - now))
            return f"took it, and the relayer does not pay for it now: {_error(progress)} (next look in {wait} s)"
        case _ if progress.attempts:
            return "took it, and its delivery is still to come: the GMP may be paused, or its proof not there yet"
        case _:
            return "took it, and no relayer has seen that: is the relayer running?"


def _error(progress: GmpProgress) -> str:
    """The last error, which may quote a stranger at length."""
    return shortened(progress.last_error or "no error is known", MOST_QUOTED)


def _names(gmps: frozenset[Gmp]) -> str:
    return ", ".join(gmp.label for gmp in sorted(gmps))
