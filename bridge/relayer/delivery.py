"""Delivers the outbox entries of one destination: claim, attest, deliver, acknowledge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from typing import Final

import structlog

from bridge.dead_letters.queue import DeadLetterQueue
from bridge.evm.account import NonceLostError
from bridge.evm.routers import RouterReader, shows_delivery, shows_execution
from bridge.evm.sender import Sending
from bridge.evm.supervision import Wakeup
from bridge.protocol.classification import classify, code_of
from bridge.protocol.contracts import ROUTER
from bridge.protocol.delivery_errors import (
    AttestationUnansweredError,
    DeliveryRevertedError,
    DeliveryTimeoutError,
    NotAttestedError,
)
from bridge.protocol.delivery_policy import (
    DeliveryPolicy,
    GiveUpReason,
    attestation_pause,
    becomes_dead_letter,
    next_try,
)
from bridge.protocol.errors import StoreBusyError
from bridge.protocol.failures import DeliverySnapshot, Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import EnvelopeError, Kind, Message, decode_envelope
from bridge.protocol.ports import (
    Adapter,
    AttestationPendingError,
    Call,
    CallRevertedError,
    Chain,
    Clock,
    Dispatch,
    FeesTooHighError,
    Receipt,
    TransientError,
    UnansweredError,
)
from bridge.records.figures import Tried
from bridge.records.observations import BlockRef
from bridge.records.outbox import (
    STUCK_AFTER,
    STUCK_PAUSE,
    Claim,
    Dead,
    Delivered,
    LiveTrafficQuota,
    ObservedDelivery,
    OutboxEntry,
    Outcome,
    Postponed,
    StaleClaimError,
    TryAgain,
    snapshot_of,
)
from bridge.records.relay_policy import RelayPolicy
from bridge.records.spending import SpendBlockedError, SpentFor
from bridge.relayer.breaker import BreakerState, GmpHealth
from bridge.relayer.delivery_commits import DeliveryCommits
from bridge.relayer.fair_queue import FairQueue
from bridge.relayer.policies import Policies
from bridge.relayer.settings import Ordering, RelaySettings
from bridge.relayer.spending import SpendGate
from bridge.store.outbox import Outbox

_log = structlog.get_logger(__name__)


CHOICE_PAUSE: Final = 5.0  # seconds before a sender's choice is read again

MOST_CALLS: Final = 8  # a GMP needs one to four; more means that its adapter never sees its own success


class Phase(StrEnum):
    """A phase of a delivery. A phase that times out ends the try; only the TTL ends the message."""

    ATTEST = "attest"
    DELIVER = "deliver"


class _Steps:
    """Measures the duration of a delivery's current step: a transaction, or the query for the next one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at = clock.now()

    def begin(self) -> None:
        """Starts a step."""
        self._began_at = self._clock.now()

    @property
    def seconds(self) -> float:
        """Returns the current step's duration so far, in seconds."""
        return self._clock.now() - self._began_at


