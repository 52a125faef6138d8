"""Files of a Delta table, and errors that state which file is damaged."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from indexer.model.errors import LakeDamagedError, LakeUnreachableError
from indexer.model.storage_location import StorageLocation

_SIGNS: Final = {
    # Error texts of S3 servers, and of deltalake's client if there is no answer, in the order in which they are matched.
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
"""Errors that are not caused by a file's content."""


def files_of(place: StorageLocation) -> FileSystem:
    """Returns the file system of a location."""
    if place.is_bucket:
        return PyFileSystem(DeltaStorageHandler(place.root, place.options))
    return SubTreeFileSystem(place.root, LocalFileSystem())


def files_in(table: DeltaTable, place: StorageLocation) -> list[str]:
    """Returns the files of a table's version, as paths on this machine or URLs in a bucket."""
    uris = table.file_uris()
    return uris if place.is_bucket else [unquote(uri.removeprefix("file://")) for uri in uris]


def root_of(table: DeltaTable) -> str:
    """Returns the absolute path of a table on this machine, with a trailing slash."""
    return unquote(table.table_uri.removeprefix("file://")).rstrip("/") + "/"


@contextmanager
def explained(*places: StorageLocation) -> Iterator[None]:
    """Translates errors of S3 and of damaged tables to errors that state the cause or the file, and the next step.

    Raises:
        LakeDamagedError: a file in the lake's commits is missing or can't be read.
        LakeUnreachableError: the bucket does not exist, denies access, or does not respond.
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
    """Checks that files on this machine exist. The engine's own error would state neither the lake nor the next step.

    Raises:
        LakeDamagedError: a file is missing.
    """
    if not folder.is_bucket:
        with explained(folder):
            for path in files:
                if not Path(path.removeprefix("file://")).exists():
                    raise FileNotFoundError(path)


def damages(place: StorageLocation) -> Iterator[str]:
    """Yields a description of each damaged file of a table on this machine. Yields nothing for a bucket."""
    folder = Path(place.root) / "_delta_log"
    if place.is_bucket or not folder.exists():
        return
    for commit in sorted(folder.glob("*.json")):
        try:
            for line in commit.read_text().splitlines():
                json.loads(line)
            if not commit.stat().st_size:
                yield f"{commit} is empty"
                return
        except (OSError, ValueError):
            yield f"{commit} is not a complete commit"
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
            yield f"{path} is not a complete Parquet file"


def _damaged(place: StorageLocation, what: str) -> LakeDamagedError:
    return LakeDamagedError(
        f"the lake at {place} is damaged: {what}. Restore the file, or move {place} away and start `waybill index run`,"
        " which fills it again from the store and the chains"
    )


def _plain(error: str) -> str:
    return " ".join(re.sub(r"\x1b\[\d*m", "", error).split())


def _meaning(error: str) -> str | None:
    text = _plain(error)
    if "S3 error" not in text and "Error performing" not in text:
        return None
    return next((meaning for sign, meaning in _SIGNS.items() if re.search(sign, text)), text)
