"""What is new in the lake since its tables were made, so that a run computes what is new and not what is there."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files as resources
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError
from pyarrow.dataset import Expression, dataset

from indexer.lake.bucketed_tables import TABLES
from indexer.lake.compaction import files_with
from indexer.lake.derived import DerivedTable, Made
from indexer.lake.files import explained, files_of, manifest_of, new_file, new_name
from indexer.lake.lake import Lake, Reach
from indexer.model import schemas
from indexer.model.errors import LakeDamagedError
from indexer.model.storage_location import StorageLocation
from indexer.model.tables import Bronze, Changes

OF_EVENTS: Final = tuple(TABLES)
"""Tables with rows of single messages, which follow from the events of those alone."""


def made_with() -> str:
    """Stands for the texts that tables are made with: what other texts have made can't be added to."""
    found = [part for part in _all_in(resources("indexer.transforms")) if part.name.endswith((".py", ".sql"))]
    texts = b"".join(part.read_bytes() for part in sorted(found, key=lambda part: part.name))
    return hashlib.sha256(texts + str(schemas.EVENTS).encode()).hexdigest()[:16]


def _all_in(folder: Any) -> list[Any]:
    parts = list(folder.iterdir())
    return [part for part in parts if part.is_file()] + [
        one for part in parts if part.is_dir() for one in _all_in(part)
    ]


def changes_since(lake: Lake, made: Mapping[str, Made | None], reach: Reach) -> Changes | None:
    """What is new; None if all has to be computed: there are no tables, or what they were made of is not there any more.

    Args:
        lake: pinned to the version that the tables are to be made of.
        made: of which events each of `OF_EVENTS` was made.
        reach: of that version of the lake.

    Raises:
        LakeDamagedError: a file of the lake is lost.
    """
    first = made["messages"]
    if (
        first is None
        or any(
            one is None or (one.events_version, one.made_with) != (first.events_version, made_with())
            for one in made.values()
        )
        or first.reach.corrections != reach.corrections
        or any(reach.blocks.get(chain, -1) < block for chain, block in first.reach.blocks.items())
    ):
        return None
    try:
        known = set(lake.at(first.events_version).files())
    except (DeltaError, LakeDamagedError):
        return None  # Delta has cleaned that version's commits away
    blocks = first.reach.blocks
    added = [path for path in lake.files() if path not in known]
    new = _message_ids(added, lake.folder, ~_is_old(blocks) & pc.field("error").is_null())
    events, ids = len(new), pc.unique(new).drop_null()
    there = _message_ids(first.files, first.folder, pc.field("message_id").isin(ids)) if len(ids) else ids
    return Changes(files=added, blocks=blocks, ids=there, events=events, messages=len(ids))


def bronze_of(lake: Lake, changes: Changes) -> Bronze:
    """The events of messages to which something happened."""
    read = files_with(lake.files(), changes.ids.to_pylist()) if len(changes.ids) else []
    return Bronze(files=read, folder=lake.folder, changes=changes)


def without(table: DerivedTable, made: Made, ids: pa.Array) -> tuple[list[str], list[dict[str, Any]]]:
    """The files of a table that have no row of some messages, and new files with the other rows of those that have.

    Args:
        table: of `OF_EVENTS`.
        made: its version.
        ids: of the messages.

    Returns:
        Paths of files to keep, and manifests of the new ones.
    """
    kept, written = [], []
    files = files_of(table.folder)
    with explained(table.folder):
        for path in made.files:
            name = PurePosixPath(path).name
            has = len(ids) and pc.any(pc.is_in(pq.read_table(name, filesystem=files, columns=["message_id"])[0], ids))
            if not has or not has.as_py():
                kept.append(path)
            elif (manifest := _others(name, table.folder, ids)) is not None:
                written.append(manifest)
    return kept, written


def _others(name: str, folder: StorageLocation, ids: pa.Array) -> dict[str, Any] | None:
    rows, target = 0, new_name()
    with files_of(folder).open_input_file(name) as source, new_file(folder, target) as stream:
        parquet = pq.ParquetFile(source)
        with pq.ParquetWriter(stream, parquet.schema_arrow, compression="zstd") as writer:
            for batch in parquet.iter_batches():
                others = batch.filter(pc.invert(pc.is_in(batch["message_id"], ids)))
                rows += others.num_rows
                writer.write_batch(others)
        size = stream.tell()
    return manifest_of(target, size, rows) if rows else None


def _is_old(blocks: Mapping[int, int]) -> Expression:
    old = pc.scalar(False)
    for chain, block in blocks.items():
        old = old | ((pc.field("chain_id") == chain) & (pc.field("block_number") <= block))
    return old


def _message_ids(paths: Sequence[str], folder: StorageLocation, chosen: Expression) -> pa.Array:
    names = [PurePosixPath(path).name for path in paths]
    if not names:
        return pa.array([], pa.binary())
    with explained(folder):
        source = dataset(names, format="parquet", filesystem=files_of(folder))
        return source.to_table(columns=["message_id"], filter=chosen)["message_id"].combine_chunks()
