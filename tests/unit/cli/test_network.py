"""`waybill network`, and the plans that `waybill deploy` refuses before it asks any chain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bridge.deploy.addresses import address_table
from bridge.deploy.plan import NetworkPlan
from bridge.deploy.security import require_security
from bridge.protocol.gmps import Gmp
from tests.unit.cli.command import Command

ROOT = Path(__file__).resolve().parents[3]
ACCOUNT = "0x" + "ab" * 20
GUARDIANS = ("SEPOLIA_GUARDIAN", "BASE_SEPOLIA_GUARDIAN")
ROLES = dict.fromkeys(("OWNER", *GUARDIANS, "REVOKER", "TRIPWIRE"), ACCOUNT)
URLS = {f"{chain}_RPC_{n}": f"https://{n}.example/key" for chain in ("SEPOLIA", "BASE_SEPOLIA") for n in (1, 2, 3)}
TWO = ("--chains", "sepolia,base-sepolia")
WITHOUT_GAPS = (*TWO, "--gmps", "hyperlane,axelar,wormhole")


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    return Command(monkeypatch, capsys)


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the placeholders of roles, endpoints and prices."""
    for name, value in (ROLES | URLS).items():
        monkeypatch.setenv(name, value)


def changed(tmp_path: Path, path: tuple[str | int, ...], value: Any) -> None:
    """Puts a value into the network file, or takes one out."""
    file = tmp_path / "networks" / "testnet.json"
    document = target = json.loads(file.read_text())
    for key in path[:-1]:
        target = target[key]
    if value is None:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    file.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("create", "x", "--chains", "sepolia,pluto"), "'pluto' is not in the address table"),
        (("create", "x", "--chains", "sepolia,base"), "base cannot share a network with testnets"),
        (("create", "x", "--chains", "sepolia"), "at least two different chains"),
        (("create", "x", "--chains", "sepolia,sepolia"), "at least two different chains"),
        (("create", "X Y", *TWO), "'X Y' is not a network name"),
        (("create", "x", *TWO, "--gmps", "pigeon"), "pigeon"),
        (("create", "x", *TWO, "--gmps", "axelar"), "share axelar, but 2 GMPs must agree"),
    ],
)
def test_invalid_network_is_rejected_and_not_written(
    waybill: Command, tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    ended = waybill("network", *arguments, "--json")
    assert ended.code == 2
    assert complaint in ended.error["message"]
    assert not (tmp_path / "networks").exists()


def test_a_file_that_is_there_is_not_written_over(waybill: Command, tmp_path: Path) -> None:
    assert waybill("network", "create", "testnet", *TWO).code == 0
    before = (tmp_path / "networks" / "testnet.json").read_text()
    ended = waybill("network", "create", "testnet", "--chains", "sepolia,fuji", "--json")
    assert (ended.code, (tmp_path / "networks" / "testnet.json").read_text()) == (1, before)


def test_placeholders_are_listed_and_rejected_by_deploy(waybill: Command) -> None:
    created = json.loads(waybill("network", "create", "testnet", *TWO, "--json").out)
    assert "owner: ${OWNER}" in created["unset"]
    assert "chains.sepolia.rpcUrls.0: ${SEPOLIA_RPC_1}" in created["unset"]
    # CCIP's ramps are left to its router, and only one operator has a DVN on both.
    assert not any("ccip" in line for line in created["unset"])
    for chain, variable in (("sepolia", "SEPOLIA"), ("base-sepolia", "BASE_SEPOLIA")):
        second = f"chains.{chain}.verification.layerzero.requiredDvns.1: ${{{variable}_LAYERZERO_DVN_2}}"
        assert second in created["unset"], "both ends name the same operators"
    refused = waybill("deploy", "--network", "testnet", "--json")
    assert refused.error["next"].endswith("and run the same command again")
    assert refused.code == 2
    for line in created["unset"]:
        assert line in refused.error["message"]


def test_a_chain_that_a_registry_lacks_is_said_with_the_registry(waybill: Command) -> None:
    created = json.loads(waybill("network", "create", "l2s", "--chains", "scroll,mantle,base", "--json").out)
    registry = address_table().registries["wormhole"]
    assert created["missing"] == [f"wormhole on {chain}: {registry} does not have it" for chain in ("scroll", "mantle")]
    assert any(line.startswith("hyperlane: the Mailbox's default ISM") for line in created["defaults"])


def test_mainnet_plan_leaves_accounts_urls_and_ramps_open(waybill: Command, tmp_path: Path) -> None:
    created = json.loads(waybill("network", "create", "main", "--chains", "ethereum,base,arbitrum", "--json").out)
    assert not [line for line in created["unset"] if "LAYERZERO" in line]
    chains = json.loads((tmp_path / "networks" / "main.json").read_text())["chains"]
    for chain in chains:
        known = address_table().chain(chain["name"]).layerzero
        dvns = chain["verification"]["layerzero"]["requiredDvns"]
        assert dvns == [known.dvns["layerzero-labs"], known.dvns["nethermind"]]


@pytest.mark.usefixtures("accounts")
def test_plan_with_variables_keeps_urls_secret(waybill: Command, tmp_path: Path) -> None:
    waybill("network", "create", "testnet", *WITHOUT_GAPS)
    plan = NetworkPlan.read(tmp_path / "networks" / "testnet.json")
    assert plan.chains[0].rpc_urls[0] == "${SEPOLIA_RPC_1}"
    assert plan.chains[0].endpoints[0] == "https://1.example/key"
    assert (plan.owner.lower(), plan.floor) == (ACCOUNT, 2)
    for chain in plan.chains:
        for gmp in map(Gmp.parse, chain.gmps):
            assert chain.chosen(gmp) is None


@pytest.mark.usefixtures("accounts")
@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("chains", 0, "guardian"), None, "guardian: name the account that may pause on sepolia"),
        (("revoker",), None, "revoker: name the account that may revoke trust"),
        (("revoker",), None, "revoker: name the account"),
        (("tripwire",), None, "tripwire: name the account"),
        (("floor",), None, "floor: write the quorum"),
        (("chains", 0, "agreement"), None, "sepolia.agreement: write 2 or more"),
        (("chains", 0, "agreement"), 1, "sepolia.agreement: write 2 or more"),
        (("chains", 0, "agreement"), 4, "sepolia.rpcUrls: 4 endpoints must agree, but only 3 are listed"),
        (("chains", 1, "verification"), None, "base-sepolia.verification.hyperlane: write who verifies"),
        (("chains", 1, "verification", "axelar"), None, "base-sepolia.verification.axelar: write who verifies"),
        (("chains", 0, "gmps", "wormhole", "consistencyLevel"), None, "write 1 (final) or 201"),
        (("chains", 0, "gmps", "wormhole", "consistencyLevel"), 200, "write 1 (final) or 201"),
        (("chains", 0, "verification", "axelar"), {"validators": 3}, "this GMP has no verification options"),
        (("chains", 0, "verification", "ccip"), "default", "verification.ccip: the chain has no gmps.ccip"),
        (("chains", 0, "verification", "hyperlane"), {"ism": "0x12"}, "verification.hyperlane.ism"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_incomplete_public_plan_is_rejected_offline(
    waybill: Command,
    tmp_path: Path,
    path: tuple[str | int, ...],
    value: Any,
    complaint: str,
) -> None:
    waybill("network", "create", "testnet", *WITHOUT_GAPS)
    changed(tmp_path, path, value)
    ended = waybill("deploy", "--network", "testnet", "--key", "0x" + "11" * 32, "--json")
    assert ended.code == 2
    assert complaint in ended.error["message"]


def uln(*dvns: str) -> dict[str, Any]:
    return {"sendLibrary": ACCOUNT, "receiveLibrary": ACCOUNT, "requiredDvns": list(dvns), "confirmations": 12}


FIRST, SECOND = "0x" + "01" * 20, "0x" + "02" * 20


@pytest.mark.usefixtures("accounts")
@pytest.mark.parametrize("chosen", ["default", uln(FIRST)], ids=["default", "one DVN"])
def test_a_single_verifier_is_refused_unless_it_is_accepted(waybill: Command, tmp_path: Path, chosen: Any) -> None:
    waybill("network", "create", "testnet", *TWO, "--gmps", "hyperlane,layerzero")
    for chain in (0, 1):
        changed(tmp_path, ("chains", chain, "verification", "layerzero"), chosen)
    arguments = ("deploy", "--network", "testnet", "--key", "0x" + "11" * 32, "--json")
    assert "base-sepolia.verification.layerzero" in waybill(*arguments).error["message"]
    accepted = waybill(*arguments, "--accept-single-verifier").error["message"]
    assert "no RPC endpoint of sepolia (11155111) answers: " in accepted, (
        "the plan is accepted, and its chains are asked"
    )


@pytest.mark.usefixtures("accounts")
@pytest.mark.parametrize(
    ("here", "there", "complaint"),
    [
        (uln(FIRST, SECOND), "default", "set on one end and left to the default"),
        (uln(FIRST, SECOND), uln(FIRST), "different numbers of LayerZero DVNs"),
        (uln(FIRST, FIRST), uln(FIRST, SECOND), "is listed more than once"),
        (uln(), uln(FIRST, SECOND), "no LayerZero DVN is listed"),
        (
            uln(FIRST) | {"optionalDvns": [SECOND], "optionalThreshold": 2},
            uln(FIRST),
            "optionalThreshold is 2, but 1 optional",
        ),
    ],
)
def test_dvns_that_could_never_verify_are_refused(
    waybill: Command, tmp_path: Path, here: Any, there: Any, complaint: str
) -> None:
    waybill("network", "create", "testnet", *TWO, "--gmps", "hyperlane,layerzero")
    for chain, chosen in enumerate((here, there)):
        changed(tmp_path, ("chains", chain, "verification", "layerzero"), chosen)
    assert complaint in waybill("deploy", "--network", "testnet", "--json").error["message"]


@pytest.mark.usefixtures("accounts")
def test_documented_commands_write_a_complete_plan(waybill: Command, tmp_path: Path) -> None:
    page, _, _ = (ROOT / "docs" / "testnet.md").read_text().partition("2. Decide")
    lines = [line.split() for line in page.splitlines() if line.strip().startswith("waybill ")]
    assert [line[2] for line in lines] == ["create", "create"]
    for line in lines:
        ended = waybill(*line[1:])
        assert ended.code == 0, ended.err
    require_security(NetworkPlan.read(tmp_path / "networks" / "testnet.json"), accept_single_verifier=False)
