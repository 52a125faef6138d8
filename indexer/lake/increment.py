"""What is new in the lake since its tables were made, so that a run computes what is new and not what is there."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from indexer.lake.derived import DerivedTable, Made, events_version_of_table, reach_of_table
from indexer.lake.files import explained, files_of, manifest_of, new_file, new_name
from indexer.lake.lake import Lake, Reach, events_in
from indexer.model import schemas
from indexer.model.errors import LakeDamagedError
from indexer.model.storage_location import StorageLocation
from indexer.model.tables import KEPT, Bronze, Changes
from indexer.transforms.queries import REGISTRATIONS, Conflict

OF_EVENTS: Final = tuple(TABLES)
"""Tables with rows of single messages, which follow from the events of those alone."""

INCREMENTAL: Final = (*OF_EVENTS, *KEPT)
"""Tables that a run adds to."""

ADDED_UP: Final = ("fan_outs", "tallies")
"""Of these, those that are small and written whole: of what is new, and of what is there."""

_MISPLACED: Final = Conflict.EXECUTED_ELSEWHERE


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


def events_to_read(place: StorageLocation) -> int:
    """About how many events the next run of the tables in that place reads: those that came since the last run, or all."""
    folder = place / "messages"
    corrections = [reach_of_table(table, ()).corrections for table in (folder, place / "events")]
    is_added_to = corrections[0] == corrections[1]
    return events_in(place, events_version_of_table(folder, made_with()) if is_added_to else None)


def changes_since(lake: Lake, made: Mapping[str, Made | None], reach: Reach) -> Changes | None:
    """What is new; None if all has to be computed: there are no tables, or what they were made of is not there any more.

    Args:
        lake: pinned to the version that the tables are to be made of.
        made: of which events each of `INCREMENTAL` was made.
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
    is_new = ~_is_old(blocks) & pc.field("error").is_null()
    begun = _chains_with_registrations(added, lake.folder, is_new)
    if begun and not begun <= _chains_with_registrations(list(known), lake.folder, _is_old(blocks)):
        return None  # receipts of a router are judged once its registrations are known
    new = _column("message_id", added, lake.folder, is_new)
    events, ids = len(new), pc.unique(new).drop_null()
    # Judged by the blocks of another chain, which may be read later than their own events: they are judged each time.
    changed = pc.field("message_id").isin(ids) | (pc.bit_wise_and(pc.field("conflicts"), int(_MISPLACED)) != 0)
    there = _column("message_id", first.files, first.folder, changed)
    return Changes(files=added, blocks=blocks, ids=there, events=events, messages=len(ids))


def _chains_with_registrations(paths: Sequence[str], folder: StorageLocation, chosen: Expression) -> set[int]:
    registers = pc.field("message_id").is_null() & pc.field("error").is_null() & pc.field("event").isin(REGISTRATIONS)
    return set(pc.unique(_column("chain_id", paths, folder, registers & chosen)).to_pylist())


@contextmanager
def bronze_of(lake: Lake, changes: Changes) -> Iterator[Bronze]:
    """The events of messages to which something happened.

    The old ones of these are in a file of their own meanwhile, which no commit names. Each table would look through the whole
    lake for them.
    """
    name, rows = new_name(), 0
    with (
        explained(lake.folder),
        new_file(lake.folder, name) as stream,
        pq.ParquetWriter(stream, schemas.EVENTS, compression="zstd") as writer,
    ):
        for events in _old_events(lake, changes):
            rows += len(events)
            writer.write_table(events)
    try:
        yield Bronze(files=[f"{lake.folder.root}/{name}"] if rows else [], folder=lake.folder, changes=changes)
    finally:
        files_of(lake.folder).delete_file(name)


def _old_events(lake: Lake, changes: Changes) -> Iterator[pa.Table]:
    """Events of `Changes.ids` that are not new, a group of rows at a time: most groups have none of these messages."""
    ids, is_old, files = sorted(changes.ids.to_pylist()), _is_old(changes.blocks), files_of(lake.folder)
    for path in files_with(lake.files(), ids) if ids else []:
        with files.open_input_file(PurePosixPath(path).name) as source:
            parquet = pq.ParquetFile(source)
            for group in range(parquet.num_row_groups):
                if not _may_have(ids, parquet, group):
                    continue
                chosen = pc.is_in(parquet.read_row_group(group, ["message_id"])["message_id"], changes.ids)
                if pc.any(chosen).as_py():
                    yield _as_events(parquet.read_row_group(group).filter(chosen).filter(is_old))


