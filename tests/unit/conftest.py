"""What several folders of unit tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgresql import Server, running_postgresql


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """A PostgreSQL server for all tests of a run; each takes a schema of its own (`new_url`)."""
    with running_postgresql() as server:
        yield server
