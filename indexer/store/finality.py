"""When blocks with executions became final, as the running index saw it: no event says so, and no chain can be asked later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sqlalchemy import Connection, delete, exists, insert, literal, select
from sqlalchemy.engine import RowMapping

from indexer.store import tables
from indexer.store.blocks import BlockRange

_SHARP_WITHIN: Final = 30  # seconds of the chain's time by which what is noted may be late

_event = tables.events.c
_noted = tables.final_times.c
_IS_EXECUTION: Final = (_event.event == "MessageExecuted") & _event.error.is_(None)


def note_final(
    connection: Connection, chain: int, before: RowMapping | None, piece: BlockRange, read: BlockRange
) -> None:
    """Notes which executions have become final since the last look at the chain, and forgets what is final no more.

    Args:
        connection: the transaction that replaces the blocks, with their events in it already.
        chain: its id.
        before: the chain's row as it was before; None if there was none.
        piece: the blocks of this transaction.
        read: all the blocks that this look at the chain brought.
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
    """Whether what is newly final became so just now, and not long ago without the index looking on.

    When the last block known before was the head, it was not final, or not even there. So it became final with a head since
    then: with this one, if it is the next.
    """
    is_head = read.position.block == read.head_block
    is_next = read.position.block - before["block"] <= 1
    return is_head and (is_next or read.block_time - before["block_time"] <= _SHARP_WITHIN)


def noted_of(connection: Connection, ids: Iterable[bytes]) -> list[tuple[int, int]]:
    """The chains and blocks in which messages were executed, and of which something is noted: nothing is of a backfill's."""
    same = (_noted.chain_id == _event.chain_id) & (_noted.block_number == _event.block_number)
    chosen = select(_noted.chain_id, _noted.block_number).join(tables.events, same)
    of_these = chosen.where(_event.message_id.in_(ids), _IS_EXECUTION).distinct()
    return [(row.chain_id, row.block_number) for row in connection.execute(of_these)]


def forget_final(connection: Connection, blocks: Iterable[tuple[int, int]]) -> None:
    """Deletes the records of those chains and blocks, unless an execution in them is left."""
    for chain, number in blocks:
        left = exists().where(_event.chain_id == chain, _event.block_number == number, _IS_EXECUTION)
        noted = (_noted.chain_id == chain) & (_noted.block_number == number)
        connection.execute(delete(tables.final_times).where(noted, ~left))
