"""The inputs of gold that are in no log: they come from the index's store and from the relayer's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from sqlalchemy import Engine, Executable, select, text

from indexer.model import schemas
from indexer.model.settings import StallPolicy
from indexer.store import tables
from indexer.store.divergences import NOTED
from indexer.store.limits import saved_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """Facts that the events do not contain.

    Attributes:
        policy: when a message counts as silent; from the index's store.
        limits: `schemas.LIMITS`, from the same.
        divergences: `schemas.DIVERGENCES` that do not follow from messages and receipts; from the same.
        final_times: `schemas.FINAL_TIMES`, from the same.
        attested: `schemas.ATTESTED`, from the relayer's store; None if there is none here.
        paid: `schemas.PAID`, from the same; None if there is none here.
        chain_names: the chains' names by EIP-155 id; from the deployments file.
    """

    policy: StallPolicy = field(default_factory=StallPolicy)
    limits: pa.Table = field(default_factory=schemas.LIMITS.empty_table)
    divergences: pa.Table = field(default_factory=schemas.DIVERGENCES.empty_table)
    final_times: pa.Table = field(default_factory=schemas.FINAL_TIMES.empty_table)
    attested: pa.Table | None = None
    paid: pa.Table | None = None
    chain_names: Mapping[int, str] = field(default_factory=dict[int, str])


def read_facts(
    engine: Engine,
    *,
    attested: pa.Table | None = None,
    paid: pa.Table | None = None,
    chain_names: Mapping[int, str] | None = None,
) -> StoreFacts:
    """Read the facts that the running index has stored.

    Args:
        engine: the store's, for reading.
        attested: `schemas.ATTESTED`, of the relayer.
        paid: `schemas.PAID`, of the relayer.
        chain_names: by EIP-155 id.
    """
    final = tables.final_times.c
    chosen: dict[pa.Schema, Executable] = {
        schemas.LIMITS: select(tables.stall_limits),
        schemas.DIVERGENCES: text(NOTED),
        schemas.FINAL_TIMES: select(final.chain_id, final.block_number, final.final_time),
    }
    with engine.connect() as connection:
        limits, divergences, final_times = (
            pa.Table.from_pylist([dict(row) for row in connection.execute(rows).mappings()], schema=schema)
            for schema, rows in chosen.items()
        )
    return StoreFacts(
        policy=saved_policy(engine),
        limits=limits,
        divergences=divergences,
        final_times=final_times,
        attested=attested,
        paid=paid,
        chain_names=chain_names or {},
    )
