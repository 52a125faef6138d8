"""A paused GMP is shown wherever people look for what holds a message up, and trust in one is taken by commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS
from tests.anvil.command import Waybill, new_home

pytestmark = pytest.mark.long


def test_status_and_explain_name_a_paused_gmp_and_its_end(devnet: Devnet, tmp_path: Path) -> None:
    beta = devnet.deployment.chain("beta")
    waybill = Waybill(new_home(devnet, tmp_path))
    message_id = waybill.json("send", "--payload", "hello", "--gmps", "axelar")["messageId"]
    paused = waybill.json("gmp", "pause", "axelar", "--chains", "beta")
    until = paused["chains"][0]["pausedUntil"]
    try:
        status, told = waybill.json("status"), waybill("status").out
        explained = waybill("message", "show", message_id, "--json").value
        again = waybill("gmp", "pause", "axelar", "--chains", "beta", "--for", "2").out
    finally:
        waybill.json("gmp", "resume", "axelar")
    assert "pause axelar" in again
    assert status["gmpPauses"] == [{"gmp": "axelar", "chain": "beta", "until": until}]
    assert "GMP paused" in told
    assert explained["gmpPauses"] == [{"gmp": "axelar", "chainId": beta.chain_id, "until": until}]
    assert "on its destination, where its receipts do not count" in explained["reason"]
    assert waybill.json("status")["gmpPauses"] == []
    assert "paused" not in waybill("message", "show", message_id, "--json").value["reason"]


def test_owner_revokes_an_adapter_and_sets_a_floor(devnet: Devnet, tmp_path: Path) -> None:
    waybill = Waybill(new_home(devnet, tmp_path))
    stranger = waybill("gmp", "floor", "alpha", "beta", "3", "--key", ANVIL_KEYS[8], "--json")
    assert stranger.code == 1
    assert "sign as the router's revoker or owner" in stranger.value["chains"][0]["error"]
    (raised,) = waybill.json("gmp", "floor", "alpha", "beta", "3")["chains"]
    assert (list(raised["transactions"]), raised["floor"]) == (["floor 3"], 3)
    assert waybill.json("gmp", "floor", "alpha", "beta", "3")["chains"][0]["transactions"] == {}, "it is so already"
    waybill.json("gmp", "floor", "alpha", "beta", "1")
    (revoked,) = waybill.json("gmp", "revoke", "ccip", "--chains", "beta")["chains"]
    assert (list(revoked["transactions"]), revoked["adapter"]) == (["adapter of ccip revoked"], None)
    assert waybill("gmp", "revoke", "ccip", "--chains", "beta").code == 0
