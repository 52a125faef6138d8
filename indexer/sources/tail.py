"""Follows several chains concurrently, so that a chain that hangs or fails does not delay the others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Final

import pyarrow as pa
import structlog

from bridge.evm.rpc_answers import RpcError
from indexer.model import schemas
from indexer.model.errors import FinalityViolatedError
from indexer.model.settings import SourceLimits
from indexer.sources.chain import Advance, ChainConfig, ChainReader
from indexer.sources.position import ChainPosition

log = structlog.get_logger(__name__)

_LONGEST_ROUND: Final = 1.0
"""Seconds after which `read` returns even without events, so that its caller can stop."""

_LOOK_AGAIN_AFTER: Final = 1.0  # seconds before a failed chain is polled again
_MOST_FAILURES: Final = 3  # consecutive failures after which a caller that waits for the heads gets the error

Positions = dict[int, ChainPosition]


class ChainTail:
    """Polls all chains. Use it from one thread."""

    def __init__(self, chains: Sequence[ChainConfig], limits: SourceLimits) -> None:
        """Connects lazily."""
        self._readers = {chain.chain_id: ChainReader(chain, limits) for chain in chains}
        self._targets: dict[int, int] | None = None
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(chains)), thread_name_prefix="chain")
        self._looks: dict[int, Future[Advance | None]] = {}
        self._looked_at: dict[int, float] = {}
        self._not_before: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        self._at_target: set[int] = set()

    def close(self) -> None:
        """Closes the connections; polls in progress fail."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for reader in self._readers.values():
            reader.close()

    def stop_at_heads(self) -> None:
        """Makes the chains' current heads the last blocks to read.

        Raises:
            RpcError: a chain's head can't be read.
        """
        self._targets = {chain: reader.head().number for chain, reader in self._readers.items()}

    def read(self, positions: Mapping[int, ChainPosition]) -> tuple[Positions, list[pa.RecordBatch]]:
        """Returns the rows after `positions`, as `schemas.SOURCE`, and the positions after them.

        Returns as soon as a chain has an event, else after a second: a micro-batch costs more than a poll, so blocks
        without events share one. After `stop_at_heads`, returns as soon as there are new blocks or all heads are reached.

        Raises:
            RpcError: a chain can't be read; only after `stop_at_heads`.
        """
        after = dict(positions)
        advances: dict[int, Advance] = {}
        halts: list[pa.RecordBatch] = []
        round_ends = time.monotonic() + _LONGEST_ROUND
        while True:
            self._look(after)
            self._wait(after, round_ends)
            for chain in [chain for chain, look in self._looks.items() if look.done()]:
                try:
                    advance = self._outcome(chain, self._looks.pop(chain))
                except FinalityViolatedError as error:
                    after[chain], halt = _halted(chain, after[chain], error)
                    halts.append(halt)
                    continue
                if advance is not None:
                    after[chain] = advance.position
                    advances[chain] = _joined(advances.get(chain), advance)
            if halts or self._is_over(after, advances, round_ends):
                break
        return after, [*halts, *(rows for chain, advance in advances.items() for rows in _rows(chain, advance))]

    def _is_over(self, positions: Positions, advances: Mapping[int, Advance], round_ends: float) -> bool:
        if any(len(advance.events) for advance in advances.values()):
            return True
        if self._targets is None:
            return time.monotonic() >= round_ends
        at_target = self._at_target | {chain for chain in positions if positions[chain].halted}
        return bool(advances) or at_target >= positions.keys()

    def _look(self, positions: Positions) -> None:
        now = time.monotonic()
        for chain, reader in self._readers.items():
            position = positions[chain]
            if self._rests(chain, positions) or now < self._not_before.get(chain, 0.0):
                continue
            target = None if self._targets is None else self._targets[chain]
            self._looked_at[chain] = now
            self._looks[chain] = self._pool.submit(reader.advance, position, target)

    def _wait(self, positions: Positions, round_ends: float) -> None:
        """Waits until a poll has ended, another is due, or the round is over."""
        now = time.monotonic()
        until = [self._not_before.get(chain, now) for chain in self._readers if not self._rests(chain, positions)]
        until += [now + _LONGEST_ROUND] + [round_ends] * (self._targets is None)
        seconds = max(0.0, min(until) - now)
        if self._looks:
            wait(self._looks.values(), timeout=seconds, return_when=FIRST_COMPLETED)
        else:  # `wait` returns at once if there is nothing to wait for
            time.sleep(seconds)

    def _rests(self, chain: int, positions: Positions) -> bool:
        """Returns whether the chain needs no new poll, because a poll is in progress or the chain is halted."""
        return chain in self._looks or bool(positions[chain].halted)

    def _outcome(self, chain: int, look: Future[Advance | None]) -> Advance | None:
        """Returns what a poll that has ended found.

        Raises:
            FinalityViolatedError: the chain no longer has a block that it had reported as final.
            RpcError: as for `read`.
        """
        self._at_target.discard(chain)
        try:
            advance = look.result()
        except RpcError as error:
            self._note_failure(chain, error)
            return None
        self._failures[chain] = 0
        self._not_before[chain] = self._looked_at[chain] + self._readers[chain].next_look
        if advance is None and not self._readers[chain].waits:
            self._at_target.add(chain)
        return advance

    def _note_failure(self, chain: int, error: RpcError) -> None:
        log.warning("chain can't be read", chain=chain, error=str(error))
        self._not_before[chain] = time.monotonic() + _LOOK_AGAIN_AFTER
        self._failures[chain] = self._failures.get(chain, 0) + 1
        if self._targets is not None and self._failures[chain] >= _MOST_FAILURES:
            raise error


def _joined(earlier: Advance | None, later: Advance) -> Advance:
    """Returns two consecutive advances of a chain as one. The earlier one has no events."""
    if earlier is None or later.first <= earlier.first:
        return later
    return replace(later, first=earlier.first, parent_hash=earlier.parent_hash)


def _rows(chain: int, advance: Advance) -> list[pa.RecordBatch]:
    position = advance.position
    marker = {
        "chain_id": chain,
        "block_number": position.block,
        "block_hash": advance.last.hash,
        "block_time": advance.last.time,
        "range_first": advance.first,
        "range_hashes": position.hashes,
        "parent_hash": advance.parent_hash,
        "final_block": position.final_block,
        "final_hash": position.final_hash,
        "head_block": advance.head_block,
    }
    ranges = pa.RecordBatch.from_pylist([marker], schema=schemas.SOURCE)
    return [ranges, *schemas.as_source(advance.events).to_batches()]


def _halted(chain: int, position: ChainPosition, error: FinalityViolatedError) -> tuple[ChainPosition, pa.RecordBatch]:
    """Returns the position of a halted chain, and the row that records the halt."""
    log.error("indexing of chain halted", chain=chain, error=str(error))
    row = {"chain_id": chain, "block_number": position.block, "halted": str(error)}
    return replace(position, halted=str(error)), pa.RecordBatch.from_pylist([row], schema=schemas.SOURCE)
