"""Delta Lake for Spark: two jars from Maven Central, pinned by hash.

`make setup` downloads them to the repository's `build/jars`. An installed index downloads them to the user's
cache folder when it first starts Spark.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from bridge.protocol.environment import cache_folder

_REPOSITORY: Final = "https://repo1.maven.org/maven2"
_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_TIMEOUT: Final = 60.0  # seconds without a response


class JarsMissingError(RuntimeError):
    """A jar is missing and can't be downloaded, or has the wrong hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One pinned jar."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        """Returns the file name."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def url(self) -> str:
        """Returns the URL at Maven Central."""
        return f"{_REPOSITORY}/{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


DELTA: Final = (
    Jar(
        group="io.delta",
        artifact="delta-spark_4.2_2.13",
        version="4.4.0",
        sha256="27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    ),
    Jar(
        group="io.delta",
        artifact="delta-storage",
        version="4.4.0",
        sha256="c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
)


def jars_folder() -> Path:
    """Returns the repository's `build/jars` in a checkout, otherwise the user's cache folder."""
    if (_CHECKOUT / "pyproject.toml").exists():
        return _CHECKOUT / "build" / "jars"
    return cache_folder() / "jars"


def delta_jars() -> list[Path]:
    """Returns the paths of the jars, and downloads missing ones.

    Raises:
        JarsMissingError: a jar can't be downloaded, or differs from the pinned one.
    """
    return [_present(jar, jars_folder()) for jar in DELTA]


def _present(jar: Jar, folder: Path) -> Path:
    path = folder / jar.name
    if not path.exists():
        _fetch(jar, path)
    if (found := _hash_of(path)) != jar.sha256:
        raise JarsMissingError(
            f"{path} has SHA-256 {found}, but {jar.name} is pinned to {jar.sha256}: delete the file, and the next "
            "start downloads it again"
        )
    return path


def _fetch(jar: Jar, path: Path) -> None:
    """Downloads a jar to a temporary file, and renames it once it is complete."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            urlopen(jar.url, timeout=_TIMEOUT) as answer,  # noqa: S310  a constant https URL
            tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file,
        ):
            file.write(answer.read())
    except OSError as error:
        raise JarsMissingError(
            f"the index needs {jar.name}, which can't be downloaded: {error}. Download {jar.url} on a machine with internet access, "
            f"and copy it to {path.parent}"
        ) from error
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
