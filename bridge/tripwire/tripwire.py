"""The tripwire pauses a GMP on a chain where it delivered a forged message.

It reads suspicions from the divergences that the index writes, verifies both facts again, records accusations in the
relayer's store, and pauses the GMP through the ordinary sender.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import structlog

from bridge.dead_letters.channels import Channel, Notice, Severity
from bridge.evm.sender import Sender
from bridge.evm.supervision import run_forever
from bridge.protocol.contracts import ROUTER, explain_revert
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import gmp_label
from bridge.protocol.ports import Call, CallRevertedError, Chain, Clock, TransientError, read_view
from bridge.store.accusations import Accusation, Accusations, AccusationState
from bridge.tripwire.evidence import WITHOUT_CREATION, Evidence, Suspicion
from bridge.tripwire.settings import PAUSE, TripwireSettings

_log = structlog.get_logger(__name__)

_GAS: Final = 600_000  # twice what sixteen adapters need
_MIN_PAUSE: Final = 60  # seconds
_HEARTBEAT_INTERVAL: Final = 10.0  # seconds


class _RefusedError(Exception):
    """The router rejects the pause. The message states the reason."""


class Tripwire:
    """The tripwire of a network; `bridge.service.tripwire_service` creates it."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        chains: Mapping[int, Chain],
        senders: Mapping[int, Sender],
        evidence: Evidence,
        accusations: Accusations,
        channels: Sequence[Channel],
        clock: Clock,
        settings: TripwireSettings,
    ) -> None:
        """Creates a tripwire.

        Args:
            deployment: The network's deployment.
            chains: Connections to the network's chains, by chain id.
            senders: Senders of the pausing account by chain.
            evidence: Finds and proves forgeries.
            accusations: Accusations in the relayer's store.
            channels: Alert channels.
            clock: Current time.
            settings: Settings of the tripwire.
        """
        self._deployment = deployment
        self._chains = chains
        self._senders = senders
        self._evidence = evidence
        self._accusations = accusations
        self._channels = channels
        self._clock = clock
        self._settings = settings
        self._noted_at = 0.0

    async def run(self) -> None:
        """Runs until cancelled."""
        every = self._settings.POLL_INTERVAL
        async with asyncio.TaskGroup() as group:
            group.create_task(run_forever("look for lies", self.step, every=every))
            for chain_id, sender in self._senders.items():
                send = run_forever(f"send on {chain_id}", sender.tick, every=every, wakeup=sender.wakeup)
                group.create_task(send)

    async def step(self) -> bool:
        """Records accusations, and pauses and reports the accused GMPs.

        An unresponsive chain does not block the others.

        Raises:
            TransientError: the index, a chain or a channel failed, so the step must be repeated.
        """
        known = [accusation.key for accusation in self._accusations.all()]
        suspicions = await self._evidence.suspicions(known)
        problems = await _each([partial(self._judge, suspicion) for suspicion in suspicions])
        undecided = [accusation for accusation in self._accusations.all() if accusation.state is AccusationState.OPEN]
        problems += await _each([partial(self._respond, accusation) for accusation in undecided])
        problems += await _each(
            [partial(self._report, accusation) for accusation in self._accusations.all() if not accusation.is_reported]
        )
        if self._clock.now() - self._noted_at >= _HEARTBEAT_INTERVAL:
            self._noted_at = self._clock.now()
            self._accusations.note_look(self._noted_at)
        if problems:
            raise TransientError("; ".join(dict.fromkeys(problems)))
        return False

    async def _judge(self, suspicion: Suspicion) -> None:
        for accusation in await self._evidence.accusations(suspicion, self._clock.now()):
            _log.critical("GMP accused", **accusation.evidence)
            is_early = accusation.gmp in self._settings.early_gmps and accusation.kind == WITHOUT_CREATION
            why = "the GMP may deliver before source finality, so a person must decide"
            undecided = replace(accusation, state=AccusationState.NOT_PAUSED, reason=why)
            self._accusations.add(undecided if is_early else accusation)

    async def _respond(self, accusation: Accusation) -> None:
        chain, gmp = self._deployment.chain(accusation.chain_id).name, gmp_label(accusation.gmp)
        try:
            until = await self._pause(accusation)
        except _RefusedError as error:
            _log.critical("GMP not paused", chain=chain, gmp=gmp, reason=str(error))
            self._accusations.save(replace(accusation, state=AccusationState.NOT_PAUSED, reason=str(error)))
            return
        _log.critical("GMP paused", chain=chain, gmp=gmp, until=until)
        self._accusations.save(replace(accusation, state=AccusationState.PAUSED, paused_until=until))

    async def _pause(self, accusation: Accusation) -> int:
        """Pauses the GMP for the configured time or the remaining allowance, unless half of it is already paused.

        Returns:
            End of the pause in Unix seconds of the chain.

        Raises:
            _RefusedError: the router rejects the pause, or the allowance is used up.
            TransientError: the chain did not respond, or the transaction is not included yet.
        """
        router, gmp = self._deployment.chain(accusation.chain_id).router, accusation.gmp
        chain, sender = self._chains[accusation.chain_id], self._senders[accusation.chain_id]
        adapter, paused_until, allowance, head = await asyncio.gather(
            read_view(chain, ROUTER, router, "adapterOf", gmp),
            read_view(chain, ROUTER, router, "gmpPausedUntil", gmp),
            read_view(chain, ROUTER, router, "tripwireAllowance", gmp),
            chain.head(),
        )
        if int(adapter, 16) == 0:
            raise _RefusedError("the router no longer has an adapter for the GMP")
        if paused_until >= head.timestamp + PAUSE // 2:
            return int(paused_until)
        seconds = min(PAUSE, allowance)
        if seconds < _MIN_PAUSE:
            raise _RefusedError(
                f"the tripwire's allowance is {allowance} s; the guardian or the owner can pause the GMP"
            )
        until = head.timestamp + seconds
        call = Call(to=router, data=ROUTER.encode("pauseGmp", gmp, until), gas=_GAS)
        try:
            await chain.call(call, sender=sender.address)
        except CallRevertedError as error:
            raise _RefusedError(f"the router rejects the pause: {explain_revert(error.data)}") from error
        key = f"tripwire/{accusation.chain_id}/{gmp}/0x{accusation.message_id.hex()}"
        receipt = await sender.send(key, call)
        if not receipt.succeeded:
            raise _RefusedError(f"transaction 0x{receipt.transaction_hash.hex()} reverted")
        return int(until)

    async def _report(self, accusation: Accusation) -> None:
        """Notifies every channel of an accusation once it is resolved."""
        if accusation.state is AccusationState.OPEN:
            return
        chain, gmp = self._deployment.chain(accusation.chain_id).name, gmp_label(accusation.gmp)
        is_paused = accusation.state is AccusationState.PAUSED
        outcome = f"it is paused until {accusation.paused_until}" if is_paused else f"not paused: {accusation.reason}"
        notice = Notice(
            key=f"tripwire/{accusation.chain_id}/{accusation.gmp}/{accusation.message_id.hex()}",
            severity=Severity.CRITICAL,
            summary=f"{gmp} is faulty on {chain}: {accusation.kind} of message 0x{accusation.message_id.hex()}; {outcome}",
            details=accusation.evidence,
        )
        problems = await _each([partial(channel.tell, notice) for channel in self._channels])
        if problems:
            raise TransientError(f"notifications failed: {'; '.join(problems)}")
        self._accusations.save(replace(accusation, is_reported=True))


async def _each(steps: Iterable[Callable[[], Awaitable[None]]]) -> list[str]:
    """Runs steps concurrently. Returns the transient errors of those that must be repeated."""
    results = await asyncio.gather(*(step() for step in steps), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, TransientError):
            raise result
    return [str(result) for result in results if isinstance(result, TransientError)]
