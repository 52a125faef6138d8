"""A paused GMP is shown wherever people look for what holds a message up."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.devnet import Devnet
from tests.anvil.command import Waybill, new_home

pytestmark = pytest.mark.timeout(300)


def test_status_doctor_and_explain_name_a_paused_gmp_and_its_end(devnet: Devnet, tmp_path: Path) -> None:
    beta = devnet.deployment.chain("beta")
    waybill = Waybill(new_home(devnet, tmp_path))
    message_id = waybill.json("send", "--payload", "hello", "--gmps", "axelar")["messageId"]
    paused = waybill.json("gmp", "pause", "axelar", "--chains", "beta")
    until = paused["chains"][0]["pausedUntil"]
    try:
        status, told = waybill.json("status"), waybill("status").out
        doctor = waybill("doctor", "--json").value
        explained = waybill("message", "explain", message_id, "--json").value
    finally:
        waybill.json("gmp", "resume", "axelar")
    assert status["gmpPauses"] == [{"gmp": "axelar", "chain": "beta", "until": until}]
    assert "GMP paused" in told
    (row,) = [one for one in doctor if one["check"] == "GMPs on beta"]
    assert row["verdict"] == "warning"
    assert row["found"].startswith("axelar is paused until ")
    assert explained["gmpPauses"] == [{"gmp": "axelar", "chain": beta.chain_id, "until": until}]
    assert "on its destination, where its receipts do not count" in explained["reason"]
    assert waybill.json("status")["gmpPauses"] == []
    assert "paused" not in waybill("message", "explain", message_id, "--json").value["reason"]
