"""`waybill rehearse` names a chain that can't be forked, before it starts anything."""

from __future__ import annotations

import signal
import tomllib
from pathlib import Path

import pytest

from bridge.devnet import fetch
from tests.unit.cli.command import Command
from tests.unit.cli.nodes import node, nodes
from tests.unit.cli.test_network import PRICES, ROLES, WITHOUT_GAPS
from tests.unit.evm.rpc_server import Answer, Behaviour

SEPOLIA, BASE_SEPOLIA = 11155111, 84532
_NEXT = "name an endpoint that is up and serves state"


def whole(method: str, params: list[object]) -> Answer:
    """A node with fees."""
    if method == "eth_maxPriorityFeePerGas":
        return {"result": "0x1"}
    answer = node()(method, params)
    assert isinstance(answer, dict)
    if method == "eth_getBlockByNumber":
        answer["result"]["baseFeePerGas"] = "0x1"
    return answer


def without_state(method: str, params: list[object]) -> Answer:
    if method == "eth_call":
        return {"error": {"code": -32000, "message": "missing trie node 1a2b (path ) state is not available"}}
    return whole(method, params)


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    for name, value in (ROLES | PRICES).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process keeps its own
    return Command(monkeypatch, capsys)


@pytest.mark.parametrize(
    ("chain_id", "behaviour", "found"),
    [
        (SEPOLIA, whole, "serves chain 11155111, but the deployment says base-sepolia (84532); correct rpcUrls"),
        (BASE_SEPOLIA, without_state, "state is not available"),
    ],
)
def test_a_chain_that_can_not_be_forked_is_named_with_each_endpoints_reason(
    waybill: Command,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    chain_id: int,
    behaviour: Behaviour,
    found: str,
) -> None:
    waybill("network", "create", "testnet", *WITHOUT_GAPS)
    with nodes((SEPOLIA, whole), (chain_id, behaviour)) as (good, bad):
        for number in (1, 2, 3):
            monkeypatch.setenv(f"SEPOLIA_RPC_{number}", f"{good}?{number}")
            monkeypatch.setenv(f"BASE_SEPOLIA_RPC_{number}", f"{bad}?secret={number}")
        monkeypatch.setenv("BASE_SEPOLIA_RPC_2", "http://127.0.0.1:1/secret")
        ended = waybill("rehearse", str(tmp_path / "networks" / "testnet.json"), "--json")
    assert ended.code == 1
    message = ended.error["message"]
    assert message.startswith("chain 'base-sepolia' can't be forked")
    assert found in message
    assert "no RPC endpoint of base-sepolia (84532) answers: http://127.0.0.1:1/…: " in message
    assert _NEXT in message
    assert "secret" not in ended.err


@pytest.mark.parametrize(
    ("chain_id", "url"), [(SEPOLIA, "{bad}?{number}"), (BASE_SEPOLIA, "http://one-host.invalid/{number}")]
)
def test_before_the_first_deployment_an_endpoint_that_does_not_do_is_mended_in_the_network_file(
    waybill: Command, monkeypatch: pytest.MonkeyPatch, chain_id: int, url: str
) -> None:
    waybill("network", "create", "testnet", *WITHOUT_GAPS)
    with nodes((SEPOLIA, whole), (chain_id, whole)) as (good, bad):
        for number in (1, 2, 3):
            monkeypatch.setenv(f"SEPOLIA_RPC_{number}", f"{good}?{number}")
            monkeypatch.setenv(f"BASE_SEPOLIA_RPC_{number}", url.format(bad=bad, number=number))
        ended = waybill("deploy", "--network", "testnet", "--dry-run", "--json")
    assert ended.code == 1, ended.err
    assert "correct that chain's rpcUrls in" in ended.error["next"]
    is_one_host = "2 independent endpoints of base-sepolia have to agree, and 1 are named" in ended.err
    assert is_one_host is ("one-host" in url)
    assert "networks/testnet.json, or the variables it names, and type the same command again" in ended.error["next"]


def test_without_anvil_it_says_as_the_page_does_where_to_get_it(
    waybill: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waybill("network", "create", "testnet", *WITHOUT_GAPS)
    monkeypatch.setattr(fetch, "IS_CHECKOUT", False)
    monkeypatch.setattr(fetch, "ANVIL", tmp_path / "cache" / "anvil")
    monkeypatch.setenv("PATH", str(tmp_path))
    for number in (1, 2, 3):
        monkeypatch.setenv(f"SEPOLIA_RPC_{number}", f"https://{number}.example")
        monkeypatch.setenv(f"BASE_SEPOLIA_RPC_{number}", f"https://{number}.example")
    ended = waybill("rehearse", str(tmp_path / "networks" / "testnet.json"), "--json")
    page = " ".join((Path(__file__).parents[3] / "docs" / "testnet.md").read_text().split())
    pinned = tomllib.loads(fetch.PINS.read_text())["anvil"]
    assert ended.code == 1
    for said in ("1.7", "foundryup", "https://getfoundry.sh", pinned["name"], pinned["version"]):
        assert said in ended.error["message"]
        assert said in page
    assert ended.error["next"] == f"waybill rehearse {tmp_path}/networks/testnet.json"
