"""Copies the index's retry requests and performs them.

Calls `retryRoute` as the message's sender or appointed retrier.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import ClassVar

import structlog
from pydantic import Field

from bridge.evm.supervision import run_forever
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.backoff import backoff
from bridge.protocol.contracts import ROUTER, explain_revert
from bridge.protocol.events import EventDecodingError, MessageRetried, decode_event
from bridge.protocol.gmps import Gmp, gmps_from_bits
from bridge.protocol.message import Kind
from bridge.protocol.ports import CallRevertedError, Clock, Receipt
from bridge.protocol.retry_requests import RetryRequestSource
from bridge.records.jobs import RetryJob, RetryState
from bridge.records.spending import SpendBlockedError, SpentFor
from bridge.relayer.jobs import JobContext, Worker
from bridge.relayer.retry_planning import (
    ExecutableError,
    ImpossibleError,
    NotNeededError,
    NotNowError,
    Plan,
    Planner,
    retry_transaction_key,
)
from bridge.settings import ANY, AddressesOrAny, Section
from bridge.store import Store

_log = structlog.get_logger(__name__)

_NEVER_ACCEPTED = frozenset({"NotRetriable", "MessageIdMismatch", "AlreadyCancelled", "Expired"})


class RecoverySettings(Section):
    """Intervals and budgets of retries; times in seconds."""

    max_message_retries: int = Field(
        default=10, ge=0, description="maximum number of retries of one message that the relayer pays for"
    )
    retry_for: AddressesOrAny = Field(
        default=frozenset[str](),
        description="senders that may appoint this relayer as their retrier, so that it pays for their retries; "
        'empty allows none, "any" allows all',
    )

    REQUESTS: ClassVar[int] = 500  # copied at once
    RETRIES_IN_FLIGHT: ClassVar[int] = 32
    RESCHEDULE: ClassVar[float] = 5.0  # seconds before an impossible retry is checked again; doubles each time
    LONGEST_WAIT: ClassVar[float] = 600.0  # seconds

    def retried_for(self) -> frozenset[bytes] | None:
        """Returns the senders that may appoint this relayer as their retrier; None allows all."""
        return None if ANY in self.retry_for else frozenset(map(to_bytes32, self.retry_for))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """An attempt that the router accepted."""

    message_id: bytes
    attempt: int
    gmps: frozenset[Gmp]  # GMPs that accepted it
    transaction_hash: bytes


class RetryFailedError(Exception):
    """A message was not retried; the error states the reason."""


class Recovery:
    """Retries the messages that the index requests or an operator selects."""

    def __init__(
        self,
        planner: Planner,
        store: Store,
        clock: Clock,
        settings: RecoverySettings,
        *,
        poll_interval: float,
        source: RetryRequestSource | None = None,
    ) -> None:
        """Stores the dependencies.

        Args:
            planner: Plans retries.
            store: Jobs and observations.
            clock: Source of time.
            settings: Intervals and budgets.
            poll_interval: Seconds between polls for requests and jobs.
            source: The index's requests; with None, only messages that an operator selects are retried.
        """
        self._planner = planner
        self._jobs = store.jobs
        self._ledger = store.transactions
        self._clock = clock
        self._settings = settings
        self._poll_interval = poll_interval
        self._source = source
        self._worker = Worker(
            RetryJob, self, store.jobs, clock, poll_interval=poll_interval, in_flight=settings.RETRIES_IN_FLIGHT
        )

    async def run(self) -> None:
        """Performs requests until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(run_forever("copy retry requests", self.copy, every=self._poll_interval))
            group.create_task(self._worker.run())

    async def copy(self) -> bool:
        """Copies new requests; returns whether there may be more."""
        if self._source is None:
            return False
        cursor = self._jobs.request_cursor()
        requests = await self._source.requests_after(cursor, self._settings.REQUESTS)
        if not requests:
            if await self._source.highest_sequence() >= cursor:
                return False
            _log.info("index rebuilt, reading retry requests from the start", cursor=cursor)
            self._jobs.copy_requests([], 0, self._clock.now())
            return True
        new = self._jobs.copy_requests(requests, requests[-1].sequence, self._clock.now())
        if new:
            _log.info("retry requests copied", new=new)
            self._worker.wakeup.set()
        return True

    async def retry(
        self, message_id: bytes, gmps: tuple[Gmp, ...] | None = None, *, blind: bool = False, wide: bool = False
    ) -> Retried:
        """Retries one message now, over the given GMPs or the best ones; for `blind` and `wide` see `Planner.plan`.

        Raises:
            RetryFailedError: The retry is not needed or not possible, or the router rejected it.
            TransientError: A chain does not respond, or the transaction was not included before the timeout.
        """
        try:
            plan = await self._planner.plan(await self._planner.find(message_id), gmps=gmps, blind=blind, wide=wide)
            self._require_budget(plan)
            return await self._send(plan)
        except (NotNeededError, ImpossibleError, NotNowError) as error:
            self._enqueue_execution(message_id, error)
            raise RetryFailedError(f"message 0x{message_id.hex()} is not retried: {error}") from error
        except SpendBlockedError as error:
            raise RetryFailedError(f"message 0x{message_id.hex()} is not retried now: {error}") from error
        except CallRevertedError as error:
            raise RetryFailedError(f"router call retryRoute reverted: {explain_revert(error.data)}") from error

    async def perform(self, context: JobContext[RetryJob]) -> None:
        """See `Handler.perform`."""
        job = context.job
        log = _log.bind(message=f"0x{job.message_id.hex()}", attempt=job.request.attempt)
        try:
            plan = await self._plan(job)
            self._require_budget(plan)
            if job.state is RetryState.OPEN and not context.save(job.start(frozenset(plan.gmps))):
                return
            done = await self._send(plan)
            names = ", ".join(gmp.label for gmp in sorted(done.gmps))
            self._end(context, RetryState.SENT, f"attempt {done.attempt} over {names}", done.transaction_hash)
            log.info("message retried", gmps=names, transaction=f"0x{done.transaction_hash.hex()}")
        except NotNeededError as error:
            self._enqueue_execution(job.message_id, error)
            self._settle_unneeded(context, str(error))
        except ImpossibleError as error:
            self._end(context, RetryState.IMPOSSIBLE, str(error))
            log.warning("message can't be retried", reason=str(error))
        except CallRevertedError as error:
            self._refused(context, error)
        except SpendBlockedError as error:
            self._reschedule(context, str(error), until=error.refusal.room_from or math.inf)

    def failed(self, context: JobContext[RetryJob], error: Exception) -> None:
        """See `Handler.failed`."""
        self._reschedule(context, str(error) or repr(error))

    async def _plan(self, job: RetryJob) -> Plan:
        request = job.request
        message = await self._planner.find(request.message_id, request.source_chain, request.cause_block)
        tried = request.missing_gmps | request.received_gmps
        wanted = tuple(sorted(job.wanted)) or None
        return await self._planner.plan(message, attempt=request.attempt, gmps=wanted, tried=tried)

    def _require_budget(self, plan: Plan) -> None:
        """Checks that a message has retries left. A critical action always has.

        Raises:
            NotNowError: The message was already retried `max_message_retries` times.
        """
        made, most = plan.attempt - 1, self._settings.max_message_retries
        if made >= most and plan.message.kind is not Kind.REGULATORY_ACTION_CRITICAL:
            raise NotNowError(f"the message was retried {made} times; max_message_retries is {most}")

    async def _send(self, plan: Plan) -> Retried:
        receipt = await plan.sender.send(plan.transaction_key, plan.call, spent_for=SpentFor.of(plan.message))
        if not receipt.succeeded:
            raise NotNowError(
                f"transaction 0x{receipt.transaction_hash.hex()} reverted: the state changed after the estimate"
            )
        return _retried(receipt, plan)

    def _enqueue_execution(self, message_id: bytes, error: Exception) -> None:
        """Enqueues the execution of a message that needs no retry, only an execution."""
        if isinstance(error, ExecutableError):
            self._jobs.await_execution(message_id, self._clock.now())

    def _settle_unneeded(self, context: JobContext[RetryJob], why: str) -> None:
        """Settles a retry that is no longer needed.

        If the reason is our own transaction, which a crash may have hidden, the retry counts as sent.
        """
        request = context.job.request
        slots = self._ledger.slots_for(retry_transaction_key(request.message_id, request.attempt))
        ours = [slot.included for slot in slots if slot.included is not None and not slot.ended_as_noop]
        landed = next((included for included in ours if included.succeeded), None)
        if context.job.state is RetryState.SENDING and landed is not None:
            self._end(context, RetryState.SENT, f"attempt {request.attempt}", landed.transaction_hash)
        else:
            self._end(context, RetryState.NOT_NEEDED, why)
            _log.info("retry no longer needed", message=f"0x{request.message_id.hex()}", reason=why)

    def _refused(self, context: JobContext[RetryJob], error: CallRevertedError) -> None:
        found = ROUTER.error(error.data)
        if found is not None and found[0] in _NEVER_ACCEPTED:
            self._end(context, RetryState.IMPOSSIBLE, explain_revert(error.data))
        else:
            self._reschedule(context, explain_revert(error.data))

    def _reschedule(self, context: JobContext[RetryJob], why: str, *, until: float = math.inf) -> None:
        """Reschedules the retry after a pause, but no later than `until` (Unix seconds)."""
        job, now = context.job, self._clock.now()
        pause = backoff(self._settings.RESCHEDULE, job.tries, cap=self._settings.LONGEST_WAIT)
        pause = max(0.0, min(pause, until - now))
        context.save(job.reschedule(why, now + pause))
        if why != job.outcome:
            _log.warning("retry postponed", message=f"0x{job.message_id.hex()}", reason=why, retry_in=pause)

    def _end(
        self, context: JobContext[RetryJob], state: RetryState, outcome: str, transaction_hash: bytes | None = None
    ) -> None:
        context.save(context.job.settled(state, outcome, self._clock.now(), transaction_hash=transaction_hash))


def _retried(receipt: Receipt, plan: Plan) -> Retried:
    """Reads the attempt from the router's event, or from the plan if the joined transaction has no such event."""
    attempt, gmps = plan.attempt, frozenset(plan.gmps)
    for log in receipt.logs:
        try:
            event = decode_event(log.topics, log.data)
        except EventDecodingError:
            continue
        if isinstance(event, MessageRetried) and event.message_id == plan.message.id:
            attempt, gmps = event.attempt, gmps_from_bits(event.gmps)
    return Retried(message_id=plan.message.id, attempt=attempt, gmps=gmps, transaction_hash=receipt.transaction_hash)
