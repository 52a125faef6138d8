"""Works off the outbox of one destination: claim, attest, deliver, acknowledge."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import structlog

from bridge.dlq import DeadLetterOffice
from bridge.policies import RetryPolicy, becomes_dead_letter, guarantee_of, retry_delay, why_spent
from bridge.ports import (
    Adapter,
    Call,
    CallRevertedError,
    Chain,
    Clock,
    Dispatch,
    FeesTooHighError,
    Receipt,
    TransientError,
)
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind, Message, decode_envelope
from bridge.records.acceptance import Acceptance
from bridge.records.errors import StoreBusyError
from bridge.records.failures import FailureKind
from bridge.records.figures import Tried
from bridge.records.fresh_share import FreshShare
from bridge.records.observations import BlockRef
from bridge.records.outbox import (
    STUCK_AFTER,
    STUCK_PAUSE,
    Claim,
    Dead,
    Delivered,
    Delivery,
    Outbox,
    OutboxEntry,
    Outcome,
    Postponed,
    Retry,
    StaleClaimError,
)
from bridge.records.slips import Slip, slip_of
from bridge.records.spending import SpendHeldError, SpentFor
from bridge.relay.acknowledgements import Acknowledgements
from bridge.relay.asking import attested, is_received, next_call
from bridge.relay.breaker import BreakerState
from bridge.relay.failing import DeliveryRevertedError, code_of, failure_of, interrupted
from bridge.relay.health import GmpHealth
from bridge.relay.phases import Phase, timed
from bridge.relay.settings import Ordering, RelaySettings
from bridge.relay.shares import Shares
from bridge.relay.spending import SpendGate
from bridge.routers import RouterReader, shows_delivery, shows_execution
from bridge.sending import NonceLostError, Sending
from bridge.supervision import Wakeup

_log = structlog.get_logger(__name__)

MOST_CALLS: Final = 8  # a GMP needs one to four; more means that its adapter never sees its own success


class Deliveries:
    """The worker of one destination. Many deliveries are under way at once; each one ends in exactly one outcome."""

    def __init__(
        self,
        *,
        worker: str,
        chain: Chain,
        router: str,
        adapters: Mapping[Gmp, Adapter],
        outbox: Outbox,
        dead_letters: DeadLetterOffice,
        sender: Sending,
        gate: SpendGate,
        health: GmpHealth,
        policies: Mapping[Kind, RetryPolicy],
        clock: Clock,
        random: Callable[[], float],
        settings: RelaySettings,
    ) -> None:
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
        self._settings = settings
        self._gmps = settings.claimable & adapters.keys()
        self.wakeup = Wakeup()
        self._acknowledgements = Acknowledgements(outbox, clock, settings.commits, written=self._may_claim_more)
        self._active: dict[Claim, asyncio.Task[None]] = {}
        self._shares = Shares(settings.in_flight, settings.poll)
        self._probes: dict[Gmp, Claim] = {}
        self._waits_for_fees = asyncio.Lock()
        self._waits_for_room = True  # whether an end lets something be claimed that could not be before

    @property
    def commits(self) -> Mapping[str, int]:
        """How many commits the store took, and how many it refused, by result."""
        return self._acknowledgements.commits

    async def step(self) -> bool:
        """Claims what there is room for, and starts to deliver it; says whether there may be more to claim."""
        room = max(0, self._settings.in_flight - len(self._active))
        self._waits_for_room = True
        now = self._clock.now()
        if (room == 0 and not self._shares.are_due(now)) or not self._gmps or not await self._sender.can_pay():
            return False
        closed = self._health.among(self._gmps, BreakerState.CLOSED)
        claimed = self._claim(closed, room, fresh=self._shares.of_fresh(len(self._active), now))
        if closed != self._gmps:
            claimed += self._claim_behind_breakers(self._gmps - closed, room - len(claimed))
        self._start(claimed)
        if len(claimed) >= room and self._shares.are_due(now):
            began = self._clock.now()
            for gmp in sorted(closed):
                idle = self._shares.without_busy(self._settings.acceptance, gmp)
                self._start(self._claim(frozenset({gmp}), self._shares.size, idle))
            self._shares.given(began, self._clock.now())
        is_held_back = self._settings.ordering is Ordering.BLOCK or closed != self._gmps
        self._waits_for_room = len(claimed) >= room or is_held_back
        return len(claimed) >= room

    def _start(self, claimed: Sequence[OutboxEntry]) -> None:
        for entry in claimed:
            claim = entry.claim_held
            self._shares.began(entry, self._clock.now())
            self._active[claim] = asyncio.get_running_loop().create_task(self._work_on(entry, claim))

    def _claim(
        self,
        gmps: frozenset[Gmp],
        limit: int,
        accepts: Acceptance | None = None,
        *,
        fresh: FreshShare | None = None,
    ) -> list[OutboxEntry]:
        if not gmps or limit + (fresh.places if fresh is not None else 0) <= 0:
            return []
        return self._outbox.claim(
            worker=self._worker,
            destination_chain=self._chain.chain_id,
            gmps=gmps,
            accepts=accepts or self._settings.acceptance,
            limit=limit,
            now=self._clock.now(),
            lease=self._settings.lease,
            in_order=self._settings.ordering is Ordering.BLOCK,
            fresh=fresh,
        )

    def _claim_behind_breakers(self, gmps: frozenset[Gmp], room: int) -> list[OutboxEntry]:
        """What is tried although its GMP's breaker is not closed: critical actions, which may not wait, and probes."""
        critical = replace(self._settings.acceptance, kinds=frozenset({Kind.REGULATORY_ACTION_CRITICAL}))
        claimed = self._claim(gmps, room, critical)
        for gmp in sorted(self._health.among(gmps, BreakerState.HALF_OPEN)):
            if self._probes.get(gmp) not in self._active and len(claimed) < room:
                claimed += self._probe(gmp)
        return claimed

    def _probe(self, gmp: Gmp) -> list[OutboxEntry]:
        """One delivery over a GMP whose deliveries failed, to see whether it works again."""
        found = self._claim(frozenset({gmp}), 1)
        for entry in found:
            self._probes[gmp] = entry.claim_held
        return found

    async def renew(self) -> bool:
        """Keeps the leases of what is being delivered; gives up what another worker took over."""
        active = {claim for claim in self._active if not self._acknowledgements.is_committed(claim)}
        claims = active.union(self._acknowledgements.claims)
        if claims:
            for lost in self._outbox.renew(claims, self._clock.now(), self._settings.lease):
                _log.warning("lease lost to another worker", entry=lost.event_id, worker=lost.worker)
                if lost in self._active:
                    self._active[lost].cancel()
        return False

    async def commit(self) -> bool:
        """Commits whatever is under way; see `Acknowledgements.commit_everything`."""
        self._acknowledgements.commit_everything(list(self._active))
        return False

    async def halted(self) -> None:
        """Waits until the store has refused too many commits; see `Acknowledgements.halted`."""
        await self._acknowledgements.halted()

    async def stop(self) -> None:
        """Gives back what is not finished, so that the next worker needs to wait for no lease."""
        tasks = list(self._active.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            self._acknowledgements.flush()
        except TransientError as error:
            _log.warning("not given back; the leases will run out", entries=len(tasks), error=str(error))

    async def _work_on(self, entry: OutboxEntry, claim: Claim) -> None:
        log = _log.bind(
            message=f"0x{entry.dispatch.message_id.hex()}", gmp=entry.dispatch.gmp.label, attempt=entry.attempt
        )
        try:
            delivered = await self._deliver(entry, claim)
        except StaleClaimError as error:
            log.info("delivery given up", reason=str(error))
        except SpendHeldError as error:
            look_at = self._gate.hold(entry.event_id, _message_of(entry), error.refusal)
            self._acknowledgements.add(Postponed(claim, str(error), look_at))
        except asyncio.CancelledError:
            now = self._clock.now()
            self._acknowledgements.add(Retry(claim, interrupted(now, "the worker stopped"), now))
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, it becomes the entry's history
            if not isinstance(error, StoreBusyError):
                self._tell_health(entry, code_of(error))
            outcome = await self._failed(entry, claim, error, log)
            self._acknowledgements.add(outcome)
            if isinstance(outcome, Retry):
                self._waits_for_room = True  # it may be due by the time that it is written
                wait = outcome.available_at - self._clock.now()
                asyncio.get_running_loop().call_later(wait, self.wakeup.set)  # a short one is over before the next poll
        else:
            _log_delivered(log, delivered, self._clock.now() - entry.created_at)
            if entry.fence > 1:  # it may have waited for a bound before
                self._gate.release(entry.event_id)
            self._tell_health(entry, None)
            self._acknowledgements.add(delivered)
        finally:
            del self._active[claim]
            self._shares.ended(entry)
            self._may_claim_more()
            if not self._active:
                self._acknowledgements.nothing_under_way()

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
        self._gate.admit(_message_of(entry), self._chain.chain_id)
        atomicity = self._settings.atomicity[entry.kind]
        async with timed(Phase.ATTEST, atomicity, self._settings.phase_timeouts):
            attestation = await attested(adapter, dispatch)
        while True:
            try:
                async with timed(Phase.DELIVER, atomicity, self._settings.phase_timeouts):
                    return await self._send_all(entry, claim, adapter, attestation)
            except FeesTooHighError:
                await self._until_it_can_pay()  # no failure of the delivery, and no time of its phase

    async def _until_it_can_pay(self) -> None:
        """Returns once fees are within the limit; one of the deliveries that wait asks for all of them."""
        async with self._waits_for_fees:
            while True:
                with suppress(TransientError):
                    if await self._sender.can_pay():
                        return
                await self._clock.sleep(self._settings.poll)

    async def _send_all(self, entry: OutboxEntry, claim: Claim, adapter: Adapter, attestation: bytes) -> Delivered:
        dispatch = entry.dispatch
        sent = await self._taken_over(entry)
        for _ in range(MOST_CALLS):
            call = await next_call(adapter, dispatch, attestation)
            if call is None:
                return await self._proof(dispatch, claim, sent)
            if sent is not None and not sent.succeeded:
                raise DeliveryRevertedError(sent)
            try:
                sent = await self._send(entry, call, claim)
            except NonceLostError as error:  # such as one that a dead worker reserved and never signed for
                _log.info("delivery takes another nonce", entry=entry.event_id, reason=str(error))
            except CallRevertedError as error:
                if not is_received(error, dispatch):
                    raise
            else:
                if shows_delivery(sent, self._router, dispatch):
                    return await self._proof(dispatch, claim, sent)
        raise TransientError(f"after {MOST_CALLS} transactions {adapter.gmp.label} still wants another one")

    async def _taken_over(self, entry: OutboxEntry) -> Receipt | None:
        """What an earlier claim of the entry has sent, if that is under way, once it is in a block."""
        if entry.fence <= 1:
            return None
        try:
            return await self._sender.outcome(entry.event_id)
        except NonceLostError as error:  # such as one that a dead worker reserved and never signed for
            _log.info("delivery takes another nonce", entry=entry.event_id, reason=str(error))
            return None

    async def _send(self, entry: OutboxEntry, call: Call, claim: Claim) -> Receipt:
        self._acknowledgements.commit_before_sending(claim)
        fence = None if self._acknowledgements.is_committed(claim) else claim
        # What has failed before goes alone: it may be what makes a shared transaction fail, and shows its reason better.
        may_share, spent_for = call.by_anyone and entry.attempts == 0, SpentFor.of(_message_of(entry))
        try:
            return await self._sender.send(entry.event_id, call, fence, may_share=may_share, spent_for=spent_for)
        except StaleClaimError:
            if not self._acknowledgements.is_committed(claim):
                raise
            # A timer committed it meanwhile.
            return await self._sender.send(entry.event_id, call, may_share=may_share, spent_for=spent_for)

    async def _proof(self, dispatch: Dispatch, claim: Claim, sent: Receipt | None) -> Delivered:
        """Where the delivery can be found: in our transaction's block, or, somebody else's, in the state of the head."""
        if sent is not None and sent.succeeded:
            delivery = Delivery(BlockRef(sent.block_number, sent.block_hash), sent.transaction_hash)
            return Delivered(claim, delivery, shows_execution(sent, self._router, dispatch.message_id))
        return Delivered(claim, Delivery(BlockRef.of(await self._chain.head()), None))

    async def _failed(
        self, entry: OutboxEntry, claim: Claim, error: Exception, log: structlog.stdlib.BoundLogger
    ) -> Outcome:
        now, message = self._clock.now(), _message_of(entry)
        policy = guarantee_of(message, self._policies, self._settings.guarantees).policy
        if isinstance(error, StoreBusyError):  # says nothing about the delivery: it is no reason to bury it
            log.warning("delivery interrupted", error=str(error))
            return Retry(claim, interrupted(now, str(error)), now)
        failure = replace(failure_of(error, now), slip=self._slip(entry))
        if failure.kind is FailureKind.UNKNOWN and not isinstance(error, CallRevertedError | DeliveryRevertedError):
            log.error("delivery failed unexpectedly", exc_info=error)
        tries = entry.attempts + failure.kind.costs_a_try
        delay = retry_delay(
            policy,
            tries if failure.kind.costs_a_try else entry.setbacks + 1,
            failure.kind,
            now=now,
            expires_at=None,
            random=self._random,
        )
        if delay is not None and await self._would_be_late(message, delay):
            delay = None
        if delay is not None:
            if not failure.kind.costs_a_try and entry.setbacks + 1 >= STUCK_AFTER:
                delay = _pause_if_stuck(policy, delay)
                if entry.setbacks + 1 == STUCK_AFTER:
                    log.error("delivery makes no progress", setbacks=STUCK_AFTER, again_in=delay, error=failure.message)
            log.warning("delivery failed", tries=tries, again_in=round(delay, 3), error=failure.message)
            return Retry(claim, failure, now + delay)
        reason = why_spent(policy, tries, failure.kind)
        if becomes_dead_letter(policy, reason):
            return await self._dead_letters.bury(entry, claim, failure, reason.value)
        log.error("delivery dead", tries=tries, reason=reason.value, error=failure.message)
        return Dead(claim, replace(failure, letter=False))

    async def _would_be_late(self, message: Message, delay: float) -> bool:
        """Whether a message will have expired after so many seconds. Its router knows: pauses stop a message's clock."""
        if message.expires_at is None or await self._chain_time() + delay <= message.expires_at:
            return False
        then = replace(message, ttl=max(1, message.ttl - math.ceil(delay)))
        try:
            return await RouterReader(self._chain, self._router).is_expired(message.source_chain, then)
        except (TransientError, CallRevertedError):  # nobody says that it is over
            return False

    async def _chain_time(self) -> float:
        """The destination's, which decides what has expired: this machine's clock may be off. As long as it is silent, nothing has."""
        try:
            return (await self._chain.head()).timestamp
        except TransientError:
            return 0

    def _slip(self, entry: OutboxEntry) -> Slip:
        """Where all deliveries of the message are; nothing if the store does not say: a failure is noted in any case."""
        try:
            return slip_of(self._outbox.entries(entry.dispatch.message_id))
        except StoreBusyError:
            return ()


def _pause_if_stuck(policy: RetryPolicy, delay: float) -> float:
    """What is stuck is seldom looked at, unless it is of a kind that is tried without end, at the pace of its row."""
    return delay if policy.max_retries is None else max(delay, STUCK_PAUSE)


def _message_of(entry: OutboxEntry) -> Message:
    """The message that an entry delivers."""
    return decode_envelope(entry.dispatch.envelope).message


def _log_delivered(log: structlog.stdlib.BoundLogger, delivered: Delivered, seconds: float) -> None:
    transaction = None if delivered.delivery is None else delivered.delivery.transaction_hash
    if transaction is None:
        log.info("delivered already")
    else:
        log.info("delivered", transaction=f"0x{transaction.hex()}", seconds=round(seconds, 3))
