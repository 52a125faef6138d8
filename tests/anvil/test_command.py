"""The command against real chains: what a user types, what comes back, and which exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from eth_account import Account

from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS
from tests.anvil.command import Waybill, new_home

pytestmark = pytest.mark.long

FAILED, UNKNOWN_ID, PENDING = 1, 3, 4
STRANGER_KEY = ANVIL_KEYS[5]


@pytest.fixture
def waybill(devnet: Devnet, tmp_path: Path) -> Waybill:
    """The command on the suite's devnet, with stores of its own."""
    return Waybill(new_home(devnet, tmp_path))


def test_message_is_sent_and_shown_without_relayer_or_index(waybill: Waybill) -> None:
    sent = waybill.json("send", "--payload", "hello", "--gmps", "hyperlane,wormhole", "--quorum", "2")
    assert sent["gmps"] == ["hyperlane", "wormhole"]
    assert sent["fee"] > 0
    shown = waybill.json("message", "show", sent["messageId"])
    assert shown["status"] == "ROUTED"
    assert shown["message"]["payload"] == "0x" + b"hello".hex()
    assert shown["reason"].startswith("0 of 2 GMPs have delivered")
    explained = waybill("message", "show", sent["messageId"])
    assert explained.code == 0
    assert "ROUTED" in explained.out


def test_waiting_in_vain_ends_with_pending_and_the_next_command(waybill: Waybill) -> None:
    ended = waybill("send", "--payload", "x", "--gmps", "axelar", "--wait", "--timeout", "0.5")
    assert ended.code == PENDING
    assert "not executed after 0.5 s: 0 of 1 GMPs have delivered" in ended.err
    assert "waybill message show 0x" in ended.err


def test_a_retry_goes_over_the_gmps_that_have_not_been_tried(waybill: Waybill) -> None:
    sent = waybill.json("send", "--payload", "x", "--gmps", "axelar")
    retried = waybill.json("message", "retry", sent["messageId"], "--gmps", "wormhole,hyperlane")
    assert (retried["attempt"], retried["gmps"]) == (1, ["hyperlane", "wormhole"])


def test_keystore_sender_can_use_every_sender_command(waybill: Waybill, tmp_path: Path) -> None:
    keystore, password = tmp_path / "sender.json", tmp_path / "sender.password"
    keystore.write_text(
        json.dumps(Account.encrypt(bytes.fromhex(STRANGER_KEY[2:]), "secret", kdf="pbkdf2", iterations=2))
    )
    password.write_text("secret\n")
    (waybill.home / "waybill.toml").write_text(
        f'[accounts.dapp]\nkeystore = "{keystore}"\npassword_file = "{password}"\n'
    )
    signed = ("--signer", "dapp")
    sent = waybill.json("send", "--payload", "x", "--gmps", "axelar", *signed)
    foreign = waybill("message", "retry", sent["messageId"], "--gmps", "wormhole")
    assert (foreign.code, "NotSenderOrRetrier" in foreign.err) == (FAILED, True), foreign.err
    assert waybill.json("message", "retry", sent["messageId"], "--gmps", "wormhole", *signed)["attempt"] == 1
    assert waybill.json("message", "cancel", sent["messageId"], "--gmps", "hyperlane", *signed)["gmps"] == ["hyperlane"]


@pytest.mark.parametrize("command", ["show", "retry", "execute"])
def test_an_id_that_does_not_exist_ends_with_unknown_id(waybill: Waybill, command: str) -> None:
    ended = waybill("message", command, "0x" + "ab" * 32, "--json")
    assert ended.code == UNKNOWN_ID
    assert json.loads(ended.err)["error"]["code"] == "UNKNOWN_ID"


def test_status_names_the_chains_and_says_when_nothing_runs(waybill: Waybill) -> None:
    ended = waybill("status")
    assert ended.code == 0
    assert "alpha" in ended.out
    assert "no relayer has run" in ended.out
    assert "no index has run" in ended.out


def test_cancelled_message_can_not_be_retried(waybill: Waybill) -> None:
    sent = waybill.json("send", "--payload", "x", "--gmps", "axelar")
    cancelled = waybill.json("message", "cancel", sent["messageId"], "--gmps", "wormhole,hyperlane")
    assert cancelled["gmps"] == ["hyperlane", "wormhole"]
    assert cancelled["fee"] > 0
    about = waybill.json("message", "show", cancelled["cancellation"])
    assert about["message"]["kind"] == "CANCELLATION"
    refused = waybill("message", "retry", sent["messageId"], "--gmps", "wormhole")
    assert refused.code == FAILED
    assert "Cancelled" in refused.err
