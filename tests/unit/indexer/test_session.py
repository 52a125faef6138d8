"""How Java is started: which compilers it uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

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
