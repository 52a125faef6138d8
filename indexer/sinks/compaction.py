"""Few large files instead of many small ones, each with the messages of one bucket: whoever works by message reads only those."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from indexer import schemas

BUCKETS: Final = 16
"""By the upper four bits of the message id; events about no message are in bucket 0."""

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


def files_with(paths: Sequence[str], ids: Sequence[bytes]) -> list[str]:
    """The files that may hold events of these messages."""
    wanted = {bucket_of(message_id) for message_id in ids} | {None}
    return [path for path in paths if bucket_of_file(path) in wanted]


def in_buckets(names: Sequence[str], files: FileSystem) -> dict[int, pa.Table]:
    """The events of files, by bucket, each in the order of chain, block and log."""
    parts = [_known(pq.read_table(name, filesystem=files)) for name in names]
    events = pa.concat_tables(parts, promote_options="default").select(schemas.EVENTS.names).cast(schemas.EVENTS)
    first = pc.fill_null(pc.binary_slice(events["message_id"], 0, 1), b"\0")
    bytes_ = np.frombuffer(pa.concat_arrays(first.cast(pa.binary(1)).chunks).buffers()[1], np.uint8)
    buckets = bytes_[: len(events)].astype(np.int32) * BUCKETS // 256
    found = {}
    for bucket in np.unique(buckets).tolist():
        chosen = events.filter(pa.array(buckets == bucket))
        found[bucket] = chosen.sort_by([(name, "ascending") for name in ("chain_id", "block_number", "log_index")])
    return found


def _known(events: pa.Table) -> pa.Table:
    return events.select([name for name in events.column_names if name in schemas.EVENTS.names])
