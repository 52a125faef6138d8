"""Every test of the store's contract runs on every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.store import Store, open_store
from tests.postgresql import Server

SQLITE, POSTGRESQL = "sqlite", "postgresql"


@pytest.fixture(params=[SQLITE, POSTGRESQL])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(url_of(request.param, request, tmp_path))
    yield opened
    opened.close()


@pytest.fixture(params=[SQLITE, POSTGRESQL])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind."""
    return url_of(request.param, request, tmp_path)


def url_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    if kind == SQLITE:
        return f"sqlite:///{folder}/bridge.db"
    server: Server = request.getfixturevalue("postgresql")
    return server.new_url()
