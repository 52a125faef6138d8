"""Reads one source chain into the outbox, and rolls back after reorgs."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import structlog

from bridge.evm.finality import FinalityRule
from bridge.protocol.errors import CursorMovedError
from bridge.protocol.guarantee import AssetClass, ttl_violation
from bridge.protocol.message import Message, decode_envelope
from bridge.protocol.ports import Adapter, Block, Chain, Clock, Log
from bridge.records.observations import BlockRef, Cursor, NumberedDispatch, ObservedMessage, ObservedRange
from bridge.records.outbox import event_id_of
from bridge.relayer.completeness import Completeness
from bridge.relayer.lagging import MissingBlocks
from bridge.relayer.log_parser import Findings, LogFilter, contradiction, interpret
from bridge.relayer.seen_capacity import SeenCapacity
from bridge.store.observations import Observations

_log = structlog.get_logger(__name__)

_REMEMBERED: Final = 16  # polls
_LONGEST_PAUSE: Final = 15.0  # seconds


class _Change(Enum):
    """The result of comparing a stored block with the chain."""

    NONE = auto()
    REPLACED = auto()  # by a reorg
    MISSING = auto()  # the node has no block of that height


@dataclass(frozen=True, slots=True)
class _Fetched:
    """The fetched data of a range of blocks."""

    last: Block
    logs: Sequence[Log]


class Observer:
    """Observes one source chain. Writes the cursor and everything found below it in one transaction."""

    def __init__(
        self,
        chain: Chain,
        router: str,
        adapters: Iterable[Adapter],
        observations: Observations,
        clock: Clock,
        *,
        start_block: int,
        finality: FinalityRule,
        block_range: int,
        capacity: SeenCapacity,
        completeness: Completeness,
        asset_classes: Sequence[AssetClass],
        found: Callable[[int], None],
    ) -> None:
        """Creates the observer of one router.

        Args:
            chain: Source chain.
            router: Address of its router.
            adapters: Adapters of the GMPs in use.
            observations: Store to write to.
            clock: Source of time.
            start_block: First block to read.
            finality: Determines the highest block that is read.
            block_range: Maximum number of blocks per request.
            capacity: Limit of the store. While the store is full, the cursor stays below the first new message,
                so that none is lost. New messages of a sender that has used up its share are deferred: skipped now,
                and read again later.
            completeness: Detects missing messages; if there are any, the chain is read again.
            asset_classes: Asset classes with minimum TTLs.
            found: Called with the destination of every new outbox entry.
        """
        self._chain = chain
        self._router = router
        self._filter = LogFilter(chain.chain_id, router, adapters)
        self._observations = observations
        self._clock = clock
        self._start_block = start_block
        self._finality = finality
        self._block_range = block_range
        self._capacity = capacity
        self._completeness = completeness
        self._asset_classes = asset_classes
        self._found = found
        self._look = asyncio.Event()  # set when the next poll begins
        self._head: Block | None = None
        self._head_seen: bytes | None = None
        self._block_time = BlockTime()
        self._missing = MissingBlocks(clock)
        self._is_caught_up = False
        self._doubted: dict[int, BlockRef] = {}  # ends of inconsistent ranges by first block
        self._receipt_logs = dict[bytes, frozenset[Log]]()  # by transaction of the range being read
        self.unrecognised = 0  # dispatches reported by only the router or the GMP, since this process started
        self._last_logged: Sequence[str] = ()  # contradictions logged last
        self._again_from: int | None = None  # next block to read again
        self._left_out: int | None = None  # lowest block with a message that was left out since that began

    async def identify(self) -> None:
        """Checks that the store belongs to this chain.

        Raises:
            StoreMismatchError: The store belongs to another chain with the same id.
        """
        genesis = await self._chain.block(0)
        if genesis is not None:
            self._observations.identify(self._chain.chain_id, genesis.hash)

    def pause(self, poll_interval: float) -> float:
        """Returns the seconds until the next poll: one block time, and at least `poll_interval`."""
        return self._block_time.pause(poll_interval)

    async def head(self) -> Block:
        """Returns the newest block as of the last poll, for callers that do not need a newer one."""
        return self._head or await self._chain.head()

    async def next_look(self, patience: float) -> None:
        """Waits until the next poll begins, for at most `patience` seconds.

        A request made at that moment shares the poll's HTTP request.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._look.wait()

    async def step(self) -> bool:
        """Reads one range or rolls back one reorg; returns whether there is more to do immediately.

        An idle chain costs one HTTP request per poll, since all requests are batched.
        """
        self._look.set()
        self._look = asyncio.Event()
        has_more, is_missing_any = await asyncio.gather(self._read_on(), self._is_missing_any(), return_exceptions=True)
        if is_missing_any is True:
            self._begin_again(self._start_block)
        for outcome in (has_more, is_missing_any):
            if isinstance(outcome, BaseException):
                raise outcome
        self._is_caught_up = not has_more
        if self._is_caught_up:
            self._return_to_deferred()
        return await self._read_again() or bool(has_more)

    def _begin_again(self, first: int) -> None:
        self._again_from, self._left_out = first, None

    def _return_to_deferred(self) -> None:
        """Rereads the blocks of deferred messages once there is room for them."""
        if self._again_from is None and not self._capacity.crowding() and not self._capacity.is_full():
            cursor = self._observations.cursor(self._chain.chain_id)
            if cursor is not None and cursor.deferred_from is not None:
                self._begin_again(cursor.deferred_from)

    async def _is_missing_any(self) -> bool:
        if not self._is_caught_up or self._again_from is not None:
            return False
        cursor = self._observations.cursor(self._chain.chain_id)
        if cursor is None or cursor.deferred_from is not None:
            return False
        return await self._completeness.is_missing_any(cursor.position)

    async def _read_on(self) -> bool:
        cursor = self._observations.cursor(self._chain.chain_id)
        if cursor is not None and cursor.watched != self._filter.fingerprint:
            _log.info("contracts changed, rereading from the start", chain=self._chain.chain_id)
            self._observations.reread(self._chain.chain_id)
            cursor = None
        first = cursor.position.number + 1 if cursor is not None else self._start_block
        head, tagged, change, early = await asyncio.gather(
            self._chain.head(),
            self._finality.tagged(self._chain),
            self._change_below(cursor),
            self._read_early(cursor),
        )
        self._head = head
        self._block_time.saw(head)
        if cursor is not None and head.hash == self._head_seen:
            return False
        if self._missing.are_gone(is_missing=change is _Change.MISSING):
            change = _Change.REPLACED
        if cursor is not None and change is not _Change.NONE:
            if change is _Change.REPLACED:
                await self._rewind(cursor)
            return change is _Change.REPLACED
        final = self._finality.last(head, tagged)
        last = self._end_of(first, min(final, first + self._block_range - 1))
        if early is not None and first <= last <= first + 1:
            last = first  # a second new block is read with the next poll
        else:
            early = None
        if last >= first and not await self._read(cursor, first, last, early=early):
            return False
        if last < final:
            return early is None
        self._head_seen = head.hash
        return False

    async def _read_early(self, cursor: Cursor | None) -> _Fetched | None:
        """Returns the block after the cursor if it exists, builds on the cursor's block and is probably final.

        Otherwise returns None.
        """
        if cursor is None or self._head is None or self._finality.tag is not None:
            return None
        number = cursor.position.number + 1
        if number > self._head.number or number + self._finality.confirmations > self._head.number + 1:
            return None
        fetched = await self._fetched(number, number)
        return fetched if fetched is not None and fetched.last.parent_hash == cursor.position.hash else None

    async def _fetched(self, first: int, last: int) -> _Fetched | None:
        """Fetches a range's logs between two reads of its last block; None if that block is missing or changed."""
        before, logs, after = await asyncio.gather(
            self._chain.block(last),
            self._chain.logs(first, last, self._filter.addresses, self._filter.topics),
            self._chain.block(last),
        )
        return None if before is None or after != before else _Fetched(before, logs)

    async def _read_again(self) -> bool:
        """Reads one earlier range again if messages are missing from it; the cursor does not move."""
        if self._again_from is None:
            return False
        cursor = self._observations.cursor(self._chain.chain_id)
        if cursor is None:
            return False
        last = self._end_of(self._again_from, min(self._again_from + self._block_range - 1, cursor.position.number))
        if not await self._read(cursor, self._again_from, last, position=cursor.position):
            return False
        self._again_from = last + 1 if last < cursor.position.number else None
        if self._again_from is None and cursor.deferred_from != self._left_out:
            self._observations.note_deferred(self._chain.chain_id, self._left_out, cursor.position)
        return self._again_from is not None

    def _end_of(self, first: int, last: int) -> int:
        """Returns the last block of a range.

        A range whose logs are in doubt keeps its last block, even if the chain has grown since.
        """
        doubted = self._doubted.get(first)
        return min(last, doubted.number) if doubted is not None else last

    async def _change_below(self, cursor: Cursor | None) -> _Change:
        """Compares the last block that was read with the chain."""
        if cursor is None:
            return _Change.NONE
        block = await self._chain.block(cursor.position.number)
        if block is not None:
            return _Change.NONE if block.hash == cursor.position.hash else _Change.REPLACED
        for ancestor in self._observations.ancestors(cursor.chain_id):
            block = await self._chain.block(ancestor.number)
            if block is not None:  # a reorg below it is not to be waited for
                return _Change.MISSING if block.hash == ancestor.hash else _Change.REPLACED
        return _Change.MISSING

    async def _stands(self, reference: BlockRef) -> bool:
        block = await self._chain.block(reference.number)
        return block is not None and block.hash == reference.hash

    async def _rewind(self, cursor: Cursor) -> None:
        ancestor = None
        for candidate in self._observations.ancestors(cursor.chain_id):
            if await self._stands(candidate):
                ancestor = candidate
                break
        if ancestor is None:
            await self.identify()  # a recreated chain with the same id looks like a reorg of everything
        rewound = self._observations.rewind(cursor.chain_id, ancestor, self._clock.now())
        self._head_seen = None
        self._doubted.clear()
        _log.warning(
            "source chain reorganised",
            chain=cursor.chain_id,
            read_up_to=cursor.position.number,
            common_ancestor=ancestor.number if ancestor else None,
            entries_dropped=rewound.dropped,
            entries_orphaned=rewound.orphaned,
            deliveries_not_final=rewound.unconfirmed,
        )

    async def _read(
        self,
        cursor: Cursor | None,
        first: int,
        last: int,
        *,
        position: BlockRef | None = None,
        early: _Fetched | None = None,
    ) -> bool:
        """Reads a range and records it; returns False if it must be read again.

        The cursor moves to `position`, by default the end of the range. `early` is the block after the cursor
        if it was fetched already. A block without logs needs no check, because the next poll detects whether it
        is still canonical.
        """
        fetched = early or await self._fetched(first, last)
        if fetched is None:
            return False
        before, logs = fetched.last, fetched.logs
        if (logs or early is None) and not await self._agrees(logs, before, cursor):
            return False
        findings = interpret(self._chain.chain_id, self._router, logs, self._filter.adapters)
        contradictions = await self._contradictions(logs, findings.transactions)
        if (contradictions or findings.unmatched) and self._doubted.get(first) != BlockRef.of(before):
            self._doubted[first] = BlockRef.of(before)  # a node that lacks logs may have them next time
            return False
        if contradictions:  # write nothing: either side could be forged, and an omitted log would be lost
            self._tell_once(contradictions)
            return False
        for text in findings.unmatched:
            self.unrecognised += 1
            _log.error("dispatch not recognised", chain=self._chain.chain_id, reason=text)
        findings, left_out = self._without_crowding(findings)
        new = self._first_new(findings) if self._capacity.is_full() else None
        if new is not None:  # it waits on the chain; everything before it is recorded
            if position is None and new > first:
                await self._read(cursor, first, new - 1)
            return False
        self._receipt_logs.clear()
        self._doubted.pop(first, None)
        is_recorded = True
        try:
            self._record(cursor, position or BlockRef.of(before), findings, left_out)
        except CursorMovedError as error:
            _log.debug("another worker moved the cursor first", chain=self._chain.chain_id, reason=str(error))
            is_recorded = position is None  # the other worker has recorded new blocks, not those read again
        return is_recorded

    def _without_crowding(self, findings: Findings) -> tuple[Findings, int | None]:
        """Leaves out new messages of senders that have used up their share.

        Also returns the lowest block with such a message, or None.
        """
        crowding = self._capacity.crowding()
        if not crowding:
            return findings, None
        theirs = {key for key, value in findings.envelopes.items() if decode_envelope(value).message.sender in crowding}
        left_out = {one for one in theirs if self._observations.message(one) is None}
        rest = findings.without(left_out)
        blocks = [findings.created[one] for one in left_out if one in findings.created]
        blocks += [one.block.number for one in findings.attempts if one.message_id in left_out]
        return rest, min(blocks, default=None)

    def _first_new(self, findings: Findings) -> int | None:
        """Returns the block of the first message that the store does not know, or None if it knows all of them."""
        new = {one for one in findings.envelopes if self._observations.message(one) is None}
        blocks = [one.block.number for one in findings.attempts if one.message_id in new]
        blocks += [one.dispatch.block_number for one in findings.dispatches if one.dispatch.message_id in new]
        return min(blocks, default=None)

    async def _contradictions(self, logs: Sequence[Log], transactions: Iterable[bytes]) -> list[str]:
        """Describes the logs that their transactions' receipts do not confirm.

        Raises:
            TransientError: A receipt is not available now; those already fetched are kept for the next try.
        """
        by_transaction: defaultdict[bytes, set[Log]] = defaultdict(set)
        for log in logs:
            by_transaction[log.transaction_hash].add(log)
        asked = [one for one in transactions if not by_transaction[one] <= self._receipt_logs.get(one, frozenset())]
        answers = await asyncio.gather(*map(self._chain.receipt, asked), return_exceptions=True)
        found = []
        for transaction, receipt in zip(asked, answers, strict=True):
            if not isinstance(receipt, BaseException):
                text = contradiction(transaction, receipt, by_transaction[transaction])
                if text is not None:
                    found.append(text)
                elif receipt is not None:
                    self._receipt_logs[transaction] = frozenset(receipt.logs)
        for receipt in answers:
            if isinstance(receipt, BaseException):
                raise receipt
        return sorted(found)

    def _tell_once(self, contradictions: Sequence[str]) -> None:
        if self._last_logged != contradictions:
            self._last_logged = contradictions
            for text in contradictions:
                _log.error("logs contradict receipts", chain=self._chain.chain_id, reason=text)

    async def _agrees(self, logs: Sequence[Log], last: Block, cursor: Cursor | None) -> bool:
        """Whether the logs match the canonical chain, which did not change below or while they were read."""
        hashes = {log.block_number: log.block_hash for log in logs}
        hashes[last.number] = last.hash
        if any(log.block_hash != hashes[log.block_number] for log in logs):
            return False
        references = [BlockRef(number, block_hash) for number, block_hash in hashes.items()]
        if cursor is not None:
            references.append(cursor.position)
        return all(await asyncio.gather(*(self._stands(reference) for reference in references)))

    def _record(self, cursor: Cursor | None, position: BlockRef, findings: Findings, left_out: int | None) -> None:
        now = self._clock.now()
        if left_out is not None:
            self._left_out = left_out if self._left_out is None else min(self._left_out, left_out)
        new = self._observations.record(
            ObservedRange(
                chain_id=self._chain.chain_id,
                previous=cursor.position if cursor is not None else None,
                position=position,
                watched=self._filter.fingerprint,
                messages=tuple(
                    ObservedMessage(message_id, envelope, now, findings.created.get(message_id))
                    for message_id, envelope in findings.envelopes.items()
                ),
                attempts=findings.attempts,
                dispatches=findings.dispatches,
                observed_at=now,
                deferred_from=left_out,
            )
        )
        fresh = [one for one in findings.dispatches if _event_id(one) in new]
        for numbered in fresh:
            dispatch = numbered.dispatch
            _log.info(
                "dispatch observed",
                message=f"0x{dispatch.message_id.hex()}",
                gmp=dispatch.gmp.label,
                attempt=numbered.attempt,
                source=dispatch.source_chain,
                destination=dispatch.destination_chain,
            )
        for message in {
            one.dispatch.message_id: decode_envelope(one.dispatch.envelope).message for one in fresh
        }.values():
            self._check_ttl(message)
        for destination in {numbered.dispatch.destination_chain for numbered in fresh}:
            self._found(destination)

    def _check_ttl(self, message: Message) -> None:
        """Logs a message whose TTL is below its asset class's minimum.

        The message id commits to the TTL, so nobody can correct it.
        """
        demanded = ttl_violation(message, self._asset_classes)
        if demanded is None:
            return
        _log.warning(
            "ttl below the minimum of its asset class",
            message=f"0x{message.id.hex()}",
            asset_class=demanded.name,
            ttl=message.ttl,
            min_ttl=demanded.min_ttl,
        )


def _event_id(numbered: NumberedDispatch) -> str:
    return event_id_of(numbered.dispatch.message_id, numbered.dispatch.gmp, numbered.attempt)


class BlockTime:
    """Estimates a chain's block time from timestamps. The estimate is the polling interval."""

    def __init__(self) -> None:
        self._head: Block | None = None
        self._seconds = deque[float](maxlen=_REMEMBERED)  # per block, between polls that found new ones

    def saw(self, head: Block) -> None:
        """Updates the estimate with a new head."""
        before, self._head = self._head, head
        if before is not None and head.number > before.number:
            self._seconds.append((head.timestamp - before.timestamp) / (head.number - before.number))

    def pause(self, poll_interval: float) -> float:
        """Returns the seconds until a poll may find a new block.

        Uses the shortest block time seen, since chains skip blocks, and a devnet may produce none for a long
        time. Timestamps are whole seconds, so block times of a second or less can't be distinguished.
        """
        shortest = min(self._seconds, default=0.0)
        return poll_interval if shortest <= 1 else max(poll_interval, min(shortest, _LONGEST_PAUSE))
