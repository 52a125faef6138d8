"""Every test of the store's contract runs on every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.records import Store
from bridge.store import open_store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store("memory" if request.param == "memory" else f"sqlite:///{tmp_path}/bridge.db")
    yield opened
    opened.close()