def _may_have(ids: Sequence[bytes], parquet: pq.ParquetFile, group: int) -> bool:
    """Whether one of these ids, which are in order, is between the least and the greatest of a group of rows."""
    column = parquet.schema_arrow.get_field_index("message_id")
    found = parquet.metadata.row_group(group).column(column).statistics
    if found is None or not found.has_min_max:
        return True
    place = bisect_left(ids, found.min)
    return place < len(ids) and ids[place] <= found.max


def _as_events(rows: pa.Table) -> pa.Table:
    """The columns of `schemas.EVENTS`: older files lack some, or have others."""
    known = rows.select([name for name in schemas.EVENTS.names if name in rows.column_names])
    whole = pa.concat_tables([schemas.EVENTS.empty_table(), known], promote_options="permissive")
    return whole.select(schemas.EVENTS.names).cast(schemas.EVENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """A table without some messages.

    Attributes:
        kept: paths of its files that have none of them.
        written: manifests of new files, with the other rows of those that have.
        removed: paths of files with the rows of these messages, which no commit names.
    """

    kept: list[str] = field(default_factory=list[str])
    written: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    removed: list[str] = field(default_factory=list[str])

    def paths(self, folder: StorageLocation) -> list[str]:
        """The files with its rows."""
        return [*self.kept, *paths_of(self.written, folder)]


NOTHING: Final = Others()


def paths_of(manifests: Sequence[Mapping[str, Any]], folder: StorageLocation) -> list[str]:
    """Where the files of a table are."""
    return [f"{folder.root}/{manifest['path']}" for manifest in manifests]


def without(table: DerivedTable, made: Made, ids: pa.Array) -> Others:
    """Takes some messages out of a table with rows of single messages.

    Args:
        table: whose files these are.
        made: its version.
        ids: of the messages.
    """
    kept, written, removed = list[str](), list[dict[str, Any]](), list[str]()
    files = files_of(table.folder)
    with explained(table.folder):
        for path in made.files:
            name = PurePosixPath(path).name
            has = len(ids) and pc.any(pc.is_in(pq.read_table(name, filesystem=files, columns=["message_id"])[0], ids))
            if not has or not has.as_py():
                kept.append(path)
                continue
            others, theirs = _split(name, table.folder, ids)
            written += [others] if others["rows"] else []
            removed += paths_of([theirs], table.folder)
    return Others(kept=kept, written=written, removed=removed)


def _split(name: str, folder: StorageLocation, ids: pa.Array) -> tuple[dict[str, Any], dict[str, Any]]:
    """Writes a file's rows to two new ones: those of other messages, and those of these."""
    targets, rows = (new_name(), new_name()), [0, 0]
    with (
        files_of(folder).open_input_file(name) as source,
        new_file(folder, targets[0]) as first,
        new_file(folder, targets[1]) as second,
    ):
        parquet = pq.ParquetFile(source)
        with (
            pq.ParquetWriter(first, parquet.schema_arrow, compression="zstd") as others,
            pq.ParquetWriter(second, parquet.schema_arrow, compression="zstd") as theirs,
        ):
            for batch in parquet.iter_batches():
                chosen = pc.is_in(batch["message_id"], ids)
                for position, (writer, part) in enumerate(((others, pc.invert(chosen)), (theirs, chosen))):
                    found = batch.filter(part)
                    rows[position] += found.num_rows
                    writer.write_batch(found)
        sizes = first.tell(), second.tell()
    one, two = (manifest_of(*values) for values in zip(targets, sizes, rows, strict=True))
    return one, two


def _is_old(blocks: Mapping[int, int]) -> Expression:
    old = pc.scalar(False)
    for chain, block in blocks.items():
        old = old | ((pc.field("chain_id") == chain) & (pc.field("block_number") <= block))
    return old


def _column(column: str, paths: Sequence[str], folder: StorageLocation, chosen: Expression) -> pa.Array:
    """A column of the rows that were chosen."""
    names = [PurePosixPath(path).name for path in paths]
    if not names:
        return pa.array([], pa.binary())
    with explained(folder):
        source = dataset(names, format="parquet", filesystem=files_of(folder))
        return source.to_table(columns=[column], filter=chosen)[column].combine_chunks()
