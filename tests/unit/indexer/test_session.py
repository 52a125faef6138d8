"""How Java is started: which compilers it uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from indexer.lake.lake import FinalBlocks, Lake, events_in
from indexer.model import schemas
from indexer.model.storage_location import StorageLocation
from indexer.spark import session


@pytest.mark.parametrize(("events", "once"), [(0, True), (1_999_999, True), (2_000_000, False)])
def test_the_second_compiler_is_used_from_two_million_events_on(
    events: int, *, once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, str] = {}

    @contextmanager
    def started(_master: None, _settings: Any, here: dict[str, str], _log: None) -> Iterator[None]:
        found.update(here)
        yield

    monkeypatch.setattr(session, "_started", started)
    with session.batch_session(events=events):
        assert ("TieredStopAtLevel=1" in found["spark.driver.extraJavaOptions"]) is once


def test_a_lake_says_how_many_events_it_has_and_none_if_there_is_none(tmp_path: Path) -> None:
    place = StorageLocation.of(tmp_path / "lake")
    assert events_in(place) == 0
    lake = Lake(place)
    assert events_in(place) == 0
    rows = [{"chain_id": 1, "block_number": number, "log_index": 0} for number in range(3)]
    lake.append(pa.Table.from_pylist(rows, schema=schemas.EVENTS), {1: FinalBlocks(0, 9, b"9")})
    assert events_in(place) == 3
