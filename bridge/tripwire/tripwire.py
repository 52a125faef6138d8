"""The tripwire: reads all chains, rules on each receipt, and pauses the GMP that lied."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import structlog

from bridge.dead_letters.channels import Channel, Notice, Severity
from bridge.domain.observations import BlockRef
from bridge.domain.ports import Clock, TransientError
from bridge.domain.supervision import Wakeup, run_forever
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.tripwire.journal import Deed
from bridge.tripwire.judgement import Ruling, SeenReceipt, judge
from bridge.tripwire.memory import Incident, Memory
from bridge.tripwire.pauser import Pauser, RefusedPauseError
from bridge.tripwire.reader import ChainReader
from bridge.tripwire.settings import TripwireSettings

_log = structlog.get_logger(__name__)

_FRUITLESS: Final = 3  # readings in a row after which what is missing is a finding
_TOLD_EVERY: Final = 1.0  # seconds between two tries to tell people
_SOON: Final = 0.1  # seconds between two tries of what failed
_WIDE: Final = 2  # destinations with evidence, from which on a GMP is paused everywhere


class Tripwire:
    """Put together by `bridge.service.tripwire_service`."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        readers: Mapping[int, ChainReader],
        pausers: Mapping[int, Pauser],
        memory: Memory,
        channels: Sequence[Channel],
        clock: Clock,
        settings: TripwireSettings,
    ) -> None:
        """Reads nothing yet.

        Args:
            deployment: the network.
            readers: of its chains, by id.
            pausers: the same; none on a dry run.
            memory: of an earlier run, or a new one.
            channels: who is told.
            clock: time.
            settings: how it works.
        """
        self._deployment = deployment
        self._readers = readers
        self._pausers = pausers
        self.memory = memory
        self._channels = {channel.name: channel for channel in channels}
        self._clock = clock
        self._settings = settings
        self._has_read = Wakeup()
        self._to_pause = {chain_id: Wakeup() for chain_id in readers}
        self._in_vain: dict[int, int] = {}
        self.read_at: dict[int, float] = {}
        """By chain, when it was last read to its newest block, Unix seconds."""

    async def run(self) -> None:
        """Watches until it is cancelled. A chain that is silent holds up no other one."""
        async with asyncio.TaskGroup() as group:
            for chain_id in self._readers:
                group.create_task(self._repeat(f"read chain {chain_id}", partial(self.read, chain_id), Wakeup()))
                wakeup = self._to_pause[chain_id]
                group.create_task(self._repeat(f"pause on chain {chain_id}", partial(self.act, chain_id), wakeup))
            group.create_task(self._repeat("rule on receipts", self.rule, self._has_read))
            group.create_task(run_forever("tell people", self.tell, every=_TOLD_EVERY))

    async def _repeat(self, name: str, step: Callable[[], Awaitable[bool]], wakeup: Wakeup) -> None:
        """Repeats a step. Where the next block counts, one that fails is tried again soon; `run_forever` waits ever longer."""
        problem = ""
        while True:
            try:
                has_more = await step()
            except Exception as error:  # noqa: BLE001  # a loop must not end
                if str(error) != problem:
                    problem = str(error)
                    _log.warning("step failed, will be repeated", step=name, error=problem)
                await asyncio.sleep(min(_SOON, self._settings.poll_interval))
                continue
            problem = ""
            if not has_more:
                await wakeup.wait(self._settings.poll_interval)

    async def read(self, chain_id: int) -> bool:
        """Reads a chain on; says whether there is more.

        Raises:
            TransientError: see `ChainReader.step`.
        """
        has_more = await self._readers[chain_id].step(self._height_of)
        if not has_more:
            self.read_at[chain_id] = self._clock.now()
        self._has_read.set()
        return has_more

    async def _height_of(self, chain_id: int) -> int | None:
        reader = self._readers.get(chain_id)
        return None if reader is None else (await reader.chain.head()).number

    # ---- ruling

    async def rule(self) -> bool:
        """Rules on every receipt that waits; there is never more to do at once.

        Raises:
            TransientError: a chain whose word is needed does not answer.
        """
        problems = []
        for receipt in self.memory.waiting():
            try:
                await self._rule_on(receipt)
            except TransientError as error:  # one silent chain holds up no other one's receipts
                problems.append(str(error))
        self._judge_executions()
        if problems:
            raise TransientError("; ".join(dict.fromkeys(problems)))
        return False

    async def _rule_on(self, receipt: SeenReceipt) -> None:
        source = self._readers.get(receipt.source_chain)
        if source is None:
            text = f"it names chain {receipt.source_chain}, which this network does not have"
            self._find("UNKNOWN_SOURCE", receipt, text, Ruling.UNKNOWN)
            return
        if not source.is_current:
            return  # what was taken back is about to be read again
        ruling = judge(
            receipt,
            self.memory.creations(receipt.source_chain, receipt.message_id),
            self.memory.hand_overs(receipt.source_chain, receipt.message_id),
            source.final,
            max_clock_skew=self._settings.max_clock_skew,
        )
        if ruling is Ruling.HONEST:
            self.memory.rule(receipt, ruling)
        elif ruling is Ruling.ORPHANED:
            text = (
                "its creation, or the attempt over this GMP, is in a block that fell: the GMP delivered before finality"
            )
            self._find("CREATION_ORPHANED", receipt, text, ruling)
        elif ruling is Ruling.PAYLOAD_DIFFERS or (ruling.is_forgery and await self._is_proven(receipt, source)):
            await self._accuse(receipt, ruling, source)

    async def _is_proven(self, receipt: SeenReceipt, source: ChainReader) -> bool:
        """Whether nothing that was not read could explain the receipt.

        Raises:
            TransientError: the source does not answer.
        """
        lacking = await source.lacks(receipt.chain_id, self._routers_of(receipt), receipt.message_id)
        if lacking is not None:
            self._miss(receipt, lacking)
            return False
        if source.final is None or not source.is_current:
            return False  # a reorg came between
        self._in_vain.pop(receipt.source_chain, None)
        self.memory.complete_to(receipt.source_chain, source.final.number)
        if receipt.gmp in self._settings.early_gmps:
            text = (
                "the GMP may deliver what is not final, so that a block that fell unseen explains it: a person decides"
            )
            self._find("UNEXPLAINED_RECEIPT", receipt, text, Ruling.UNKNOWN)
            return False
        return True

    def _routers_of(self, receipt: SeenReceipt) -> list[str]:
        here = self._deployment.chain(receipt.source_chain).router
        return sorted(self.memory.peers(receipt.source_chain) | {here})

    def _miss(self, receipt: SeenReceipt, lacking: str) -> None:
        """What was read of the source is not all: nothing is forged by that. It is read again, and people are told."""
        source = receipt.source_chain
        self._in_vain[source] = self._in_vain.get(source, 0) + 1
        _log.warning("the source was not read to the full, reading again", chain=source, lacking=lacking)
        if self._in_vain[source] >= _FRUITLESS:
            self._find("LANE_DIFFERS", receipt, f"the router's count and its events do not fit: {lacking}", Ruling.WAIT)
        self._readers[source].read_again()

    async def _accuse(self, receipt: SeenReceipt, ruling: Ruling, source: ChainReader) -> None:
        """Writes the evidence, and has the GMP paused.

        Raises:
            TransientError: the endpoints do not confirm the receipt or the source's final block now.
        """
        final, here = source.final, self._readers[receipt.chain_id]
        assert final is not None
        of_source, of_receipt = await asyncio.gather(
            source.who_says(BlockRef(final.number, final.hash)),
            here.who_says(BlockRef(receipt.block_number, receipt.block_hash), receipt.transaction),
        )
        now = self._clock.now()
        evidence = {
            **self._described(receipt),
            "kind": ruling.value,
            "finalSourceBlock": {"number": final.number, "hash": f"0x{final.hash.hex()}", "saidBy": of_source},
            "receiptSaidBy": of_receipt,
            "sourceRouters": self._routers_of(receipt),
        }
        chain, gmp = self._name(receipt.chain_id), _gmp(receipt.gmp)
        _log.critical("forged receipt", **evidence)

        def notices(incident: str) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
            summary = (
                f"{gmp} lied on {chain}: {ruling.value} of message 0x{receipt.message_id.hex()} (incident {incident})"
            )
            return self._notices(f"tripwire/{incident}/{receipt.row}", Severity.CRITICAL, summary, evidence)

        self.memory.accuse(receipt, ruling, evidence, now, notices)
        self._widen(receipt.gmp, now)
        for wakeup in self._to_pause.values():
            wakeup.set()

    def _widen(self, gmp: int, now: float) -> None:
        """With evidence from two destinations the GMP is paused on the whole network."""
        lasts = self._settings.pause
        live = [
            one
            for one in self.memory.incidents()
            if one.gmp == gmp
            and "-wide-" not in one.id
            and (one.state == "OPEN" or (one.paused_until or 0) > now - lasts)
        ]
        if len({one.chain_id for one in live}) < _WIDE:
            return
        for deployed in self._deployment.chains:
            if deployed.chain_id in self._readers:
                self.memory.widen(live[0], deployed.chain_id, [one.id for one in live], now)

    def _judge_executions(self) -> None:
        """An execution without any receipt blames the router, and names no GMP."""
        for chain_id, message_id, block in self.memory.executed_without_receipt():
            text = f"message 0x{message_id.hex()} was executed in block {block} without a receipt"
            details = {"chain": self._name(chain_id), "messageId": f"0x{message_id.hex()}", "block": block}
            self._report("EXECUTED_WITHOUT_QUORUM", f"{chain_id}/{message_id.hex()}", text, details)

    def _find(self, kind: str, receipt: SeenReceipt, text: str, ruling: Ruling) -> None:
        """Something that pauses nothing by itself: people are told at once."""
        details = self._described(receipt) | {"why": text}
        key = f"{receipt.chain_id}/{receipt.block_hash.hex()}/{receipt.message_id.hex()}/{receipt.gmp}"
        self._report(kind, key, text, details, receipt=receipt, ruling=ruling)

    def _report(
        self,
        kind: str,
        key: str,
        text: str,
        details: Mapping[str, Any],
        *,
        receipt: SeenReceipt | None = None,
        ruling: Ruling | None = None,
    ) -> None:
        summary = f"{kind}: {text}; nothing is paused"
        notices = list(self._notices(f"tripwire/{kind}/{key}", Severity.CRITICAL, summary, details))
        document = dict(details) | {"kind": kind}
        is_new = self.memory.note(
            f"finding/{kind}/{key}",
            Deed.FINDING,
            document,
            self._clock.now(),
            receipt=receipt,
            ruling=ruling,
            notices=notices,
        )
        if is_new:
            _log.critical("finding", **document)

    # ---- pausing

    async def act(self, chain_id: int) -> bool:
        """Answers every incident of a chain that is open; there is never more to do at once.

        Raises:
            TransientError: the chain does not answer: to be called again at once.
        """
        here = [one for one in self.memory.incidents() if one.state == "OPEN" and one.chain_id == chain_id]
        outcomes = await asyncio.gather(*(self._answer(one) for one in here), return_exceptions=True)
        for failure in outcomes:
            if isinstance(failure, BaseException):
                raise failure
        return False

    async def _answer(self, incident: Incident) -> None:
        chain, gmp = self._name(incident.chain_id), _gmp(incident.gmp)
        pauser = self._pausers.get(incident.chain_id)
        if pauser is None or self._settings.is_dry_run:
            self._decline(incident, "this is a dry run: people are told, and nothing is paused")
            return
        try:
            done = await pauser.pause(incident.gmp, self._settings.pause)
        except RefusedPauseError as error:
            self._decline(incident, str(error))
            return
        document = {
            "chain": chain,
            "gmp": gmp,
            "until": done.until,
            "block": done.block,
            "transaction": None if done.transaction is None else f"0x{done.transaction.hex()}",
        }
        _log.critical("GMP paused", incident=incident.id, **document)
        summary = f"{gmp} is paused on {chain} until {done.until}; it speaks again then: `waybill incident show {incident.id}`"
        self.memory.settle(
            incident,
            Deed.PAUSED,
            document,
            self._clock.now(),
            until=done.until,
            block=done.block,
            notices=self._notices(f"tripwire/{incident.id}/{done.until}", Severity.CRITICAL, summary, document),
        )

    def _decline(self, incident: Incident, reason: str) -> None:
        chain, gmp = self._name(incident.chain_id), _gmp(incident.gmp)
        document = {"chain": chain, "gmp": gmp, "reason": reason}
        _log.critical("GMP not paused", incident=incident.id, **document)
        summary = f"{gmp} lied on {chain} and is not paused: {reason} (`waybill incident show {incident.id}`)"
        notices = self._notices(f"tripwire/{incident.id}/not-paused/{reason}", Severity.CRITICAL, summary, document)
        self.memory.settle(incident, Deed.NOT_PAUSED, document, self._clock.now(), notices=list(notices))

    # ---- telling

    async def tell(self) -> bool:
        """Tells each channel what it was not told yet.

        Raises:
            TransientError: a channel did not take a notice, after all others were told.
        """
        problems = []
        for key, name, document in self.memory.untold():
            channel = self._channels.get(name)
            try:
                if channel is not None:
                    notice = Notice(
                        key=key,
                        severity=Severity(document["severity"]),
                        summary=document["summary"],
                        details=document["details"],
                    )
                    await channel.tell(notice)
                self.memory.told(key, name)
            except TransientError as error:
                problems.append(f"{name}: {error}")
        if problems:
            raise TransientError(f"notices not told, will be repeated: {'; '.join(problems)}")
        return False

    def _notices(
        self, key: str, severity: Severity, summary: str, details: Mapping[str, Any]
    ) -> list[tuple[str, str, Mapping[str, Any]]]:
        document = {"severity": severity.value, "summary": summary, "details": dict(details)}
        return [(key, name, document) for name in self._channels]

    def _described(self, receipt: SeenReceipt) -> dict[str, Any]:
        return {
            "messageId": f"0x{receipt.message_id.hex()}",
            "gmp": _gmp(receipt.gmp),
            "source": self._name(receipt.source_chain),
            "destination": self._name(receipt.chain_id),
            "payloadHash": None if receipt.payload_hash is None else f"0x{receipt.payload_hash.hex()}",
            "block": {
                "number": receipt.block_number,
                "hash": f"0x{receipt.block_hash.hex()}",
                "time": receipt.block_time,
            },
            "transaction": f"0x{receipt.transaction.hex()}",
            "sourceHeight": receipt.source_height,
        }

    def _name(self, chain_id: int) -> str:
        with suppress(ValueError):
            return self._deployment.chain(chain_id).name
        return str(chain_id)


def _gmp(number: int) -> str:
    return Gmp(number).label if number in tuple(Gmp) else f"GMP {number}"
