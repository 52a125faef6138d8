"""The tripwire: reads all chains, judges each receipt, and pauses the GMP that lied."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from bridge.dead_letters.channels import Channel, Notice, Severity
from bridge.domain.observations import BlockRef
from bridge.domain.ports import Clock, TransientError
from bridge.domain.supervision import Wakeup, run_forever
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import gmp_label
from bridge.tripwire.journal import Deed
from bridge.tripwire.judgement import Judgement, SeenReceipt, judge
from bridge.tripwire.pauser import Pauser, RefusedPauseError
from bridge.tripwire.reader import ChainReader
from bridge.tripwire.settings import TripwireSettings
from bridge.tripwire.store import Incident, TripwireStore

_log = structlog.get_logger(__name__)

_FRUITLESS: Final = 3  # readings in a row after which what is missing is a finding
_TOLD_EVERY: Final = 1.0  # seconds between two tries to tell people
_SOON: Final = 0.1  # seconds between two tries of what failed
_DUE: Final = 0.2  # seconds between two looks at a chain whose next block may prove a lie
_WIDE: Final = 2  # destinations with evidence, from which on a GMP is paused everywhere
_PREPARED_EVERY: Final = 5.0  # seconds between two preparations of a pause that is about to be made


@dataclass(frozen=True, slots=True)
class _Suspicion:
    """A receipt that nothing explains, once its source is final up to a block.

    Attributes:
        covering: that block. All was read up to it.
        routers: of the source, whose messages were counted.
        said: the endpoints that said so of the block, and of the receipt.
    """

    covering: BlockRef
    routers: tuple[str, ...]
    said: tuple[tuple[str, ...], tuple[str, ...]]


class Tripwire:
    """Put together by `bridge.service.tripwire_service`."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        readers: Mapping[int, ChainReader],
        pausers: Mapping[int, Pauser],
        store: TripwireStore,
        channels: Sequence[Channel],
        clock: Clock,
        settings: TripwireSettings,
    ) -> None:
        """Reads nothing yet.

        Args:
            deployment: the network.
            readers: of its chains, by id.
            pausers: the same; none on a dry run.
            store: of an earlier run, or a new one.
            channels: who is told.
            clock: time.
            settings: how it works.
        """
        self._deployment = deployment
        self._readers = readers
        self._pausers = pausers
        self.store = store
        self._channels = {channel.name: channel for channel in channels}
        self._clock = clock
        self._settings = settings
        self._has_read = Wakeup()
        self._to_read = {chain_id: Wakeup() for chain_id in readers}
        self._to_pause = {chain_id: Wakeup() for chain_id in readers}
        self._in_vain: dict[int, int] = {}
        self._seen_at: dict[SeenReceipt, float] = {}  # by the event loop's clock
        self._judged_at: dict[SeenReceipt, int] = {}  # what version of the source receipts were judged at
        self._judging: dict[SeenReceipt, asyncio.Task[None]] = {}  # under way
        self._suspicions: dict[SeenReceipt, _Suspicion] = {}
        self._preparing: dict[tuple[int, int], tuple[float, asyncio.Task[None]]] = {}  # by chain and GMP: since when
        self._answers: dict[str, asyncio.Task[None]] = {}  # by incident
        self.read_at: dict[int, float] = {}
        """By chain, when it was last read to its newest block, Unix seconds."""

    async def run(self) -> None:
        """Watches until it is cancelled. A chain that is silent holds up no other one."""
        try:
            async with asyncio.TaskGroup() as group:
                for chain_id, to_read in self._to_read.items():
                    reading, acting = f"read chain {chain_id}", f"pause on chain {chain_id}"
                    to_pause = self._to_pause[chain_id]
                    group.create_task(self._repeat(reading, partial(self.read, chain_id), to_read, chain_id))
                    group.create_task(self._repeat(acting, partial(self.act, chain_id), to_pause))
                group.create_task(self._repeat("judge receipts", self.judge_receipts, self._has_read))
                group.create_task(run_forever("tell people", self.tell, every=_TOLD_EVERY))
        finally:
            tasks = [*self._judging.values(), *self._answers.values(), *(task for _, task in self._preparing.values())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(
        self, name: str, step: Callable[[], Awaitable[bool]], wakeup: Wakeup, chain_id: int | None = None
    ) -> None:
        """Repeats a step. Where the next block counts, one that fails is tried again soon; `run_forever` waits ever longer."""
        problem, soon = "", min(_SOON, self._settings.poll_interval)
        while True:
            try:
                has_more = await step()
            except Exception as error:  # noqa: BLE001  # a loop must not end
                if str(error) != problem:
                    problem = str(error)
                    _log.warning("step failed, will be repeated", step=name, error=problem)
                await asyncio.sleep(soon)
                continue
            problem = ""
            if not has_more:
                is_due = chain_id is not None and self._may_prove(chain_id)
                interval = self._settings.poll_interval
                await wakeup.wait(min(_DUE, interval) if is_due else interval)

    async def read(self, chain_id: int) -> bool:
        """Reads a chain on; says whether there is more.

        Raises:
            TransientError: see `ChainReader.step`.
        """
        has_more = await self._readers[chain_id].step(self._has_read.set)
        if not has_more:
            self.read_at[chain_id] = self._clock.now()
        self._has_read.set()
        return has_more

    # ---- judgement

    async def judge_receipts(self) -> bool:
        """Judges every receipt that waits; says whether some are under way.

        Raises:
            TransientError: a chain whose word is needed does not answer.
        """
        waiting = self.store.waiting()
        for kept in (self._seen_at, self._judged_at, self._suspicions):
            for receipt in kept.keys() - set(waiting):
                kept.pop(receipt)
        for receipt in waiting:
            if receipt not in self._judging and not self._is_judged(receipt):
                self._judging[receipt] = asyncio.get_running_loop().create_task(self._judge(receipt))
        if self._judging:  # who waits for an answer holds up no other one
            await asyncio.wait(self._judging.values(), timeout=_SOON)
        done = [receipt for receipt, task in self._judging.items() if task.done()]
        problems = [problem for one in done if (problem := self._judging.pop(one).exception()) is not None]
        self._judge_executions()
        for problem in problems:
            if not isinstance(problem, TransientError):
                raise problem
        if problems:
            raise TransientError("; ".join(dict.fromkeys(map(str, problems))))
        return bool(self._judging)

    def _is_judged(self, receipt: SeenReceipt) -> bool:
        """Whether nothing has come to be known since it was found that a receipt has to wait."""
        source = self._readers.get(receipt.source_chain)
        return source is not None and self._judged_at.get(receipt) == source.version

    async def _judge(self, receipt: SeenReceipt) -> None:
        """Judges one receipt. An accusation follows from what is known, without a question between.

        Raises:
            TransientError: the source does not answer, or the endpoints do not confirm the receipt now.
        """
        source = self._readers.get(receipt.source_chain)
        if source is None:
            text = f"it names chain {receipt.source_chain}, which this network does not have"
            self._find("UNKNOWN_SOURCE", receipt, text, Judgement.UNKNOWN)
            return
        version, height = source.version, -1 if source.final is None else source.final.number
        if not source.is_current:
            return  # what was taken back is about to be read again
        creations = self.store.creations(receipt.source_chain, receipt.message_id)
        hand_overs = self.store.hand_overs(receipt.source_chain, receipt.message_id)
        judgement = judge(receipt, creations, hand_overs, height, is_covered=True)
        if judgement is Judgement.HONEST:
            self.store.note_judgement(receipt, judgement)
        elif judgement is Judgement.WAIT:
            self._judged_at[receipt] = version
        elif judgement is Judgement.PAYLOAD_DIFFERS:
            if known := self._suspicions.get(receipt):
                self._accuse(receipt, judgement, known)
            elif source.final is not None:
                await self._suspect(receipt, source, BlockRef(height, source.final.hash))
        elif (covering := self._covering(receipt, source)) is not None:
            await self._judge_by(receipt, judgement, source, covering, is_final=covering.number <= height)
        else:
            self._prepare(receipt)
            if receipt.source_height is not None:
                self._judged_at[receipt] = version

    async def _judge_by(
        self, receipt: SeenReceipt, judgement: Judgement, source: ChainReader, covering: BlockRef, *, is_final: bool
    ) -> None:
        """Judges a receipt that nothing explains, once the block that covers it is final.

        Raises:
            TransientError: see `_judge`.
        """
        is_early, known = receipt.gmp in self._settings.early_gmps, self._suspicions.get(receipt)
        if judgement is Judgement.ORPHANED:
            self._judged_at[receipt] = source.version
            if is_final:
                text = "its creation, or the attempt over this GMP, is in a block that fell: the GMP delivered before finality"
                self._find("CREATION_ORPHANED", receipt, text, judgement)
        elif known is None or (known.covering, known.routers) != (covering, self._routers_of(receipt)):
            self._suspicions.pop(receipt, None)
            lacking = await source.lacks(receipt.chain_id, self._routers_of(receipt), receipt.message_id)
            if lacking is not None:
                self._miss(receipt, lacking)
            else:
                self._in_vain.pop(receipt.source_chain, None)
                if source.final is not None and source.is_current:
                    self.store.complete_to(receipt.source_chain, source.final.number)
                await self._suspect(receipt, source, covering)
        elif not is_final:
            self._judged_at[receipt] = source.version
            self._prepare(receipt)
        elif is_early:
            text = (
                "the GMP may deliver what is not final, so that a block that fell unseen explains it: a person decides"
            )
            self._find("UNEXPLAINED_RECEIPT", receipt, text, Judgement.UNKNOWN)
        else:
            self._accuse(receipt, judgement, known)

    def _covering(self, receipt: SeenReceipt, source: ChainReader) -> BlockRef | None:
        """The block of the source which, once it is final, covers the receipt; None until it was read."""
        if receipt.source_height is not None:
            found = source.covering(receipt.source_height, receipt.block_time + self._settings.max_clock_skew)
            return None if found is None else BlockRef(found.number, found.hash)
        seen_at = self._seen_at.setdefault(receipt, asyncio.get_running_loop().time())
        if source.newest is None or source.asked_at < seen_at:
            self._to_read[receipt.source_chain].set()
        else:  # what the receipt rests on is not above the newest block after it was seen
            self.store.bound(receipt, source.newest.number)
            self._has_read.set()
        return None

    async def _suspect(self, receipt: SeenReceipt, source: ChainReader, covering: BlockRef) -> None:
        """Keeps who says so; what has come to be known meanwhile is looked at before anyone is accused.

        Raises:
            TransientError: the endpoints do not confirm the receipt or the source's block now.
        """
        routers, here = self._routers_of(receipt), BlockRef(receipt.block_number, receipt.block_hash)
        said = await asyncio.gather(
            source.who_says(covering), self._readers[receipt.chain_id].who_says(here, receipt.transaction)
        )
        if source.is_current:
            self._suspicions[receipt] = _Suspicion(covering, routers, said)
        self._has_read.set()

    def _may_prove(self, chain_id: int) -> bool:
        """Whether a chain's next block may prove a lie."""
        final = self._readers[chain_id].final
        return any(
            receipt.source_chain == chain_id and final is not None and one.covering.number == final.number + 1
            for receipt, one in self._suspicions.items()
        )

    def _prepare(self, receipt: SeenReceipt) -> None:
        """Has the pause ready that is about to be made."""
        key, now = (receipt.chain_id, receipt.gmp), asyncio.get_running_loop().time()
        pauser, before = self._pausers.get(receipt.chain_id), self._preparing.get(key)
        if receipt.gmp in self._settings.early_gmps or pauser is None:
            return
        if before is not None and (not before[1].done() or now - before[0] < _PREPARED_EVERY):
            return

        async def prepare(pauser: Pauser) -> None:
            with suppress(TransientError, RefusedPauseError):  # the pause itself tells
                await pauser.prepare(receipt.gmp, self._settings.pause)

        self._preparing[key] = now, asyncio.get_running_loop().create_task(prepare(pauser))

    def _routers_of(self, receipt: SeenReceipt) -> tuple[str, ...]:
        here = self._deployment.chain(receipt.source_chain).router
        return tuple(sorted(self.store.peers(receipt.source_chain) | {here}))

    def _miss(self, receipt: SeenReceipt, lacking: str) -> None:
        """What was read of the source is not all: nothing is forged by that. It is read again, and people are told."""
        source = receipt.source_chain
        if not self._readers[source].is_current:
            return  # another receipt has shown it
        self._in_vain[source] = self._in_vain.get(source, 0) + 1
        _log.warning("the source was not read to the full, reading again", chain=source, lacking=lacking)
        has_tried = self._in_vain[source] >= _FRUITLESS
        if has_tried:
            self._find(
                "LANE_DIFFERS", receipt, f"the router's count and its events do not fit: {lacking}", Judgement.WAIT
            )
        self._readers[source].read_again(from_start=has_tried)

    def _accuse(self, receipt: SeenReceipt, judgement: Judgement, suspicion: _Suspicion) -> None:
        """Writes the evidence, and has the GMP paused."""
        now, final = self._clock.now(), suspicion.covering
        of_source, of_receipt = suspicion.said
        evidence = {
            **self._described(receipt),
            "kind": judgement.value,
            "finalSourceBlock": {"number": final.number, "hash": f"0x{final.hash.hex()}", "saidBy": of_source},
            "receiptSaidBy": of_receipt,
            "sourceRouters": suspicion.routers,
        }
        chain, gmp = self._name(receipt.chain_id), gmp_label(receipt.gmp)
        _log.critical("forged receipt", **evidence)

        def notices(incident: str) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
            summary = f"{gmp} lied on {chain}: {judgement.value} of message 0x{receipt.message_id.hex()} (incident {incident})"
            return self._notices(f"tripwire/{incident}/{receipt.row}", Severity.CRITICAL, summary, evidence)

        self.store.accuse(receipt, judgement, evidence, now, notices)
        self._widen(receipt.gmp, now)
        for wakeup in self._to_pause.values():
            wakeup.set()

    def _widen(self, gmp: int, now: float) -> None:
        """With evidence from two destinations the GMP is paused on the whole network."""
        lasts = self._settings.pause
        live = [
            one
            for one in self.store.incidents()
            if one.gmp == gmp
            and "-wide-" not in one.id
            and (one.state == "OPEN" or (one.paused_until or 0) > now - lasts)
        ]
        if len({one.chain_id for one in live}) < _WIDE:
            return
        for deployed in self._deployment.chains:
            if deployed.chain_id in self._readers:
                self.store.widen(live[0], deployed.chain_id, [one.id for one in live], now)

    def _judge_executions(self) -> None:
        """An execution without any receipt blames the router, and names no GMP."""
        for chain_id, message_id, block in self.store.executed_without_receipt():
            text = f"message 0x{message_id.hex()} was executed in block {block} without a receipt"
            details = {"chain": self._name(chain_id), "messageId": f"0x{message_id.hex()}", "block": block}
            self._report("EXECUTED_WITHOUT_QUORUM", f"{chain_id}/{message_id.hex()}", text, details)

    def _find(self, kind: str, receipt: SeenReceipt, text: str, judgement: Judgement) -> None:
        """Something that pauses nothing by itself: people are told at once."""
        details = self._described(receipt) | {"why": text}
        key = f"{receipt.chain_id}/{receipt.block_hash.hex()}/{receipt.message_id.hex()}/{receipt.gmp}"
        self._report(kind, key, text, details, receipt=receipt, judgement=judgement)

    def _report(
        self,
        kind: str,
        key: str,
        text: str,
        details: Mapping[str, Any],
        *,
        receipt: SeenReceipt | None = None,
        judgement: Judgement | None = None,
    ) -> None:
        summary = f"{kind}: {text}; nothing is paused"
        notices = list(self._notices(f"tripwire/{kind}/{key}", Severity.CRITICAL, summary, details))
        document = dict(details) | {"kind": kind}
        is_new = self.store.note(
            f"finding/{kind}/{key}",
            Deed.FINDING,
            document,
            self._clock.now(),
            receipt=receipt,
            judgement=judgement,
            notices=notices,
        )
        if is_new:
            _log.critical("finding", **document)

    # ---- pausing

    async def act(self, chain_id: int) -> bool:
        """Answers every incident of a chain that is open, each by itself: who waits for a block holds up no other.

        Raises:
            TransientError: the chain did not answer: to be called again at once.
        """
        here = {one.id: one for one in self.store.incidents() if one.chain_id == chain_id}
        done = [name for name in here.keys() & self._answers.keys() if self._answers[name].done()]
        failures = [failure for name in done if (failure := self._answers.pop(name).exception()) is not None]
        for name, incident in here.items():
            if incident.state == "OPEN" and name not in self._answers:
                task = self._answers[name] = asyncio.get_running_loop().create_task(self._answer(incident))
                task.add_done_callback(lambda _: self._to_pause[chain_id].set())
        if failures:
            raise failures[0]
        return False

    async def _answer(self, incident: Incident) -> None:
        chain, gmp = self._name(incident.chain_id), gmp_label(incident.gmp)
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
        self.store.settle(
            incident,
            Deed.PAUSED,
            document,
            self._clock.now(),
            until=done.until,
            block=done.block,
            notices=self._notices(f"tripwire/{incident.id}/{done.until}", Severity.CRITICAL, summary, document),
        )

    def _decline(self, incident: Incident, reason: str) -> None:
        chain, gmp = self._name(incident.chain_id), gmp_label(incident.gmp)
        document = {"chain": chain, "gmp": gmp, "reason": reason}
        _log.critical("GMP not paused", incident=incident.id, **document)
        summary = f"{gmp} lied on {chain} and is not paused: {reason} (`waybill incident show {incident.id}`)"
        notices = self._notices(f"tripwire/{incident.id}/not-paused/{reason}", Severity.CRITICAL, summary, document)
        self.store.settle(incident, Deed.NOT_PAUSED, document, self._clock.now(), notices=list(notices))

    # ---- telling

    async def tell(self) -> bool:
        """Tells each channel what it was not told yet.

        Raises:
            TransientError: a channel did not take a notice, after all others were told.
        """
        problems = []
        for key, name, document in self.store.untold():
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
                self.store.told(key, name)
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
            "gmp": gmp_label(receipt.gmp),
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
