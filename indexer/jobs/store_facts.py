"""Reads those inputs of the gold tables that are in no log from the index's store."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlalchemy import Engine, Executable, select, text

from indexer.model import schemas
from indexer.pipeline.refresh import StoreFacts
from indexer.store import tables
from indexer.store.divergences import NOTED
from indexer.store.limits import saved_policy


def read_facts(
    engine: Engine,
    *,
    attested: pa.Table | None = None,
    paid: pa.Table | None = None,
    chain_names: Mapping[int, str] | None = None,
) -> StoreFacts:
    """Reads the facts that the running index has stored.

    Args:
        engine: reading engine of the index's store.
        attested: rows of `schemas.ATTESTED`, from the relayer.
        paid: rows of `schemas.PAID`, of the relayer.
        chain_names: chain names by EIP-155 id.
    """
    chosen: dict[pa.Schema, Executable] = {
        schemas.LIMITS: select(tables.stall_limits),
        schemas.DIVERGENCES: text(NOTED),
    }
    with engine.connect() as connection:
        limits, divergences = (
            pa.Table.from_pylist([dict(row) for row in connection.execute(rows).mappings()], schema=schema)
            for schema, rows in chosen.items()
        )
    return StoreFacts(
        policy=saved_policy(engine),
        limits=limits,
        divergences=divergences,
        attested=attested,
        paid=paid,
        chain_names=chain_names or {},
    )
