"""The tripwire: pauses a GMP on the chain where it delivered what was never handed to it.

It looks for suspicions among the divergences that the index writes, has both facts read again, records the accusation in the
relayer's store, and pauses the GMP there through the ordinary sender.
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
from bridge.tripwire.settings import TripwireSettings

_log = structlog.get_logger(__name__)

_GAS: Final = 600_000  # sixteen adapters need less than half
_LEAST: Final = 60  # seconds; a shorter pause is none
_LOOKS_EVERY: Final = 10.0  # seconds between two notes that the tripwire runs


class _RefusedError(Exception):
    """The router does not take the pause; the text says why."""


class Tripwire:
    """Put together by `bridge.service.tripwire_service`."""

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
        """Reads nothing yet.

        Args:
            deployment: the network.
            chains: its chains by id, connected.
            senders: of the account that pauses, by chain; none in a dry run, which logs and pauses nothing.
            evidence: finds and proves lies.
            accusations: of the relayer's store.
            channels: who is told.
            clock: time.
            settings: how it works.
        """
        self._deployment = deployment
        self._chains = chains
        self._senders = senders
        self._evidence = evidence
        self._accusations = accusations
        self._channels = channels
        self._clock = clock
        self._settings = settings
        self._logged: set[tuple[int, int, bytes]] = set()  # in a dry run
        self._noted_at = 0.0

    async def run(self) -> None:
        """Works until it is cancelled."""
        every = self._settings.poll_interval
        async with asyncio.TaskGroup() as group:
            group.create_task(run_forever("look for lies", self.step, every=every))
            for chain_id, sender in self._senders.items():
                send = run_forever(f"send on {chain_id}", sender.tick, every=every, wakeup=sender.wakeup)
                group.create_task(send)

    async def step(self) -> bool:
        """Accuses whoever has lied, pauses what is not paused yet, and reports it. A silent chain holds up no other one.

        Raises:
            TransientError: the index, a chain or a channel gave no answer: to be called again.
        """
        known = [one.key for one in self._accusations.all()]
        suspicions = await self._evidence.suspicions([*known, *self._logged])
        problems = await _each([partial(self._judge, one) for one in suspicions])
        open_ones = [one for one in self._accusations.all() if one.state is AccusationState.OPEN]
        problems += await _each([partial(self._answer, one) for one in open_ones])
        problems += await _each([partial(self._report, one) for one in self._accusations.all() if not one.is_reported])
        if self._clock.now() - self._noted_at >= _LOOKS_EVERY:
            self._noted_at = self._clock.now()
            self._accusations.note_look(self._noted_at)
        if problems:
            raise TransientError("; ".join(dict.fromkeys(problems)))
        return False

    async def _judge(self, suspicion: Suspicion) -> None:
        for accusation in await self._evidence.accusations(suspicion, self._clock.now()):
            if not self._senders:
                self._logged.add(accusation.key)
                _log.critical("GMP accused, dry run", **accusation.evidence)
                continue
            _log.critical("GMP accused", **accusation.evidence)
            is_early = accusation.gmp in self._settings.early_gmps and accusation.kind == WITHOUT_CREATION
            why = "the GMP may deliver before the source is final: a person decides"
            undecided = replace(accusation, state=AccusationState.NOT_PAUSED, reason=why)
            self._accusations.add(undecided if is_early else accusation)

    async def _answer(self, accusation: Accusation) -> None:
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
        """Pauses the GMP as long as the settings say or its allowance lasts; one that is paused for half as long stays so.

        Returns:
            Until when, Unix seconds of the chain.

        Raises:
            _RefusedError: the router refuses, or the allowance is spent.
            TransientError: the chain does not answer, or no block includes it yet.
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
            raise _RefusedError("the router has no adapter of the GMP any more")
        if paused_until >= head.timestamp + self._settings.pause // 2:
            return int(paused_until)
        seconds = min(self._settings.pause, allowance)
        if seconds < _LEAST:
            raise _RefusedError(f"the tripwire's allowance is {allowance} s; the guardian or the owner can pause it")
        until = head.timestamp + seconds
        call = Call(to=router, data=ROUTER.encode("pauseGmp", gmp, until), gas=_GAS)
        try:
            await chain.call(call, sender=sender.address)
        except CallRevertedError as error:
            raise _RefusedError(f"the router refuses: {explain_revert(error.data)}") from error
        key = f"tripwire/{accusation.chain_id}/{gmp}/0x{accusation.message_id.hex()}"
        receipt = await sender.send(key, call)
        if not receipt.succeeded:
            raise _RefusedError(f"transaction 0x{receipt.transaction_hash.hex()} reverted")
        return int(until)

    async def _report(self, accusation: Accusation) -> None:
        """Tells every channel of an accusation, once it is known what was done about it."""
        if accusation.state is AccusationState.OPEN:
            return
        chain, gmp = self._deployment.chain(accusation.chain_id).name, gmp_label(accusation.gmp)
        is_paused = accusation.state is AccusationState.PAUSED
        outcome = f"it is paused until {accusation.paused_until}" if is_paused else f"not paused: {accusation.reason}"
        notice = Notice(
            key=f"tripwire/{accusation.chain_id}/{accusation.gmp}/{accusation.message_id.hex()}",
            severity=Severity.CRITICAL,
            summary=f"{gmp} lied on {chain}: {accusation.kind} of message 0x{accusation.message_id.hex()}; {outcome}",
            details=accusation.evidence,
        )
        problems = await _each([partial(channel.tell, notice) for channel in self._channels])
        if problems:
            raise TransientError(f"notices not taken: {'; '.join(problems)}")
        self._accusations.save(replace(accusation, is_reported=True))


async def _each(steps: Iterable[Callable[[], Awaitable[None]]]) -> list[str]:
    """Takes steps at once, and gives the transient errors of those that have to be taken again."""
    results = await asyncio.gather(*(step() for step in steps), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, TransientError):
            raise result
    return [str(result) for result in results if isinstance(result, TransientError)]