class Deliveries:
    """The delivery worker of one destination. Runs many deliveries concurrently; each has exactly one outcome."""

    def __init__(
        self,
        *,
        worker: str,
        chain: Chain,
        router: str,
        adapters: Mapping[Gmp, Adapter],
        outbox: Outbox,
        dead_letters: DeadLetterQueue,
        sender: Sending,
        gate: SpendGate,
        health: GmpHealth,
        policies: Policies,
        clock: Clock,
        random: Callable[[], float],
        final_height: Callable[[], int],
        settings: RelaySettings,
        acceptance: RelayPolicy,
    ) -> None:
        """Stores the dependencies; `final_height` returns the destination's highest final block."""
        self._worker = worker
        self._chain = chain
        self._router = router
        self._adapters = adapters
        self._outbox = outbox
        self._dead_letters = dead_letters
        self._sender = sender
        self._gate = gate
        self._health = health
        self._policies = policies
        self._clock = clock
        self._random = random
        self._final_height = final_height
        self._destination = RouterReader(chain, router)
        self._settings = settings
        self._acceptance = acceptance
        self._gmps = settings.claimable & adapters.keys()
        self.wakeup = Wakeup()
        self._commits = DeliveryCommits(outbox, clock, settings, written=self._may_claim_more)
        self._active: dict[Claim, asyncio.Task[None]] = {}
        self._fair_queue = FairQueue(settings.in_flight, settings.poll_interval)
        self._probes: dict[Gmp, Claim] = {}
        self._waits_for_fees = asyncio.Lock()
        self._waits_for_room = True  # whether a finished delivery makes room for another claim

    @property
    def commits(self) -> Mapping[str, int]:
        """Returns the number of commits that the store accepted and rejected, by result."""
        return self._commits.commits

    async def step(self) -> bool:
        """Claims as many entries as it has free slots for, and starts delivering them.

        Returns whether more may be claimable.
        """
        room = max(0, self._settings.in_flight - len(self._active))
        self._waits_for_room = True
        now = self._clock.now()
        if (room == 0 and not self._fair_queue.are_due(now)) or not self._gmps or not await self._sender.can_pay():
            return False
        closed = self._health.among(self._gmps, BreakerState.CLOSED)
        claimed = self._claim(closed, room, fresh=self._fair_queue.of_fresh(len(self._active), now))
        if closed != self._gmps:
            claimed += self._claim_behind_breakers(self._gmps - closed, room - len(claimed))
        self._start(claimed)
        if len(claimed) >= room and self._fair_queue.are_due(now):
            began = self._clock.now()
            for gmp in sorted(closed):
                idle = self._fair_queue.without_busy(self._acceptance, gmp)
                self._start(self._claim(frozenset({gmp}), self._fair_queue.size, idle))
            self._fair_queue.given(began, self._clock.now())
        others_wait = self._settings.ordering is Ordering.BLOCK or closed != self._gmps
        self._waits_for_room = len(claimed) >= room or others_wait
        return len(claimed) >= room

    def _start(self, claimed: Sequence[OutboxEntry]) -> None:
        for entry in claimed:
            claim = entry.current_claim
            self._fair_queue.start(entry, self._clock.now())
            self._active[claim] = asyncio.get_running_loop().create_task(self._work_on(entry, claim))

    def _claim(
        self,
        gmps: frozenset[Gmp],
        limit: int,
        accepts: RelayPolicy | None = None,
        *,
        fresh: LiveTrafficQuota | None = None,
    ) -> list[OutboxEntry]:
        """Claims at most `limit` entries.

        The fair queue counts an entry only once its delivery starts, so entries claimed earlier in the same
        step are not counted yet.
        """
        if not gmps or limit + (fresh.places if fresh is not None else 0) <= 0:
            return []
        return self._outbox.claim(
            worker=self._worker,
            destination_chain=self._chain.chain_id,
            gmps=gmps,
            accepts=accepts or self._acceptance,
            limit=limit,
            now=self._clock.now(),
            lease=self._settings.lease,
            in_order=self._settings.ordering is Ordering.BLOCK,
            fresh=fresh,
        )

    def _claim_behind_breakers(self, gmps: frozenset[Gmp], room: int) -> list[OutboxEntry]:
        """Claims entries that are delivered even though their GMP's breaker is open.

        These are probes, and critical actions, which must not wait.
        """
        critical = replace(self._acceptance, kinds=frozenset({Kind.REGULATORY_ACTION_CRITICAL}))
        claimed = self._claim(gmps, room, critical)
        for gmp in sorted(self._health.among(gmps, BreakerState.HALF_OPEN)):
            if self._probes.get(gmp) not in self._active and len(claimed) < room:
                claimed += self._probe(gmp)
        return claimed

    def _probe(self, gmp: Gmp) -> list[OutboxEntry]:
        """Claims one delivery over a failing GMP, to test whether the GMP has recovered."""
        found = self._claim(frozenset({gmp}), 1)
        for entry in found:
            self._probes[gmp] = entry.current_claim
        return found

    async def renew(self) -> bool:
        """Renews the leases of deliveries in progress.

        Cancels deliveries whose claim another worker has taken over.
        """
        active = {claim for claim in self._active if not self._commits.is_committed(claim)}
        claims = active.union(self._commits.claims)
        if claims:
            for lost in self._outbox.renew(claims, self._clock.now(), self._settings.lease):
                _log.warning("lease lost", entry=lost.event_id, worker=lost.worker)
                if lost in self._active:
                    self._active[lost].cancel()
        return False

    async def commit(self) -> bool:
        """Commits everything in progress; see `DeliveryCommits.commit_everything`."""
        self._commits.commit_everything(list(self._active))
        return False

    async def halted(self) -> None:
        """Waits until the store has rejected too many commits; see `DeliveryCommits.halted`."""
        await self._commits.halted()

    async def stop(self) -> None:
        """Releases unfinished claims, so that the next worker need not wait for their leases to expire."""
        tasks = list(self._active.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            self._commits.flush()
        except TransientError as error:
            _log.warning("claims not released, leases will expire", entries=len(tasks), error=str(error))

    async def _work_on(self, entry: OutboxEntry, claim: Claim) -> None:
        log = _log.bind(
            message=f"0x{entry.dispatch.message_id.hex()}",
            gmp=entry.dispatch.gmp.label,
            attempt=entry.attempt_number,
            entry=entry.event_id,
        )
        try:
            await self._try(entry, claim, log)
        except asyncio.CancelledError:
            # A graceful stop does not count as a try, since the ledger has any transaction. An expired lease does.
            self._commits.add(Postponed(claim, "the worker stopped", self._clock.now()))
            raise
        finally:
            del self._active[claim]
            self._fair_queue.ended(entry)
            self._may_claim_more()
            if not self._active:
                self._commits.nothing_under_way()

    async def _try(self, entry: OutboxEntry, claim: Claim, log: structlog.stdlib.BoundLogger) -> None:
        try:
            delivered = await self._deliver(entry, claim)
        except StaleClaimError as error:
            log.info("claim lost while delivering", reason=str(error))
        except SpendBlockedError as error:
            look_at = self._gate.note_blocked(entry.event_id, _message_of(entry), error.refusal)
            self._commits.add(Postponed(claim, str(error), look_at))
        except Exception as error:  # noqa: BLE001  # every error goes into the entry's history
            if not isinstance(error, StoreBusyError | AttestationPendingError):  # no evidence about the GMP
                self._tell_health(entry, code_of(error))
            outcome = await self._failed(entry, claim, error, log)
            self._commits.add(outcome)
            if isinstance(outcome, TryAgain):
                self._waits_for_room = True  # it may be due by the time it is written
                wait = outcome.available_at - self._clock.now()
                asyncio.get_running_loop().call_later(wait, self.wakeup.set)  # a short pause ends before the next poll
        else:
            _log_delivered(log, delivered, self._clock.now() - entry.created_at)
            if entry.fence > 1:  # a spending bound may have blocked it before
                self._gate.release(entry.event_id)
            self._tell_health(entry, None)
            self._commits.add(delivered)

    def _may_claim_more(self) -> None:
        if self._waits_for_room:
            self.wakeup.set()

    def _tell_health(self, entry: OutboxEntry, code: str | None) -> None:
        dispatch = entry.dispatch
        self._health.record(
            Tried(
                gmp=dispatch.gmp,
                destination_chain=dispatch.destination_chain,
                message_id=dispatch.message_id,
                at=self._clock.now(),
                code=code,
            )
        )

    async def _deliver(self, entry: OutboxEntry, claim: Claim) -> Delivered:
        adapter, dispatch = self._adapters[entry.dispatch.gmp], entry.dispatch
        self._gate.admit(_message_of(entry), self._chain.chain_id)  # before any request
        timeouts = self._settings.phase_timeouts_of(entry.kind)
        async with _timed(Phase.ATTEST, timeouts):
            attestation = await _attested(adapter, dispatch)
        while True:
            steps = _Steps(self._clock)
            try:
                async with _timed(Phase.DELIVER, timeouts):
                    return await self._send_all(entry, claim, adapter, attestation, steps)
            except FeesTooHighError:
                await self._wait_for_affordable_fees()  # neither a failure nor part of the phase's time
            except DeliveryTimeoutError as error:
                if (
                    self._seconds_at_fault(entry, steps) < error.seconds / 2
                ):  # others of its account took most of the time
                    raise UnansweredError(
                        f"{error}: the transaction was waiting for earlier transactions of the same account"
                    ) from error
                raise

    def _seconds_at_fault(self, entry: OutboxEntry, steps: _Steps) -> float:
        """Returns how long the current step of a delivery has taken in seconds, excluding waits for other transactions.

        Earlier steps are complete, so they do not count.
        """
        next_for = self._sender.next_for(entry.event_id)
        return steps.seconds if next_for is None else min(next_for, steps.seconds)

    async def _wait_for_affordable_fees(self) -> None:
        """Waits until fees are within the limit. One waiting delivery polls on behalf of all others."""
        async with self._waits_for_fees:
            while True:
                with suppress(TransientError):
                    if await self._sender.can_pay():
                        return
                await self._clock.sleep(self._settings.poll_interval)

    async def _send_all(
        self, entry: OutboxEntry, claim: Claim, adapter: Adapter, attestation: bytes, steps: _Steps
    ) -> Delivered:
        dispatch = entry.dispatch
        sent = await self._earlier_receipt(entry)
        for _ in range(MOST_CALLS):
            steps.begin()
            call = await _next_call(adapter, dispatch, attestation)
            if call is None:
                return await self._delivered(dispatch, claim, sent)
            if sent is not None and not sent.succeeded:
                raise DeliveryRevertedError(sent)
            try:
                sent = await self._send(entry, call, claim)
            except NonceLostError as error:  # for example, a dead worker reserved it and never signed
                _log.info("delivery needs a new nonce", entry=entry.event_id, reason=str(error))
            except CallRevertedError as error:
                if not _is_received(error, dispatch):
                    raise
            else:
                if shows_delivery(sent, self._router, dispatch):
                    return await self._delivered(dispatch, claim, sent)
        raise TransientError(f"{adapter.gmp.label} planned more than {MOST_CALLS} transactions for one delivery")

    async def _earlier_receipt(self, entry: OutboxEntry) -> Receipt | None:
        """Waits for a pending transaction of an earlier claim of the entry, and returns its receipt."""
        if entry.fence <= 1:
            return None
        try:
            return await self._sender.outcome(entry.event_id)
        except NonceLostError as error:  # for example, a dead worker reserved it and never signed
            _log.info("delivery needs a new nonce", entry=entry.event_id, reason=str(error))
            return None

    async def _send(self, entry: OutboxEntry, call: Call, claim: Claim) -> Receipt:
        self._commits.commit_before_sending(claim)
        must_hold = None if self._commits.is_committed(claim) else claim
        spent_for = SpentFor.of(_message_of(entry))
        # A delivery that failed before is sent alone: it may have made the batch fail, and its own revert reason is clearer.
        may_share = call.by_anyone and entry.failed_tries == 0
        try:
            return await self._sender.send(entry.event_id, call, must_hold, may_share=may_share, spent_for=spent_for)
        except StaleClaimError:
            if not self._commits.is_committed(claim):
                raise
            # The commit timer was faster.
            return await self._sender.send(entry.event_id, call, may_share=may_share, spent_for=spent_for)

    async def _delivered(self, dispatch: Dispatch, claim: Claim, sent: Receipt | None) -> Delivered:
        """Returns the block to record for a delivery.

        This is the block of our transaction, or the head if another account delivered.

        Raises:
            UnansweredError: Another account delivered, in a block above the head that the endpoint returned.
        """
        if sent is not None and shows_delivery(sent, self._router, dispatch):
            delivery = ObservedDelivery(BlockRef(sent.block_number, sent.block_hash), sent.transaction_hash)
            return Delivered(claim, delivery, shows_execution(sent, self._router, dispatch.message_id))
        # Endpoints lag. The delivery would be confirmed too early if the recorded block were below its own.
        head = await self._chain.head()
        if not await self._destination.has_received(dispatch.message_id, dispatch.gmp, block=head.number):
            raise UnansweredError(
                f"the router has the receipt of {dispatch.gmp.label}, but not yet at block {head.number}",
                chain_id=self._chain.chain_id,
            )
        return Delivered(claim, ObservedDelivery(BlockRef.of(head), None))

    async def _wait_for_attestation(
        self, entry: OutboxEntry, claim: Claim, error: AttestationPendingError, log: structlog.stdlib.BoundLogger
    ) -> Outcome:
        """Reschedules a delivery that is not attested yet, until the message expires.

        Waiting does not count as a try.
        """
        now, message = self._clock.now(), _message_of(entry)
        if (over := await self._end_reason(message, self._policies.operator.rows[message.kind], 0)) is not None:
            return self._end_without_letter(claim, entry.failed_tries, failure_of(error, now), over, log)
        pause = attestation_pause(self._policies.operator.rows[message.kind], now - entry.created_at)
        log.info("attestation pending", retry_in=round(pause, 3), reason=str(error))
        return Postponed(claim, str(error), now + pause)

    @staticmethod
    def _end_without_letter(
        claim: Claim, tries: int, failure: Failure, reason: GiveUpReason, log: structlog.stdlib.BoundLogger
    ) -> Dead:
        """Ends a delivery without writing a dead letter."""
        log.error("delivery dead", tries=tries, reason=reason.value, code=failure.code, error=failure.message)
        return Dead(claim, replace(failure, letter=False, message=f"{reason.value}: {failure.message}"))

    async def _failed(
        self, entry: OutboxEntry, claim: Claim, error: Exception, log: structlog.stdlib.BoundLogger
    ) -> Outcome:
        now = self._clock.now()
        if isinstance(error, StoreBusyError):  # no reason to give the delivery up
            log.warning("delivery interrupted", error=str(error))
            return TryAgain(claim, failure_of(error, now), now)
        if isinstance(error, AttestationPendingError):
            return await self._wait_for_attestation(entry, claim, error, log)
        try:
            message, policy = await self._message_and_policy(entry)
        except TransientError as unread:  # never give up on less than the sender chose
            log.warning("sender's delivery choice unreadable, delivery postponed", error=str(unread))
            return TryAgain(claim, failure_of(unread, now), now + CHOICE_PAUSE)
        failure = replace(failure_of(error, now), delivery_snapshot=self._snapshot(entry))
        if failure.kind is FailureKind.UNKNOWN:
            log.error("delivery failed unexpectedly", exc_info=error)
        costs_a_try = failure.kind.costs_a_try
        tries, setbacks = entry.failed_tries + costs_a_try, entry.setbacks + 1
        found = next_try(policy, tries if costs_a_try else setbacks, failure.kind, random=self._random)
        if message is not None and not isinstance(found, GiveUpReason):
            found = await self._end_reason(message, policy, found) or found
        if isinstance(found, GiveUpReason):
            if becomes_dead_letter(policy, found):
                return await self._dead_letters.mark_dead(entry, claim, failure, found.value)
            return self._end_without_letter(claim, tries, failure, found, log)
        if not costs_a_try and setbacks >= STUCK_AFTER:
            found = _pause_if_stuck(policy, found)
            if setbacks == STUCK_AFTER:
                log.error("delivery makes no progress", setbacks=STUCK_AFTER, retry_in=found, error=failure.message)
        log.warning("delivery failed", tries=tries, retry_in=round(found, 3), code=failure.code, error=failure.message)
        return TryAgain(claim, failure, now + found)

    async def _message_and_policy(self, entry: OutboxEntry) -> tuple[Message | None, DeliveryPolicy]:
        """Returns an entry's message and policy.

        If the envelope is unreadable, the message is None and the policy is that of the entry's kind.

        Raises:
            TransientError: The sender's on-chain choice can't be read.
        """
        try:
            message = _message_of(entry)
        except EnvelopeError:
            return None, self._policies.operator.rows[entry.kind]
        return message, (await self._policies.of(message)).delivery

    async def _end_reason(self, message: Message, policy: DeliveryPolicy, delay: float) -> GiveUpReason | None:
        """Returns the reason why the message will need no delivery in `delay` seconds, or None if it still will.

        Deliveries that are retried without limit stop when their message ends: it was executed through another
        GMP, or its sender cancelled it.
        """
        if await self._expires_within(message, delay):
            return GiveUpReason.MESSAGE_TTL_EXPIRED
        if policy.max_retries is not None:
            return None
        with suppress(TransientError, CallRevertedError):  # then nothing shows that it has ended
            if (await self._destination.progress(message.id, block=self._final_height())).ended:
                return GiveUpReason.MESSAGE_ENDED
        return None

    async def _expires_within(self, message: Message, delay: float) -> bool:
        """Whether a message will have expired after `delay` seconds.

        Critical regulatory actions never expire; only their destination chain can end them.
        """
        if message.expires_at is None or message.kind is Kind.REGULATORY_ACTION_CRITICAL:
            return False
        return await self._chain_time() + delay > message.expires_at

    async def _chain_time(self) -> float:
        """Returns the destination's block timestamp in Unix seconds, or 0 while it can't be read.

        Block time decides whether a message has expired, because this machine's clock may be wrong.
        """
        try:
            return (await self._chain.head()).timestamp
        except TransientError:
            return 0

    def _snapshot(self, entry: OutboxEntry) -> DeliverySnapshot:
        """Returns the state of every delivery of the message.

        Returns an empty snapshot if the store fails, because the failure must be recorded anyway.
        """
        try:
            return snapshot_of(self._outbox.entries(entry.dispatch.message_id))
        except StoreBusyError:
            return ()


def _pause_if_stuck(policy: DeliveryPolicy, delay: float) -> float:
    """Returns the pause before a stuck delivery is retried: a long one, unless its kind is retried without limit."""
    return delay if policy.max_retries is None else max(delay, STUCK_PAUSE)


def _message_of(entry: OutboxEntry) -> Message:
    """Returns the message that an entry delivers.

    Raises:
        EnvelopeError: This version can't read the stored envelope.
    """
    return decode_envelope(entry.dispatch.envelope).message


def _log_delivered(log: structlog.stdlib.BoundLogger, delivered: Delivered, seconds: float) -> None:
    """Logs that a delivery is on chain.

    The outbox shows DELIVERED only once the outcome is committed (`bridge.relayer.delivery_commits`).
    """
    transaction = None if delivered.delivery is None else delivered.delivery.transaction_hash
    if transaction is None:
        log.info("already delivered")
    else:
        log.info("delivered", transaction=f"0x{transaction.hex()}", seconds=round(seconds, 3))


async def _attested(adapter: Adapter, dispatch: Dispatch) -> bytes:
    """Returns the attestation for a delivery.

    Raises:
        NotAttestedError: The GMP has no attestation, which counts against the GMP.
        AttestationUnansweredError: The GMP gave no usable response, which also counts against it.
        AttestationPendingError: The GMP's signers have not all signed yet.
    """
    try:
        return await adapter.attest(dispatch)
    except AttestationPendingError:
        raise  # retried later, and not held against the GMP
    except UnansweredError as error:
        raise AttestationUnansweredError(str(error)) from error
    except TransientError as error:
        raise NotAttestedError(str(error)) from error


async def _next_call(adapter: Adapter, dispatch: Dispatch, attestation: bytes) -> Call | None:
    """Returns the delivery's next transaction, or None once the router has its receipt.

    Raises:
        CallRevertedError: The call reverted for any other reason.
    """
    try:
        return await adapter.next_call(dispatch, attestation)
    except CallRevertedError as error:
        if _is_received(error, dispatch):
            return None
        raise


def _is_received(error: CallRevertedError, dispatch: Dispatch) -> bool:
    """Whether the router rejected the call because it already has this receipt.

    This means that another relayer delivered first, which counts as success.
    """
    found = ROUTER.error(error.data)
    if found is None or found[0] != "AlreadyReceived":
        return False
    return (found[1]["messageId"], found[1]["gmp"]) == (dispatch.message_id, int(dispatch.gmp))


@asynccontextmanager
async def _timed(phase: Phase, timeouts: Mapping[str, float]) -> AsyncIterator[None]:
    """Enforces a phase's timeout. Best-effort messages and phases without a timeout are not limited.

    Raises:
        DeliveryTimeoutError: The phase took too long.
    """
    seconds = timeouts.get(phase)
    timer = asyncio.timeout(seconds)
    try:
        async with timer:
            yield
    except TimeoutError as error:
        if not timer.expired():
            raise
        assert seconds is not None
        raise DeliveryTimeoutError(phase, seconds) from error


def failure_of(error: Exception, now: float) -> Failure:
    """Converts an error to the failure that the entry's history records; `now` is in Unix seconds."""
    kind = classify(error).kind or FailureKind.UNKNOWN
    return Failure(at=now, kind=kind, code=code_of(error), message=str(error) or repr(error))
