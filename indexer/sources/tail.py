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
"""Seconds after which `read` returns even without new blocks, so that its caller can stop."""

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

        Returns soon after the first chain has new blocks, or after a second without new blocks. After
        `stop_at_heads`, returns only when there are new blocks or all heads are reached.

        Raises:
            RpcError: a chain can't be read; only after `stop_at_heads`.
        """
        after = dict(positions)
        batches: list[pa.RecordBatch] = []
        round_ends = time.monotonic() + _LONGEST_ROUND
        while not batches:
            self._look(after)
            self._wait(after, round_ends)
            for chain in [chain for chain, look in self._looks.items() if look.done()]:
                after[chain], rows = self._outcome(chain, after[chain], self._looks.pop(chain))
                batches += rows
            if not batches and self._is_over(after, round_ends):
                break
        return after, batches

    def _is_over(self, positions: Positions, round_ends: float) -> bool:
        if self._targets is None:
            return time.monotonic() >= round_ends
        return self._at_target | {chain for chain in positions if positions[chain].halted} >= positions.keys()

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

    def _outcome(
        self, chain: int, position: ChainPosition, look: Future[Advance | None]
    ) -> tuple[ChainPosition, list[pa.RecordBatch]]:
        self._at_target.discard(chain)
        try:
            advance = look.result()
            self._failures[chain] = 0
            self._not_before[chain] = self._looked_at[chain] + self._readers[chain].next_look
        except RpcError as error:
            self._note_failure(chain, error)
            return position, []
        except FinalityViolatedError as error:
            return _halted(chain, position, error)
        if advance is None:
            if not self._readers[chain].waits:
                self._at_target.add(chain)
            return position, []
        return advance.position, _rows(chain, advance)

    def _note_failure(self, chain: int, error: RpcError) -> None:
        log.warning("chain can't be read", chain=chain, error=str(error))
        self._not_before[chain] = time.monotonic() + _LOOK_AGAIN_AFTER
        self._failures[chain] = self._failures.get(chain, 0) + 1
        if self._targets is not None and self._failures[chain] >= _MOST_FAILURES:
            raise error


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


def _halted(
    chain: int, position: ChainPosition, error: FinalityViolatedError
) -> tuple[ChainPosition, list[pa.RecordBatch]]:
    """Returns the position of a halted chain, and the row that records the halt."""
    log.error("indexing of chain halted", chain=chain, error=str(error))
    row = {"chain_id": chain, "block_number": position.block, "halted": str(error)}
    return replace(position, halted=str(error)), [pa.RecordBatch.from_pylist([row], schema=schemas.SOURCE)]
