"""The command against real chains: what a user types, what comes back, and which exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from eth_account import Account

from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS
from indexer.model import schemas
from indexer.sources.position import ChainPosition
from indexer.store.blocks import BlockRange
from indexer.store.store import Store
from tests.anvil.command import Waybill, new_home

pytestmark = pytest.mark.long

FAILED, USAGE, UNKNOWN_ID, PENDING = 1, 2, 3, 4
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


def test_the_same_send_twice_makes_two_messages(waybill: Waybill) -> None:
    first, second = (waybill.json("send", "--payload", "hello", "--gmps", "wormhole") for _ in range(2))
    assert first["messageId"] != second["messageId"]
    assert second["nonce"] == first["nonce"] + 1


def test_message_ttl_follows_its_kind_and_asset_class(devnet: Devnet, waybill: Waybill) -> None:
    inbox = devnet.deployment.chain("beta").examples["inbox"]
    classes = {"WAYBILL_ASSET_CLASSES": json.dumps({"regulatory": {"members": {"beta": [inbox]}}})}
    send = ("send", "--payload", "x", "--gmps", "axelar", "--kind", "lock_management")
    assert waybill.json(*send)["ttl"] == 120
    assert waybill.json(*send, **classes)["ttl"] == 600
    assert waybill.json(*send, "--ttl", "700", **classes)["ttl"] == 700
    short = waybill.json(*send, "--ttl", "60")
    explained = json.loads(waybill("message", "show", short["messageId"], "--json", **classes).out)
    assert explained["belowAssetClass"] == {"name": "regulatory", "minTtl": 600}


def test_waiting_in_vain_ends_with_pending_and_the_next_command(waybill: Waybill) -> None:
    ended = waybill("send", "--payload", "x", "--gmps", "axelar", "--wait", "--timeout", "0.5")
    assert ended.code == PENDING
    assert "not executed after 0.5 s: 0 of 1 GMPs have delivered" in ended.err
    assert "waybill message show 0x" in ended.err


def test_a_retry_goes_over_the_gmps_that_have_not_been_tried(waybill: Waybill) -> None:
    sent = waybill.json("send", "--payload", "x", "--gmps", "axelar")
    retried = waybill.json("message", "retry", sent["messageId"], "--gmps", "wormhole,hyperlane")
    assert (retried["attempt"], retried["gmps"]) == (1, ["hyperlane", "wormhole"])


def test_a_stranger_can_not_retry(waybill: Waybill) -> None:
    sent = waybill.json("send", "--payload", "x", "--gmps", "axelar")
    ended = waybill("message", "retry", sent["messageId"], "--gmps", "wormhole", "--key", STRANGER_KEY)
    assert ended.code == FAILED
    assert "NotSenderOrRetrier" in ended.err


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


def test_a_message_without_its_quorum_can_not_be_executed(waybill: Waybill) -> None:
    sent = waybill.json("send", "--payload", "x", "--gmps", "axelar")
    ended = waybill("message", "execute", sent["messageId"])
    assert ended.code == FAILED
    assert "QuorumNotReached" in ended.err


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


def test_watch_prints_changes_and_ends_as_pending(waybill: Waybill) -> None:
    sent = waybill.json("send", "--payload", "x", "--gmps", "axelar")
    ended = waybill("message", "watch", sent["messageId"], "--timeout", "1.5")
    assert ended.code == PENDING
    assert "ROUTED  0 of 1 GMPs have delivered" in ended.out
    assert ended.out.count("ROUTED") == 1
    assert "next" in ended.err


def test_stale_index_says_how_far_behind_it_is(waybill: Waybill, devnet: Devnet) -> None:
    sent = waybill.json("send", "--payload", "hello", "--gmps", "axelar")
    store = Store(f"sqlite:///{waybill.home / '.waybill' / 'devnet' / 'index.db'}")
    for chain_id in (chain.chain_id for chain in devnet.deployment.chains):
        range_ = BlockRange(
            first=0,
            parent_hash=None,
            position=ChainPosition.before(1),
            block_hash=bytes(32),
            block_time=1_000_000,
            head_block=0,
        )
        store.apply(schemas.EVENTS.empty_table(), {chain_id: range_})
    store.close()
    behind = waybill.json("message", "show", sent["messageId"])["indexBehind"]
    assert len(behind) == 2
    assert all(one["blocks"] > 0 and one["seconds"] > 1_000_000 for one in behind)
    assert "BEHIND: alpha: block" in waybill("message", "show", sent["messageId"]).out
