"""The files of a place. In a bucket, deltalake's own client reads, writes and commits: one set of credentials and retries."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from indexer.errors import LakeFileLostError, LakeUnreachableError
from indexer.place import Place

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


def files_of(place: Place) -> FileSystem:
    """The files in a place, by their names there."""
    if place.is_bucket:
        return PyFileSystem(DeltaStorageHandler(place.root, place.options))
    return SubTreeFileSystem(place.root, LocalFileSystem())


@contextmanager
def new_file(place: Place, name: str) -> Iterator[pa.NativeFile]:
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


@contextmanager
def explained(place: Place) -> Iterator[None]:
    """Says in plain words what S3 answered, or which file is not there.

    Raises:
        LakeFileLostError: a file that the lake's commits name is gone.
        LakeUnreachableError: the bucket is not there, refuses, or does not answer.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise LakeFileLostError(
            f"the lake lacks a file that its commits name ({_plain(str(error))}): put it back, or delete {place} and start "
            "`waybill index run`, which fills it again from the store and the chains"
        ) from error
    except (OSError, DeltaError) as error:
        if not place.is_bucket or (meaning := _meaning(str(error))) is None:
            raise
        raise LakeUnreachableError(f"the lake at {place} can't be used: {meaning}") from error


def _plain(error: str) -> str:
    return " ".join(re.sub(r"\x1b\[\d*m", "", error).split())


def _meaning(error: str) -> str | None:
    text = _plain(error)
    if "S3 error" not in text and "Error performing" not in text:
        return None
    return next((meaning for sign, meaning in _SIGNS.items() if re.search(sign, text)), text)
