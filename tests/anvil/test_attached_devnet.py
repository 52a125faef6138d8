"""`waybill devnet up --rpc`: a devnet on anvils that the user started."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from bridge.devnet.accounts import DAPP_KEY, DEPLOYER_KEY, account
from bridge.devnet.paths import ANVIL
from tests.anvil.command import Waybill
from tests.anvil.relayers import process
from tests.anvil.rpc import free_ports, rpc
from tests.waiting import eventually

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
FORGE = ANVIL.with_name("forge")


@contextmanager
def anvil(port: int, *options: str) -> Iterator[str]:
    """An anvil as a user starts it."""
    command = [str(ANVIL), "--port", str(port), "--silent", *options]
    with subprocess.Popen(command) as started:
        try:
            url = f"http://127.0.0.1:{port}"
            eventually(lambda: _answers(url), "anvil answers")
            yield url
        finally:
            started.kill()


def deployed_by_forge(url: str, home: Path) -> str:
    """The recipient that the script of docs/own-anvil.md deploys."""
    place = ROOT / "build" / "attached.json"
    place.write_text((home / "deployments" / "devnet.json").read_text())
    command = [
        str(FORGE),
        "script",
        "scripts/DeployInbox.s.sol",
        "--rpc-url",
        url,
        "--broadcast",
        "--private-key",
        DAPP_KEY,
    ]
    environment = {**os.environ, "DEPLOYMENT": "build/attached.json"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    found = re.search(r"inbox +(0x[0-9a-fA-F]{40})", done.stdout)
    assert found, done.stdout
    return found[1]


def _answers(url: str) -> bool:
    try:
        return bool(rpc(url, "eth_chainId"))
    except httpx.HTTPError:
        return False


@pytest.fixture
def waybill(tmp_path: Path) -> Iterator[Waybill]:
    command = Waybill(tmp_path, limit=180)
    yield command
    command("devnet", "down")


def test_one_anvil_gets_a_second_chain(waybill: Waybill, tmp_path: Path) -> None:
    """A message arrives on it; the command is idempotent, and begins again after a restart of the anvil."""
    (port,) = free_ports(1)
    with anvil(port) as url:
        up = waybill.json("devnet", "up", "--rpc", url)
        assert [(one["name"], one["chainId"]) for one in up["chains"]] == [("alpha", 31337), ("beta", 31338)]
        assert up["chains"][0]["url"] == url
        deployed = json.loads((tmp_path / "deployments" / "devnet.json").read_text())
        contracts = {(one["chain"], one["contract"]): one["address"] for one in up["contracts"]}
        assert contracts["alpha", "router"] == deployed["chains"][0]["router"]
        assert contracts["beta", "inbox"] == deployed["chains"][1]["examples"]["inbox"]
        assert rpc(url, "anvil_getIntervalMining") == 1, "or its clock would stand still, and no message would stall"
        sent = rpc(url, "eth_getTransactionCount", account(DEPLOYER_KEY).address, "latest")
        assert waybill.json("devnet", "up", "--rpc", url)["contracts"] == up["contracts"]
        assert [one["state"] for one in waybill.json("devnet", "status")] == ["running", "running"]
        assert rpc(url, "eth_getTransactionCount", account(DEPLOYER_KEY).address, "latest") == sent
        recipient = deployed_by_forge(url, tmp_path)
        with process(tmp_path, tmp_path / "relayer.log"):
            sent = waybill.json("send", "--payload", "hello", "--gmps", "hyperlane,axelar", "--wait")
            words = (
                "send",
                "--from",
                "beta",
                "--to",
                "alpha",
                "--recipient",
                recipient,
                "--payload",
                "hello",
                "--wait",
            )
            assert waybill.json(*words)["executed"]
        assert sent["executed"]
    with anvil(port) as url:
        assert waybill("devnet", "up", "--rpc", url).code == 0
        assert rpc(url, "eth_getCode", contracts["alpha", "router"], "latest") != "0x"


def test_what_is_not_a_devnet_is_refused(waybill: Waybill) -> None:
    """Nothing is deployed to a fork with a public chain's id, and a URL without a node is named."""
    port, closed = free_ports(2)
    with anvil(port, "--chain-id", "11155111") as url:
        refused = waybill("devnet", "up", "--rpc", url)
        assert (refused.code, "has the id of a public chain, 11155111" in refused.err) == (1, True)
        assert rpc(url, "eth_blockNumber") == "0x0"
    silent = waybill("devnet", "up", "--rpc", f"http://127.0.0.1:{closed}")
    assert (silent.code, f"http://127.0.0.1:{closed}" in silent.err) == (1, True)
