"""Handles finality violations: marks the affected messages, and on demand makes the index follow the chain again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
import structlog

from bridge.evm.rpc_answers import UnknownBlockError
from indexer.jobs.history import History
from indexer.pipeline.bronze import FinalBlocks, Lake
from indexer.sources.chain import ChainReader
from indexer.sources.position import HASH_PREFIX, ChainPosition, Header
from indexer.store.blocks import BlockRange
from indexer.store.store import Store

log = structlog.get_logger(__name__)

_SHOWN: Final = ("message_id", "block_number", "event", "transaction_hash")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Final blocks that a chain no longer has.

    Attributes:
        fork: number of the last block with events that the chain still has.
        fork_hash: hash of that block; empty if the chain no longer has any block of the index.
        final: number and hash of the store's or the lake's final block that the chain lacks.
        events: the index's events above the fork, with id, place, name and transaction.
    """

    chain_id: int
    fork: int
    fork_hash: bytes
    final: tuple[int, bytes]
    events: pa.Table = field(repr=False)

    def marks(self) -> Iterator[tuple[bytes, int, str]]:
        """Yields the id, lowest affected block and evidence of each message that lost final events."""
        gone: dict[bytes, list[tuple[int, str, str]]] = defaultdict(list)
        for row in self.events.to_pylist():
            if row["message_id"] is not None and row["block_number"] <= self.final[0]:
                gone[row["message_id"]].append((row["block_number"], row["event"], row["transaction_hash"].hex()))
        for message_id, events in gone.items():
            what = "; ".join(
                f"{event} in block {block}, transaction 0x{hash_}" for block, event, hash_ in sorted(events)
            )
            text = (
                f"chain {self.chain_id} had called block {self.final[0]} final with hash 0x{self.final[1].hex()}, "
                f"and no longer has what followed block {self.fork}: {what}"
            )
            yield message_id, min(events)[0], text


def lake_mismatch(reader: ChainReader, lake: Lake) -> str | None:
    """Returns the reason why nothing may be appended to the lake if the chain lacks the lake's last block, else None.

    Raises:
        RpcError: no endpoint has the block, but not all of them have a different block at its height.
    """
    known = lake.last_known(reader.config.chain_id)
    if known is None or reader.has(*known):
        return None
    chain, (block, block_hash) = reader.config.chain_id, known
    return (
        f"chain {chain} has block {block} with hash 0x{reader.header(block).hash.hex()}, but the lake was filled when it "
        f"was 0x{block_hash.hex()} and final: `waybill index verify --repair` goes back to where they agree. If this is a devnet "
        "that was started again from its first block, delete the index's folder"
    )


def find_violation(reader: ChainReader, history: History) -> Violation | None:
    """Compares the index's blocks with the chain's, and returns the violation if a final block is gone.

    Checks the last final blocks of store and lake, which may differ after a restore. Blocks are compared by
    hash. A block counts as existing if any endpoint has it: a single endpoint with a different block is not
    trusted.

    Raises:
        RpcError: no endpoint has the last final block, but not all of them have a different block at its height.
    """
    chain = reader.config.chain_id
    position = history.positions().get(chain)
    in_lake = history.last_of_lake(chain)
    of_store = (position.final_block, position.final_hash) if position and position.final_hash else None
    gone = next((final for final in (in_lake, of_store) if final is not None and not reader.has(*final)), None)
    if gone is None:
        return None
    start = reader.config.start_block
    last = max(position.block if position else gone[0], in_lake[0] if in_lake else gone[0])
    known = history.blocks(chain, start, last)
    kept = _first_gone(reader, [block for block in known if block[0] <= gone[0]])
    fork, fork_hash = known[kept - 1] if kept else (start - 1, b"")
    return Violation(
        chain_id=chain,
        fork=fork,
        fork_hash=fork_hash,
        final=gone,
        events=history.events(chain, fork + 1, last, _SHOWN),
    )


def _first_gone(reader: ChainReader, known: Sequence[tuple[int, bytes]]) -> int:
    """Returns how many of the index's blocks the chain still has.

    Bisects, since a block's existence implies that of its ancestors.
    """
    low, high = 0, len(known)
    while low < high:
        middle = (low + high) // 2
        if reader.has(*known[middle]):
            low = middle + 1
        else:
            high = middle
    return low


def mark(store: Store, violation: Violation, now: float) -> int:
    """Marks the affected messages as DIVERGED until the index is repaired, and returns how many they are."""
    marks = list(violation.marks())
    store.mark(violation.chain_id, marks, now)
    log.error("final blocks reverted", chain=violation.chain_id, fork=violation.fork, messages=len(marks))
    return len(marks)


def repair(store: Store, lake: Lake, reader: ChainReader, violation: Violation, now: float) -> None:
    """Rolls lake and store back to the fork, so that the next run reads the chain from there. Idempotent.

    The lake deletes the rows in a commit that states the reason, and earlier versions of the table keep them.
    This is the only exception to append-only. The marks stay as a record, with the time of the repair.

    Args:
        store: store opened for writing.
        lake: the lake.
        reader: reader of the chain.
        violation: violation returned by `find_violation`.
        now: current time in Unix seconds.

    Raises:
        UnknownBlockError: the chain has changed again, and no longer has the fork block either.
        RpcError: no endpoint gave a usable response.
    """
    chain, fork = violation.chain_id, violation.fork
    header = _fork_header(reader, violation)
    mark(store, violation, now)
    fork_hash = header.hash if fork >= 0 else b""
    in_lake = lake.last_block(chain)
    if in_lake is not None and in_lake > fork:
        lake.take_back(
            chain, FinalBlocks(fork + 1, fork, fork_hash), f"chain {chain} took back final blocks above {fork}"
        )
    store.note_lake({chain: fork})
    after = replace(
        ChainPosition.before(fork + 1), hashes=fork_hash[:HASH_PREFIX], final_hash=fork_hash if fork >= 0 else b""
    )
    range_ = BlockRange(
        first=fork + 1,
        parent_hash=fork_hash[:HASH_PREFIX] or None,
        position=after,
        block_hash=header.hash,
        block_time=header.time,
        head_block=reader.head().number,
    )
    if (stored := store.positions().get(chain)) is not None and stored.block >= fork:
        store.remove_above(chain, range_)
    store.note_repair(chain, now)


def _fork_header(reader: ChainReader, violation: Violation) -> Header:
    """Reads the fork block's header from an endpoint that has it.

    Returns block 0's header if the chain has no block of the index left.
    """
    fork, fork_hash = violation.fork, violation.fork_hash
    if fork_hash and not reader.has(fork, fork_hash):
        raise UnknownBlockError(
            f"chain {violation.chain_id} has reverted fork block {fork} as well: run the repair again"
        )
    header = reader.header(max(fork, 0))
    if fork_hash and header.hash != fork_hash:
        raise UnknownBlockError(f"chain {violation.chain_id} changed during the repair: run the repair again")
    return header
