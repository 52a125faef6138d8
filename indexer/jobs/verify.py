"""Verifies completeness: the index's totals of each lane must equal those of the lane's routers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from sqlalchemy import Engine, delete, insert, select

from bridge.evm.rpc_answers import RpcError, StateUnavailableError, TransientRpcError, UnknownBlockError
from bridge.protocol.contracts import ROUTER
from indexer.jobs.history import PLACE, History, places
from indexer.jobs.lane_totals import COLUMNS, Direction, LaneEnd, LaneTotal, lane_totals
from indexer.model import schemas
from indexer.pipeline.bronze import Lake
from indexer.sources.chain import ChainReader
from indexer.store import tables
from indexer.store.store import Store

log = structlog.get_logger(__name__)

_SMALL: Final = 200  # blocks: a range this short is read again, not halved
_GETTERS: Final = {Direction.SENT: "sentTo", Direction.EXECUTED: "executedFrom"}


class Verdict(StrEnum):
    """The result of a comparison."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongRange:
    """A range of blocks whose events in the index differ from those on the chain.

    Attributes:
        missing: logs that the chain has and the index lacks.
        surplus: logs that the index has and the chain lacks.
        events: all events of the range on the chain, as `schemas.EVENTS`.
    """

    chain_id: int
    first: int
    last: int
    missing: int
    surplus: int
    events: pa.Table = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCheck:
    """A router's total compared with the index's; both cover everything from the router's first block to `block`."""

    chain_id: int  # of the router
    direction: Direction
    other_chain: int
    block: int | None
    block_hash: bytes | None
    indexed: LaneTotal | None
    router: LaneTotal | None
    verdict: Verdict
    reason: str = ""
    wrong: tuple[WrongRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """An earlier check in which a lane's totals were equal. The next check continues from it.

    It is valid as long as the chain and the index still have its block.
    """

    block: int
    block_hash: bytes
    total: LaneTotal


def verify(
    readers: Sequence[ChainReader],
    history: History,
    *,
    since: Mapping[tuple[int, LaneEnd], Checked] | None = None,
    progress: Callable[[str], None] = lambda _text: None,
) -> list[LaneCheck]:
    """Compares every lane of every chain at the chain's last final block in the index.

    If totals differ, bisects to find the wrong blocks, and reads those again from the chain.

    Args:
        readers: one reader per chain of the network.
        history: the index's history.
        since: earlier checks to continue from.
        progress: called with a description of each step.

    Returns:
        One check for each chain, direction and other chain.
    """
    chains = [reader.config.chain_id for reader in readers]
    checks: list[LaneCheck] = []
    for reader in readers:
        progress(f"chain {reader.config.chain_id}: reading the index")
        checks += _ChainCheck(reader, history, chains, since or {}, progress).run()
    return checks


class _ChainCheck:
    """The lanes of one chain's router."""

    def __init__(
        self,
        reader: ChainReader,
        history: History,
        chains: Iterable[int],
        since: Mapping[tuple[int, LaneEnd], Checked],
        progress: Callable[[str], None],
    ) -> None:
        self._reader = reader
        self._history = history
        self._chain = reader.config.chain_id
        self._others = {chain for chain in chains if chain != self._chain}
        self._since = {lane: checked for (chain, lane), checked in since.items() if chain == self._chain}
        self._progress = progress
        self._added_up: dict[tuple[int, int], dict[LaneEnd, LaneTotal]] = {}

    def run(self) -> list[LaneCheck]:
        position = self._history.positions().get(self._chain)
        if position is None or not position.final_hash:
            return [self._unverified(lane, "the index has read no final block yet") for lane in self._lanes(())]
        start = self._reader.config.start_block
        self._since = self._still_there(position.final_block)
        known = self._since.keys() >= set(self._lanes(()))
        first = min(checked.block for checked in self._since.values()) + 1 if known and self._since else start
        lanes = self._lanes(self._totals(first, position.final_block))
        try:
            routers = self._routers(lanes, position.final_hash)
        except (StateUnavailableError, UnknownBlockError) as error:
            return [self._unverified(lane, str(error), position.final_block, position.final_hash) for lane in lanes]
        return [
            self._compared(lane, router, first, (position.final_block, position.final_hash))
            for lane, router in zip(lanes, routers, strict=True)
        ]

    def _still_there(self, final_block: int) -> dict[LaneEnd, Checked]:
        """Returns the earlier checks whose blocks are final in the index and still on the chain."""
        blocks = {(checked.block, checked.block_hash) for checked in self._since.values()}
        there = {block for block, block_hash in blocks if block <= final_block and self._reader.has(block, block_hash)}
        return {lane: checked for lane, checked in self._since.items() if checked.block in there}

    def _lanes(self, found: Iterable[LaneEnd]) -> list[LaneEnd]:
        others = self._others | {other for _, other in found}
        return [(direction, other) for other in sorted(others) for direction in Direction]

    def _unverified(
        self, lane: LaneEnd, reason: str, block: int | None = None, block_hash: bytes | None = None
    ) -> LaneCheck:
        return LaneCheck(
            chain_id=self._chain,
            direction=lane[0],
            other_chain=lane[1],
            block=block,
            block_hash=block_hash,
            indexed=None,
            router=None,
            verdict=Verdict.UNVERIFIED,
            reason=reason,
        )

    def _routers(self, lanes: Sequence[LaneEnd], block_hash: bytes) -> list[LaneTotal]:
        calls = [ROUTER.encode(_GETTERS[direction], other) for direction, other in lanes]
        answers = self._reader.call_at(block_hash, calls)
        return [
            LaneTotal(*ROUTER.decode(_GETTERS[direction], answer)) if answer else LaneTotal()
            for (direction, _), answer in zip(lanes, answers, strict=True)
        ]

    def _totals(self, first: int, last: int) -> dict[LaneEnd, LaneTotal]:
        """Returns the index's totals of each lane in a range of blocks."""
        if (first, last) not in self._added_up:
            parts = self._history.parts(self._chain, first, last, COLUMNS)
            self._added_up[first, last] = lane_totals(parts)
        return self._added_up[first, last]

    def _indexed(self, lane: LaneEnd, first: int, last: int) -> LaneTotal:
        return self._totals(first, last).get(lane, LaneTotal())

    def _compared(self, lane: LaneEnd, router: LaneTotal, first: int, at: tuple[int, bytes]) -> LaneCheck:
        block, block_hash = at
        base = self._since.get(lane, Checked(block=first - 1, block_hash=b"", total=LaneTotal()))
        indexed = (base.total + self._indexed(lane, base.block + 1, block)).kept(lane[0])
        wrong: tuple[WrongRange, ...] = ()
        reason = ""
        if indexed != router:
            self._progress(f"chain {self._chain}: {lane[0]} {lane[1]} differs up to block {block}: narrowing it down")
            try:
                wrong = tuple(self._narrowed(lane, (base.block, base.total), (block, router)))
            except RpcError as error:
                reason = f"the blocks could not be narrowed down: {error}"
            else:
                reason = _reason(wrong)
        return LaneCheck(
            chain_id=self._chain,
            direction=lane[0],
            other_chain=lane[1],
            block=block,
            block_hash=block_hash,
            indexed=indexed,
            router=router,
            verdict=Verdict.EQUAL if indexed == router else Verdict.DIFFERENT,
            reason=reason,
            wrong=wrong,
        )

    def _narrowed(
        self, lane: LaneEnd, begin: tuple[int, LaneTotal], end: tuple[int, LaneTotal]
    ) -> Iterator[WrongRange]:
        """Yields the ranges in (begin, end] in which index and router differ, after reading them again."""
        (low, low_total), (high, high_total) = begin, end
        if self._indexed(lane, low + 1, high).kept(lane[0]) == (high_total - low_total).kept(lane[0]):
            return
        if high - low > _SMALL:
            middle = (low + high) // 2
            try:
                (total,) = self._routers([lane], self._reader.header(middle).hash)
            except StateUnavailableError:
                log.info(
                    "endpoint has no state to bisect by, reading the whole range",
                    chain=self._chain,
                    first=low + 1,
                    last=high,
                )
            else:
                yield from self._narrowed(lane, begin, (middle, total))
                yield from self._narrowed(lane, (middle, total), end)
                return
        found = self._read_again(low + 1, high)
        if found.missing or found.surplus:
            self._check_read(lane, found, high_total - low_total)
            yield found

    def _check_read(self, lane: LaneEnd, found: WrongRange, router: LaneTotal) -> None:
        """Rejects logs that contradict the router's count: the endpoint has omitted some."""
        read = lane_totals([found.events]).get(lane, LaneTotal())
        if read.kept(lane[0]) != router.kept(lane[0]):
            raise TransientRpcError(
                f"chain {self._chain}: the endpoint's logs of blocks {found.first}…{found.last} contain {read.count} messages of the "
                f"lane, but its router counts {router.count}, or counts other messages: use another endpoint"
            )

    def _read_again(self, first: int, last: int) -> WrongRange:
        events = pa.concat_tables([schemas.EVENTS.empty_table(), *self._reader.read_final(first, last)])
        theirs = places(events)
        ours = places(self._history.events(self._chain, first, last, PLACE))
        return WrongRange(
            chain_id=self._chain,
            first=first,
            last=last,
            missing=len(theirs - ours),
            surplus=len(ours - theirs),
            events=events,
        )


def correct(store: Store, lake: Lake, wrong: WrongRange) -> None:
    """Replaces a wrong range in store and lake; the lake's commit records the reason."""
    in_lake = lake.last_block(wrong.chain_id)
    if in_lake is not None and wrong.first <= in_lake:
        part = wrong.events.filter(pc.less_equal(wrong.events["block_number"], in_lake))
        reason = f"read again: {wrong.missing} logs were missing, {wrong.surplus} too many"
        lake.replace(wrong.chain_id, wrong.first, min(wrong.last, in_lake), part, reason)
    store.correct(wrong.chain_id, wrong.first, wrong.last, wrong.events)
    log.warning("wrong range corrected", chain=wrong.chain_id, first=wrong.first, last=wrong.last)


def store_checks(engine: Engine, checks: Sequence[LaneCheck], now: float) -> None:
    """Stores the checks, which readers show and from which the next check continues. `now` is in Unix seconds."""
    row = tables.lane_checks.c
    with engine.begin() as connection:
        for check in checks:
            lane = (row.chain_id == check.chain_id) & (row.direction == check.direction.value)
            connection.execute(delete(tables.lane_checks).where(lane, row.other_chain == check.other_chain))
            connection.execute(insert(tables.lane_checks).values(_row(check, now)))


def _row(check: LaneCheck, now: float) -> dict[str, object]:
    indexed, router = check.indexed, check.router
    return {
        "chain_id": check.chain_id,
        "direction": check.direction.value,
        "other_chain": check.other_chain,
        "block_number": check.block,
        "block_hash": check.block_hash,
        "indexed_count": indexed and indexed.count,
        "indexed_sum": indexed and indexed.sum.to_bytes(24, "big"),
        "router_count": router and router.count,
        "router_sum": router and router.sum.to_bytes(24, "big"),
        "verdict": check.verdict.value,
        "reason": check.reason,
        "checked_at": now,
    }


def last_equal(engine: Engine) -> dict[tuple[int, LaneEnd], Checked]:
    """Returns each lane's last check in which the totals were equal."""
    with engine.connect() as connection:
        chosen = select(tables.lane_checks).where(tables.lane_checks.c.verdict == Verdict.EQUAL.value)
        return {
            (row.chain_id, (Direction(row.direction), row.other_chain)): Checked(
                block=row.block_number,
                block_hash=row.block_hash,
                total=LaneTotal(row.indexed_count, int.from_bytes(row.indexed_sum, "big")),
            )
            for row in connection.execute(chosen)
        }


def _reason(wrong: Sequence[WrongRange]) -> str:
    if not wrong:
        return "the chain's own logs are those of the index: the router's count disagrees with its own events"
    parts = [
        f"blocks {range_.first}…{range_.last}: {range_.missing} logs missing, {range_.surplus} too many"
        for range_ in wrong
    ]
    return "; ".join(parts)
