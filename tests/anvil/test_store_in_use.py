"""`waybill store restore` beside a relayer: refused while it works on the store, also by a relayer that starts meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.devnet import Devnet
from tests.anvil.command import Waybill, new_home
from tests.anvil.relayers import process

pytestmark = pytest.mark.long


async def test_a_store_is_not_restored_below_a_relayer_at_work(devnet: Devnet, tmp_path: Path) -> None:
    home = new_home(devnet, tmp_path)
    waybill, copy = Waybill(home), str(tmp_path / "copy.db")
    with process(home, home / "relayer.log") as relayer:
        await relayer.is_at_work()
        waybill.json("store", "backup", copy)
        refused = waybill("store", "restore", copy, "--replace")
        assert refused.code == 1
        assert f":{relayer.pid}:" in refused.err.replace("\n", "")
        assert relayer.is_running, relayer.log
        relayer.kill()
    assert waybill("store", "restore", copy, "--replace").code == 0
