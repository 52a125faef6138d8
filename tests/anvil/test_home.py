"""What a devnet and a deployment write stays in their folder: a newcomer's home is as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.anvil.command import Waybill
from tests.anvil.rpc import free_ports

pytestmark = pytest.mark.long


def test_a_devnet_writes_nothing_into_the_users_home(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "a folder"
    home.mkdir()
    folder.mkdir()
    waybill, told = Waybill(folder), {"HOME": str(home), "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""}
    (port,) = free_ports(2)[:1]
    up = waybill("devnet", "up", "--port", str(port), **told)
    try:
        assert up.code == 0, up.err
        assert waybill("doctor", **told).code == 0
        assert waybill("send", "--payload", "hello", **told).code == 0
    finally:
        assert waybill("devnet", "down", **told).code == 0
    assert [str(path.relative_to(home)) for path in home.rglob("*")] == []
