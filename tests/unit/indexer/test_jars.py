"""Delta's jars: pinned by hash, and fetched where they are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.spark import jars
from indexer.spark.jars import DELTA, JarsMissingError, delta_jars


def test_missing_jar_that_can_not_be_fetched_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "_REPOSITORY", "http://127.0.0.1:9")
    with pytest.raises(
        JarsMissingError, match=f"needs {DELTA[0].name}, which can't be fetched.* put it into {tmp_path}"
    ):
        delta_jars(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_jar_with_another_hash_is_refused(tmp_path: Path) -> None:
    (tmp_path / DELTA[0].name).write_bytes(b"not the pinned one")
    with pytest.raises(JarsMissingError, match="delete the file"):
        delta_jars(tmp_path)


def test_pinned_jars_are_accepted() -> None:
    assert [jar.name for jar in delta_jars()] == [jar.name for jar in DELTA]
