"""The whole relayer waits: what any part of it asks of a chain travels with the look at a new block."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.anvil.idle_relayer import idle_relayer

pytestmark = pytest.mark.long


def test_an_idle_relayer_makes_no_more_http_requests_than_there_are_blocks(tmp_path: Path) -> None:
    found = idle_relayer(tmp_path, block_time=1, seconds=20)
    assert found.blocks >= 10
    assert found.requests <= found.blocks + 2  # looks that found no new block yet
