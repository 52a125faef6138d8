"""The files of a place, and how rows become Parquet.

In a bucket, deltalake's own client reads, writes and commits: one set of credentials and retries.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import structlog
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from indexer.model import schemas
from indexer.model.errors import LakeDamagedError, LakeUnreachableError
from indexer.model.storage_location import StorageLocation

log = structlog.get_logger(__name__)

_SIGNS: Final = {
    # What S3 servers answer, and what deltalake's client says when there is no answer, in the order of looking.
    "NoSuchBucket": "there is no such bucket; make it first, or correct `index_lake`",
    "InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|InvalidClientTokenId|ExpiredToken|40[13] |Forbidden"
    "|InvalidToken": (
        "the credentials were refused; they are those of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or the "
        "machine's role, and must allow to list, get, put and delete objects"
    ),
    "169.254.169.254|credentials|security-credentials": (
        "there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
    ),
    "PermanentRedirect|AuthorizationHeaderMalformed|301 Moved": (
        "the bucket is in another region; add ?region=… to `index_lake`, or set AWS_REGION"
    ),
    "error sending request|Connect|timed out|dns|retries": (
        "the endpoint can't be reached; look at ?endpoint=… of `index_lake`, at AWS_ENDPOINT_URL and the network"
    ),
}

_OF_THE_MACHINE: Final = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EMFILE,
    errno.ENFILE,
}
"""What no file's content is to blame for."""

_ROWS_IN_A_FILE: Final = 1_000_000
_STATISTICS_OF: Final = ("chain_id", "block_number")
_REPETITIVE: Final = ("chain_id", "event", "source_chain", "destination_chain", "gmp", "gmps", "kind")


def files_of(place: StorageLocation) -> FileSystem:
    """The files in a place, by their names there."""
    if place.is_bucket:
        return PyFileSystem(DeltaStorageHandler(place.root, place.options))
    return SubTreeFileSystem(place.root, LocalFileSystem())


def files_in(table: DeltaTable, place: StorageLocation) -> list[str]:
    """The files of a table's version: paths on this machine, which delta-rs gives as parts of URLs, or URLs in a bucket."""
    uris = table.file_uris()
    return uris if place.is_bucket else [unquote(uri.removeprefix("file://")) for uri in uris]


@contextmanager
def new_file(place: StorageLocation, name: str) -> Iterator[pa.NativeFile]:
    """A file to write, whose content outlasts a power cut when the block has ended."""
    if place.is_bucket:
        with explained(place), files_of(place).open_output_stream(name) as stream:
            yield stream
        return
    path = Path(place.root) / name
    with pa.OSFile(str(path), "wb") as file:
        yield file
    with path.open("rb") as written:
        os.fsync(written.fileno())


def new_name() -> str:
    """Of a file of a derived table."""
    return f"part-{uuid.uuid4().hex}.parquet"


def manifest_of(name: str, size: int, rows: int) -> dict[str, Any]:
    """What a commit says of such a file, and its `rows`."""
    return {"path": name, "size": size, "rows": rows, "stats": json.dumps({"numRecords": rows})}


@contextmanager
def explained(*places: StorageLocation) -> Iterator[None]:
    """Says in plain words what S3 answered, or which file of these tables is lost or damaged.

    Raises:
        LakeDamagedError: a file that the lake's commits name is gone, or a file can't be read.
        LakeUnreachableError: the bucket is not there, refuses, or does not answer.
    """
    try:
        yield
    except CommitFailedError:
        raise
    except (OSError, DeltaError, pa.ArrowException, duckdb.Error) as error:
        if places[0].is_bucket and (meaning := _meaning(str(error))) is not None:
            raise LakeUnreachableError(f"the lake at {places[0]} can't be used: {meaning}") from error
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
            raise
        found = {place: what for place in places if (what := "; ".join(damages(place)))}
        place, what = next(iter(found.items()), (places[0], _plain(str(error))))
        raise _damaged(place, what) from error


def check_there(files: Sequence[str], folder: StorageLocation) -> None:
    """Looks whether files on this machine are there: an engine's own error names neither the lake nor what to do.

    Raises:
        LakeDamagedError: one is not.
    """
    if not folder.is_bucket:
        with explained(folder):
            for path in files:
                if not Path(path.removeprefix("file://")).exists():
                    raise FileNotFoundError(path)


