"""Where the owner's key is in a wallet that Foundry's `cast` knows: its scripts deploy what is missing, and nobody else's.

No hardware wallet was tried: a key stands in for it, in the one place of a script that names the wallet.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.deploy.artifacts import CHECKOUT
from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS
from bridge.protocol.contracts import ROUTER
from tests.anvil.test_deploying import OWNER_KEY, heads, plan, read
from tests.unit.cli.command import Command


def sh(file: Path, url: str, key: str) -> subprocess.CompletedProcess[str]:
    """Runs a script as its first lines say, with a key in place of the wallet."""
    variables = {"CAST": str(CHECKOUT / "build" / "tools" / "bin" / "cast"), "WALLET": f"--private-key {key}"}
    return subprocess.run(
        ["sh", str(file), url], env=os.environ | variables, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def deploy(
    devnet: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[], Any]:
    """`waybill deploy --cast ledger`, as JSON, in a new home without a key."""
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    monkeypatch.delenv("WAYBILL_KEY", raising=False)
    (tmp_path / "networks").mkdir()
    (tmp_path / "networks" / "second.json").write_text(plan(devnet).to_json())
    waybill = Command(monkeypatch, capsys)

    def run() -> Any:
        ended = waybill("deploy", "--network", "second", "--cast", "ledger", "--json")
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    return run


def test_the_scripts_deploy_and_then_nothing_is_missing(
    devnet: Devnet, tmp_path: Path, deploy: Callable[[], Any]
) -> None:
    urls = {chain.name: chain.url for chain in devnet.chains}
    before = heads(devnet)
    scripts = deploy()
    assert {script["chain"] for script in scripts} == set(urls)
    assert heads(devnet) == before, "the command sends nothing"

    stranger = sh(Path(scripts[0]["file"]), urls[scripts[0]["chain"]], ANVIL_KEYS[8])
    assert stranger.returncode != 0, "a wallet that is not the owner's is refused"
    assert heads(devnet) == before

    half = tmp_path / "half.sh"  # a run that was interrupted
    lines = Path(scripts[0]["file"]).read_text().splitlines()
    sends = [number for number, line in enumerate(lines) if line.startswith("send '")]
    half.write_text("\n".join(lines[: sends[3]]) + "\n")
    assert sh(half, urls[scripts[0]["chain"]], OWNER_KEY).returncode == 0
    left = deploy()
    assert left[0]["transactions"] == scripts[0]["transactions"][3:]

    for script in left:
        done = sh(Path(script["file"]), urls[script["chain"]], OWNER_KEY)
        assert done.returncode == 0, done.stderr
        assert len(done.stderr.splitlines()) == len(script["transactions"])
    assert deploy()["chains"] == {chain.name: [] for chain in devnet.deployment.chains}
    document = json.loads((tmp_path / "deployments" / "second.json").read_text())
    for place, written in enumerate(document["chains"]):
        other = document["chains"][1 - place]
        assert read(devnet, place, written["router"], ROUTER, "floorOf", other["chainId"]) == 2
    assert deploy()["changed"] is False


def test_a_script_ends_at_the_first_transaction_that_fails(devnet: Devnet, deploy: Callable[[], Any]) -> None:
    script = deploy()[0]
    url = next(chain.url for chain in devnet.chains if chain.name == script["chain"])
    file = Path(script["file"])
    words = [line.split() for line in file.read_text().splitlines() if line.startswith("send '")]
    starved = file.read_text().replace(f" {words[0][-3]} ", f" {int(words[0][-3]) // 2} ", 1)  # gas of the first
    file.write_text(starved)
    done = sh(file, url, OWNER_KEY)
    assert done.returncode == 1
    assert len([line for line in done.stderr.splitlines() if " of " in line]) == 1


def test_a_safe_and_a_wallet_are_not_both_asked_to_sign(
    devnet: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    (tmp_path / "networks").mkdir()
    (tmp_path / "networks" / "second.json").write_text(plan(devnet).to_json())
    words = ("deploy", "--network", "second", "--cast", "ledger", "--safe", f"0x{'11' * 20}")
    ended = Command(monkeypatch, capsys)(*words)
    assert ended.code == 2
    assert "--safe and --cast are two ways to sign" in ended.err
