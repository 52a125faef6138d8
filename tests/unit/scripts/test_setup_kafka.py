"""The broker's jars are those of the lock, or none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts import setup_kafka
from scripts.setup_kafka import LOCK, Jar, digest_of, fetch, read_lock

ONE, OTHER = ("org", "one", "1"), ("org", "other", "2")


def bring(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def resolve(wanted: Sequence[Jar], to: Path, *, transitive: bool) -> dict[Jar, Path]:
        assert not transitive
        for _, name, _ in wanted:
            (to / f"{name}.jar").write_text(name)
        return {jar: to / f"{jar[1]}.jar" for jar in wanted}

    monkeypatch.setattr(setup_kafka, "resolve", resolve)
    monkeypatch.setattr(setup_kafka, "HOME", folder / "kafka")
    monkeypatch.setattr(setup_kafka, "JARS", folder / "kafka" / "jars")


def test_the_lock_names_a_broker_by_version_and_hash_and_no_address() -> None:
    locked = read_lock()
    assert ("org.apache.kafka", "kafka_2.13", "4.4.0") in locked
    assert all(len(digest) == 64 for digest in locked.values())
    assert "://" not in LOCK.read_text()


def test_jars_with_their_hashes_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bring(monkeypatch, tmp_path)
    (tmp_path / "known").write_text("one")
    fetch({ONE: digest_of(tmp_path / "known")})
    assert [path.name for path in (tmp_path / "kafka" / "jars").iterdir()] == ["one.jar"]


def test_a_jar_with_another_hash_is_named_and_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bring(monkeypatch, tmp_path)
    (tmp_path / "known").write_text("one")
    with pytest.raises(SystemExit, match="org:other:2: the hash is not the one"):
        fetch({ONE: digest_of(tmp_path / "known"), OTHER: "0" * 64})
    assert not (tmp_path / "kafka").exists()
