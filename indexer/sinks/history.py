"""The whole history: the lake as far as it reaches, and behind that the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from sqlalchemy import Engine, select

from bridge.protocol.indexed import DivergenceRecord
from indexer import schemas
from indexer.divergences import MEANINGS
from indexer.sinks import tables
from indexer.sinks.lake import Lake
from indexer.sinks.store import events_between, position_of
from indexer.sources.position import ChainPosition


class History:
    """Reads lake ∪ store, which is what the index serves. The index may be running."""

    def __init__(self, engine: Engine, lake: Lake) -> None:
        """Reads through `engine`, and from `lake`."""
        self._engine = engine
        self._lake = lake

    def positions(self) -> dict[int, ChainPosition]:
        """How far each chain has been read."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(tables.chains)).mappings()
            return {row["chain_id"]: position_of(row) for row in rows}

    def events(self, chain: int, first: int, last: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The events of a range of blocks, in order.

        Args:
            chain: its id.
            first: the first block.
            last: the last block, included.
            columns: of `schemas.EVENTS`; all if not given.
        """
        names = schemas.EVENTS.names if columns is None else list(columns)
        in_lake = self._lake.last_block(chain)
        parts = []
        if in_lake is not None and first <= in_lake:
            parts.append(self._lake.events(chain, first, min(last, in_lake), columns=names))
            first = in_lake + 1
        if first <= last:
            parts.append(events_between(self._engine, chain, first, last, names))
        return pa.concat_tables(parts) if parts else schemas.EVENTS.empty_table().select(names)

    def disagreements(self) -> Iterator[DivergenceRecord]:
        """Chains of which store and lake hold different events, where both should hold the same.

        The store may lack events of messages that it has let go of, and only of those.
        """
        with self._engine.connect() as connection:
            kept = set(connection.scalars(select(tables.messages.c.message_id)))
        meaning = MEANINGS["STORE_DIFFERS_FROM_LAKE"]
        for chain, position in sorted(self.positions().items()):
            last = min(self._lake.last_block(chain) or -1, position.block)
            stored = places(events_between(self._engine, chain, 0, last, PLACE))
            lasting = places(self._lake.events(chain, 0, last, PLACE))
            message_id = PLACE.index("message_id")
            missing = {place for place in lasting - stored if place[message_id] in kept or place[message_id] is None}
            if missing or stored - lasting:
                yield DivergenceRecord(
                    kind="STORE_DIFFERS_FROM_LAKE",
                    message_id=None,
                    source_chain=chain,
                    destination_chain=None,
                    evidence=(
                        f"up to block {last}: {len(missing)} events of the lake are not in the store, "
                        f"{len(stored - lasting)} of the store not in the lake"
                    ),
                    severity=meaning.severity.value,
                    next_action=meaning.next_action,
                )


PLACE: Final = ("block_number", "log_index", "block_hash", "event", "message_id")
"""The columns of `schemas.EVENTS` that tell one log from another."""


def places(events: pa.Table) -> set[tuple[object, ...]]:
    """What `PLACE` names, per event."""
    columns = [events[name].to_pylist() for name in PLACE]
    return set(zip(*columns, strict=True))
