"""What to do when a chain takes back what it had called final: say so, and on demand follow the chain again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
import structlog

from indexer import schemas
from indexer.sinks.blocks import BlockRange
from indexer.sinks.history import History
from indexer.sinks.lake import FinalBlocks, Lake
from indexer.sinks.store import Store
from indexer.sources.answers import UnknownBlockError
from indexer.sources.chain import ChainReader
from indexer.sources.position import HASH_PREFIX, ChainPosition

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A chain no longer has blocks that it had called final.

    Attributes:
        fork: the last block of the index that the chain still has, as far as events tell.
        position: how far the index had read the chain.
        events: of the index, above the fork.
    """

    chain_id: int
    fork: int
    position: ChainPosition
    events: pa.Table = field(repr=False)

    def marks(self) -> Iterator[tuple[bytes, int, str]]:
        """By message that final events were taken from: its id, the lowest of their blocks, and the evidence."""
        gone: dict[bytes, list[tuple[int, str, str]]] = defaultdict(list)
        for row in self.events.select(["message_id", "block_number", "event", "transaction_hash"]).to_pylist():
            if row["message_id"] is not None and row["block_number"] <= self.position.final_block:
                gone[row["message_id"]].append((row["block_number"], row["event"], row["transaction_hash"].hex()))
        for message_id, events in gone.items():
            what = "; ".join(
                f"{event} in block {block}, transaction 0x{hash_}" for block, event, hash_ in sorted(events)
            )
            text = (
                f"chain {self.chain_id} had called block {self.position.final_block} final with hash "
                f"0x{self.position.final_hash.hex()}, and no longer has what followed block {self.fork}: {what}"
            )
            yield message_id, min(events)[0], text


def find_violation(reader: ChainReader, history: History) -> Violation | None:
    """Compares the blocks of the index's events with the chain's, and returns what no longer fits if that was final.

    Raises:
        RpcError: no usable answer.
    """
    chain = reader.config.chain_id
    position = history.positions().get(chain)
    if position is None or not position.final_hash or _has(reader, position.final_block, position.final_hash):
        return None
    start = reader.config.start_block
    events = history.events(chain, start, position.block)
    numbers = events["block_number"].to_pylist()
    known = sorted(set(zip(numbers, events["block_hash"].to_pylist(), strict=True)))
    kept = _first_gone(reader, known)
    fork = known[kept - 1][0] if kept else start - 1
    cut = next((row for row, number in enumerate(numbers) if number > fork), len(numbers))
    return Violation(chain_id=chain, fork=fork, position=position, events=events.slice(cut))


def _first_gone(reader: ChainReader, known: Sequence[tuple[int, bytes]]) -> int:
    """How many of the index's blocks the chain still has: a block that is there has all its ancestors."""
    low, high = 0, len(known)
    while low < high:
        middle = (low + high) // 2
        if _has(reader, *known[middle]):
            low = middle + 1
        else:
            high = middle
    return low


def _has(reader: ChainReader, number: int, block_hash: bytes) -> bool:
    with suppress(UnknownBlockError):
        return reader.header(number).hash == block_hash
    return False


def mark(store: Store, violation: Violation, now: float) -> int:
    """Shows the messages concerned as DIVERGED, with the evidence, until the index is repaired; returns how many."""
    marks = list(violation.marks())
    store.mark(violation.chain_id, marks, now)
    log.error("final blocks are gone", chain=violation.chain_id, fork=violation.fork, messages=len(marks))
    return len(marks)


def repair(store: Store, lake: Lake, reader: ChainReader, violation: Violation, now: float) -> None:
    """Goes back to the fork, in lake and store, so that the next run reads the chain from there. May be repeated.

    The lake's delete is a commit that says why, and its earlier versions keep what was there: the only exception to
    append-only. The marks stay, with the time of the repair, as the record of what was taken back.

    Args:
        store: open for writing.
        lake: the lake.
        reader: of the chain.
        violation: what `find_violation` found.
        now: Unix seconds.
    """
    chain, fork = violation.chain_id, violation.fork
    mark(store, violation, now)
    fork_hash = reader.header(fork).hash if fork >= 0 else b""
    in_lake = lake.last_block(chain)
    if in_lake is not None and in_lake > fork:
        lake.take_back(
            chain, FinalBlocks(fork + 1, fork, fork_hash), f"chain {chain} took back final blocks above {fork}"
        )
    store.note_lake({chain: fork})
    header = reader.header(max(fork, 0))
    after = replace(
        ChainPosition.before(fork + 1), hashes=fork_hash[:HASH_PREFIX], final_hash=fork_hash if fork >= 0 else b""
    )
    range_ = BlockRange(
        first=fork + 1, position=after, block_hash=header.hash, block_time=header.time, head_block=reader.head().number
    )
    store.apply(schemas.EVENTS.empty_table(), {chain: range_})
    store.note_repair(chain, now)
