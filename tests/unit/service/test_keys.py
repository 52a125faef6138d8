"""A relayer starts with the keys that its settings name, wherever they are, and says at once which are missing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from eth_account import Account

from bridge.evm.settings import SignerSource
from bridge.service.keys import open_sealer, paying_signers
from bridge.service.settings import Settings
from bridge.service.startup_checks import check_relayer
from bridge.settings import SettingsError
from tests.unit.cli.network import write_network

KEY, OTHER = "0x" + "11" * 32, "0x" + "22" * 32
REMOTE = SignerSource(remote="http://127.0.0.1:9000", address=f"0x{170:040x}")
PAGE = Path(__file__).parents[3] / "docs" / "operate" / "relayer.md"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WAYBILL_RELAYER_KEY", raising=False)


def test_documented_settings_file_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "waybill.toml").write_text(example)
    (tmp_path / "keys").mkdir()
    locked = Account.encrypt(bytes.fromhex(KEY[2:]), "word", kdf="pbkdf2", iterations=1_000)
    (tmp_path / "keys/relayer.json").write_text(json.dumps(locked))
    (tmp_path / "keys/relayer.password").write_text("word")
    monkeypatch.chdir(tmp_path)
    settings, network = Settings.load(tmp_path / "waybill.toml"), write_network(tmp_path)
    mine = Account.from_key(KEY).address
    assert open_sealer(settings).address == mine
    paying = paying_signers(settings, network).items()
    assert {chain: [signer.address for signer in signers] for chain, signers in paying} == {
        31337: [mine, REMOTE.address],
        31338: [mine],
    }


def test_letters_are_sealed_with_the_most_specific_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    accounts = {"remote": REMOTE, "local": SignerSource(environment="SOME_KEY")}
    for settings, key in (
        (Settings.load(signers=list(accounts), accounts=accounts), KEY),
        (Settings.load(signers=list(accounts), accounts=accounts, relayer_key=OTHER), OTHER),
        (Settings.load(signers=list(accounts), accounts=accounts, relayer_key=KEY, dlq={"key": OTHER}), OTHER),
    ):
        assert open_sealer(settings).address == Account.from_key(key).address


def test_keys_that_nobody_named_are_all_listed(tmp_path: Path) -> None:
    network = write_network(tmp_path)
    with pytest.raises(SettingsError) as caught:
        check_relayer(Settings.load(), network, has_attesters=True)
    for missing in ("deliveries to alpha", "deliveries to beta", "no key to seal dead letters with"):
        assert missing in str(caught.value)
    settings = Settings.load(signers="remote", accounts={"remote": REMOTE})
    with pytest.raises(SettingsError, match="no key to seal") as sealing:
        check_relayer(settings, network, has_attesters=True)
    assert "deliveries" not in str(sealing.value)
