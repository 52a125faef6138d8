"""Few large files instead of many small ones, each with the messages of one bucket, so that a reader of one message reads only that bucket."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow.fs import FileSystem

from indexer.lake.files import write_files
from indexer.model import schemas
from indexer.model.storage_location import StorageLocation

BUCKETS: Final = 16
"""By the upper four bits of the message id; events about no message are in bucket 0."""

_ROWS_IN_A_GROUP: Final = 32_768
"""Of a bucket's files, which are in the order of message ids: a reader of a slice skips all other groups."""

_PREFIX_LENGTH: Final = 3  # bytes of an id by which slices are told apart
_PREFIXES: Final = 1 << (8 * _PREFIX_LENGTH)
_BUCKET: Final = re.compile(r"bucket-(\d\d)-")


def prefix(bucket: int) -> str:
    """How the name of a bucket's files begins."""
    return f"bucket-{bucket:02d}-"


def bucket_of_file(path: str) -> int | None:
    """The bucket that a file holds, or None for one with events of all of them."""
    found = _BUCKET.search(PurePosixPath(path).name)
    return int(found[1]) if found else None


def bucket_of(message_id: bytes) -> int:
    """The bucket of a message."""
    return message_id[0] * BUCKETS // 256


def slices_of(bucket: int, slices: int) -> list[tuple[bytes, bytes | None]]:
    """A bucket in so many parts, about as large as one another: the id that each begins with, and the one that it ends before.

    None ends after all ids there are.
    """
    width = _PREFIXES // BUCKETS
    count = max(1, min(slices, width))
    edges = [bucket * width + width * number // count for number in range(count + 1)]
    texts = [None if edge == _PREFIXES else edge.to_bytes(_PREFIX_LENGTH, "big") for edge in edges]
    return [(low, high) for low, high in itertools.pairwise(texts) if low is not None]


def files_with(paths: Sequence[str], ids: Sequence[bytes]) -> list[str]:
    """The files that may hold events of these messages."""
    wanted = {bucket_of(message_id) for message_id in ids} | {None}
    return [path for path in paths if bucket_of_file(path) in wanted]


def in_buckets(names: Sequence[str], files: FileSystem) -> dict[int, pa.Table]:
    """The events of files, by bucket, each as `by_message` has them."""
    parts = [_known(pq.read_table(name, filesystem=files)) for name in names]
    events = pa.concat_tables(parts, promote_options="default").select(schemas.EVENTS.names).cast(schemas.EVENTS)
    buckets = (_first_bytes(events) >> np.uint64(56)).astype(np.int32) * BUCKETS // 256
    return {bucket: by_message(events.filter(pa.array(buckets == bucket))) for bucket in np.unique(buckets).tolist()}


def write_bucket(folder: StorageLocation, bucket: int, events: pa.Table) -> Iterator[dict[str, Any]]:
    """Writes events of one bucket, in the order of `by_message`; see `indexer.lake.files.write_files`."""
    return write_files(folder, events.to_batches(), prefix(bucket), _ROWS_IN_A_GROUP)


def by_message(events: pa.Table) -> pa.Table:
    """Events by the first eight bytes of their messages' ids, and those of one message by chain, block and log."""
    place = [events[name].to_numpy() for name in ("log_index", "block_number", "chain_id")]
    return events.combine_chunks().take(pa.array(np.lexsort([*place, _first_bytes(events)])))


def _first_bytes(events: pa.Table) -> NDArray[np.uint64]:
    """Of each event's message id, as a number; 0 of an event about no message."""
    first = pc.fill_null(pc.binary_slice(events["message_id"], 0, 8), bytes(8)).cast(pa.binary(8)).combine_chunks()
    return np.frombuffer(first.buffers()[1], ">u8")[: len(events)].astype(np.uint64)


def _known(events: pa.Table) -> pa.Table:
    return events.select([name for name in events.column_names if name in schemas.EVENTS.names])
