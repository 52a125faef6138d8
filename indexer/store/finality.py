"""Records when blocks with executions became final. No event states this, and it can't be read from the chain later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, delete, exists, insert, literal, select
from sqlalchemy.engine import RowMapping

from indexer.store import tables
from indexer.store.blocks import BlockRange

_SHARP_WITHIN: Final = 30  # maximum delay of a recorded time, in seconds of the chain's time

_event = tables.events.c
_noted = tables.final_times.c
_IS_EXECUTION: Final = (_event.event == "MessageExecuted") & _event.error.is_(None)


def note_final(
    connection: Connection, chain: int, before: RowMapping | None, piece: BlockRange, read: BlockRange
) -> None:
    """Records the executions that became final since the last poll, and deletes records of blocks that no longer are.

    Args:
        connection: transaction that replaces the blocks, with their events already written.
        chain: chain id.
        before: previous row of the chain; None if there was none.
        piece: blocks of this transaction.
        read: all blocks of the poll.
    """
    final = piece.position.final_block
    connection.execute(delete(tables.final_times).where(_noted.chain_id == chain, _noted.block_number > final))
    if before is None or final <= before["final_block"] or not _is_sharp(before, read):
        return
    newly = _event.block_number.between(before["final_block"] + 1, final)
    executed = (
        select(_event.chain_id, _event.block_number, literal(read.block_time))
        .where(_event.chain_id == chain, newly, _IS_EXECUTION)
        .distinct()
    )
    connection.execute(insert(tables.final_times).from_select(list(tables.final_times.c), executed))


def _is_sharp(before: RowMapping, read: BlockRange) -> bool:
    """Returns whether newly final blocks became final just now, and not earlier while the index was down.

    The new final block was not final when the previous last block was the head. So it became final with one of
    the heads since; with this head, if it is the next one.
    """
    is_head = read.position.block == read.head_block
    is_next = read.position.block - before["block"] <= 1
    return is_head and (is_next or read.block_time - before["block_time"] <= _SHARP_WITHIN)


def noted_of(connection: Connection, ids: Iterable[bytes]) -> list[tuple[int, int]]:
    """Returns the chains and blocks, as recorded here, in which the given messages were executed."""
    same = (_noted.chain_id == _event.chain_id) & (_noted.block_number == _event.block_number)
    chosen = select(_noted.chain_id, _noted.block_number).join(tables.events, same)
    of_these = chosen.where(_event.message_id.in_(ids), _IS_EXECUTION).distinct()
    return [(row.chain_id, row.block_number) for row in connection.execute(of_these)]


def forget_final(connection: Connection, blocks: Iterable[tuple[int, int]]) -> None:
    """Deletes the records of the given chains and blocks, except blocks that still contain an execution."""
    for chain, number in blocks:
        left = exists().where(_event.chain_id == chain, _event.block_number == number, _IS_EXECUTION)
        noted = (_noted.chain_id == chain) & (_noted.block_number == number)
        connection.execute(delete(tables.final_times).where(noted, ~left))