def damages(place: StorageLocation) -> Iterator[str]:
    """What is wrong with the files of a table on this machine, by their names and ends; nothing of a bucket's."""
    folder = Path(place.root) / "_delta_log"
    if place.is_bucket or not folder.exists():
        return
    for commit in sorted(folder.glob("*.json")):
        try:
            for line in commit.read_text().splitlines():
                json.loads(line)
        except (OSError, ValueError):
            yield f"{commit} is no whole commit"
            return
    if empty := _empty_commits(place):
        yield f"{empty[0]} is empty"
        return
    try:
        named = [Path(path) for path in files_in(DeltaTable(place.root), place)]
    except DeltaError as error:
        yield f"{folder}: {_plain(str(error))}"
        return
    for path in named:
        if not path.exists():
            yield f"{path}, which its commits name, is not there"
            continue
        try:
            pq.ParquetFile(path)
        except (OSError, pa.ArrowException):
            yield f"{path} is no whole Parquet file"


def refuse_empty_commits(place: StorageLocation) -> None:
    """Stops where deltalake would take an emptied commit for one without rows.

    Raises:
        LakeDamagedError: a commit of the table is empty.
    """
    if empty := _empty_commits(place):
        raise _damaged(place, f"{empty[0]} is empty")


def mend_last_commit(place: StorageLocation) -> None:
    """Replaces the last commit if a power cut left it empty: its rows are written again, by the blocks that are missing."""
    commits = sorted((Path(place.root) / "_delta_log").glob("*.json")) if not place.is_bucket else []
    if commits and commits[-1].stat().st_size == 0:
        log.warning("the lake's last commit was empty, and its events are written again", commit=str(commits[-1]))
        mended = commits[-1].with_suffix(".mended")
        mended.write_text(json.dumps({"commitInfo": {"operation": "MEND", "timestamp": int(time.time() * 1000)}}))
        mended.replace(commits[-1])


def _empty_commits(place: StorageLocation) -> list[Path]:
    folder = Path(place.root) / "_delta_log"
    if place.is_bucket or not folder.exists():  # a bucket has objects whole or not at all
        return []
    return sorted(
        Path(file.path) for file in os.scandir(folder) if file.name.endswith(".json") and not file.stat().st_size
    )


def _damaged(place: StorageLocation, what: str) -> LakeDamagedError:
    return LakeDamagedError(
        f"the lake at {place} is damaged: {what}. Put the file back, or move {place} away and start `waybill index run`,"
        " which fills it again from the store and the chains"
    )


def _plain(error: str) -> str:
    return " ".join(re.sub(r"\x1b\[\d*m", "", error).split())


def _meaning(error: str) -> str | None:
    text = _plain(error)
    if "S3 error" not in text and "Error performing" not in text:
        return None
    return next((meaning for sign, meaning in _SIGNS.items() if re.search(sign, text)), text)


def write_files(
    folder: StorageLocation,
    batches: Iterable[pa.RecordBatch],
    prefix: str = "part-",
    rows_in_a_group: int = _ROWS_IN_A_FILE,
) -> Iterator[dict[str, Any]]:
    """Writes rows to new files.

    Args:
        folder: of the Delta table.
        batches: `schemas.EVENTS`.
        prefix: how the files' names begin.
        rows_in_a_group: of which Parquet says the least and greatest values, so that readers can skip it.

    Yields:
        Per file, once its content lasts: `path` in the folder, `size` in bytes, and `stats`, Delta's statistics as
        JSON. No file counts until a commit names it.
    """
    rows: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        rows.append(batch)
        count += batch.num_rows
        if count >= _ROWS_IN_A_FILE:
            yield _write(folder, pa.Table.from_batches(rows, schemas.EVENTS), prefix, rows_in_a_group)
            rows, count = [], 0
    if rows:
        yield _write(folder, pa.Table.from_batches(rows, schemas.EVENTS), prefix, rows_in_a_group)


def _write(folder: StorageLocation, table: pa.Table, prefix: str, rows_in_a_group: int) -> dict[str, Any]:
    name = f"{prefix}{uuid.uuid4().hex}.parquet"
    with new_file(folder, name) as file:
        pq.write_table(
            table, file, compression="zstd", use_dictionary=list(_REPETITIVE), row_group_size=rows_in_a_group
        )
        size = file.tell()
    ranges = {column: pc.min_max(table[column]).as_py() for column in _STATISTICS_OF}
    stats = {
        "numRecords": table.num_rows,
        "minValues": {column: range_["min"] for column, range_ in ranges.items()},
        "maxValues": {column: range_["max"] for column, range_ in ranges.items()},
        "nullCount": dict.fromkeys(ranges, 0),
    }
    return {"path": name, "size": size, "stats": json.dumps(stats)}
