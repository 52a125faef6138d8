"""A network file that a command wrote deploys, with what it decides, to chains that play the public ones.

The chains have the public chains' ids and the GMPs' own contracts, at addresses of their own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from eth_abi.abi import encode

from bridge.deploy.addresses import address_table
from bridge.deploy.plan import NetworkPlan
from bridge.devnet import anvil, network
from bridge.devnet.accounts import ANVIL_KEYS, DEPLOYER_KEY, RELAYER_KEY, account, signer
from bridge.devnet.anvil import AnvilProcess
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import ROUTER, Contract, contract
from bridge.protocol.deployment import ChainDeployment, Deployment
from tests.anvil.rpc import free_ports, mine, rpc
from tests.unit.cli.command import Command

pytestmark = pytest.mark.long

NAMES = ("sepolia", "base-sepolia")
OWNER = account(DEPLOYER_KEY).address
REVOKER, TRIPWIRE = (signer(role, 0).address for role in ("revoker", "tripwire"))
GUARDIANS = {f"{name.upper().replace('-', '_')}_GUARDIAN": signer(f"guardian of {name}", 0).address for name in NAMES}
GUARDIAN = GUARDIANS["SEPOLIA_GUARDIAN"]

_ROLES = contract("guardian() returns (address)", "revoker() returns (address)", "tripwire() returns (address)")
_MAILBOX = contract("defaultIsm() returns (address)", "recipientIsm(address) returns (address)")
_ENDPOINT = contract(
    "defaultSendLibrary(uint32) returns (address)",
    "defaultReceiveLibrary(uint32) returns (address)",
    "getSendLibrary(address,uint32) returns (address)",
    "isDefaultSendLibrary(address,uint32) returns (bool)",
    "getReceiveLibrary(address,uint32) returns (address,bool)",
    "delegates(address) returns (address)",
)
_CCIP = contract(
    "getDestChainConfig(uint64) returns"
    " ((address,uint64,uint8,bool,uint16,uint16,uint32,address,address[],address[],bytes))",
    "getCCVsAndFinalityConfig(uint64,bytes) returns (address[],address[],uint8,bytes4)",
)
_CONFIG = "(uint64,uint8,uint8,uint8,address[],address[])"
_ULN = contract(
    f"getAppUlnConfig(address,uint32) returns ({_CONFIG})", f"getUlnConfig(address,uint32) returns ({_CONFIG})"
)


@dataclass(frozen=True)
class Played:
    """Chains that play public ones, and what is on them."""

    processes: tuple[AnvilProcess, ...]
    gmps: NetworkPlan

    def read(self, chain: int, address: str, what: Contract, function: str, *arguments: object) -> Any:
        """What a view function returns."""
        call = {"to": address, "data": "0x" + what.encode(function, *arguments).hex()}
        answer = rpc(self.processes[chain].url, "eth_call", call, "latest")
        return what.decode(function, bytes.fromhex(answer[2:]))

    def heads(self) -> list[int]:
        """How many transactions the owner has sent on each chain."""
        return [int(rpc(one.url, "eth_getTransactionCount", OWNER, "latest"), 16) for one in self.processes]


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Played]:
    processes = tuple(
        anvil.start(name=name, chain_id=address_table().chain(name).chain_id, port=port, log=tmp_path / f"{name}.log")
        for name, port in zip(NAMES, free_ports(len(NAMES)), strict=True)
    )
    try:
        yield Played(processes, asyncio.run(network.deploy_gmps(list(processes))))
    finally:
        anvil.stop(list(processes))


@pytest.fixture
def waybill(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, played: Played
) -> Command:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    monkeypatch.setenv("WAYBILL_KEY", DEPLOYER_KEY)
    monkeypatch.setenv("WAYBILL_RELAYER_KEY", RELAYER_KEY)
    roles = GUARDIANS | {"OWNER": OWNER, "REVOKER": REVOKER, "TRIPWIRE": TRIPWIRE}
    for name, value in roles.items():
        monkeypatch.setenv(name, value)
    for process in played.processes:
        for number in (1, 2, 3):
            variable = f"{process.name.upper().replace('-', '_')}_RPC_{number}"
            monkeypatch.setenv(variable, process.url if number == 1 else f"{process.url}/?{number}")
    return Command(monkeypatch, capsys)


def move_to(played: Played, file: Path) -> dict[str, Any]:
    """Puts the local addresses into the file that `network create` wrote, and names verifiers; returns what it says then."""
    document = json.loads(file.read_text())
    for place, (planned, there) in enumerate(zip(document["chains"], reversed(played.gmps.chains), strict=True)):
        local = played.gmps.chains[place].gmps
        assert planned["gmps"].keys() == local.keys()
        for gmp, section in planned["gmps"].items():
            section |= {key: value for key, value in local[gmp].items() if key in section or gmp == "axelar"}
        endpoint, eid = str(local["layerzero"]["endpoint"]), int(there.gmps["layerzero"]["eid"])
        send = played.read(place, endpoint, _ENDPOINT, "defaultSendLibrary", eid)
        receive = played.read(place, endpoint, _ENDPOINT, "defaultReceiveLibrary", eid)
        (dvn,) = played.read(place, send, _ULN, "getUlnConfig", endpoint, eid)[4]
        planned["verification"]["layerzero"] = {
            "sendLibrary": send,
            "receiveLibrary": receive,
            # A second contract in place of another operator's DVN: nothing is sent here.
            "requiredDvns": [dvn, endpoint],
            "confirmations": 7 + place,
        }
        ism = played.read(place, str(local["hyperlane"]["mailbox"]), _MAILBOX, "defaultIsm")
        planned["verification"]["hyperlane"] = {"ism": ism}
        planned["verification"]["ccip"] = {"required": ["default", resolver_of(played, place)]}
        del planned["gmps"]["hyperlane"]["validatorAnnounce"]  # the devnet's validators announce nothing
    file.write_text(json.dumps(document))
    return dict(document)


def resolver_of(played: Played, place: int) -> str:
    """Returns the resolver of CCIP's verifiers on a chain, which its on-ramp names."""
    here, there = (played.gmps.chains[number].gmps["ccip"] for number in (place, 1 - place))
    config = played.read(place, str(here["onRamp"]), _CCIP, "getDestChainConfig", int(there["selector"]))
    return str(config[9][0])


def check_uln(played: Played, place: int, chain: ChainDeployment, document: dict[str, Any]) -> None:
    """The adapter believes the DVNs that the file names, over libraries that LayerZero can't exchange."""
    named, there = document["chains"][place], document["chains"][1 - place]
    chosen, eid = named["verification"]["layerzero"], there["gmps"]["layerzero"]["eid"]
    endpoint, adapter = named["gmps"]["layerzero"]["endpoint"], chain.adapters["layerzero"]
    assert played.read(place, endpoint, _ENDPOINT, "delegates", adapter) == OWNER.lower()
    assert played.read(place, endpoint, _ENDPOINT, "getSendLibrary", adapter, eid) == chosen["sendLibrary"]
    assert not played.read(place, endpoint, _ENDPOINT, "isDefaultSendLibrary", adapter, eid)
    received = played.read(place, endpoint, _ENDPOINT, "getReceiveLibrary", adapter, eid)
    assert received == (chosen["receiveLibrary"], False)
    ends = {"sendLibrary": chosen, "receiveLibrary": there["verification"]["layerzero"]}
    for library, counts in ends.items():
        config = played.read(place, chosen[library], _ULN, "getAppUlnConfig", adapter, eid)
        dvns = sorted(chosen["requiredDvns"], key=lambda dvn: int(dvn, 16))
        assert config[:4] == (counts["confirmations"], 2, 255, 0)
        assert [dvn.lower() for dvn in config[4]] == [dvn.lower() for dvn in dvns]


def test_created_network_deploys_guarded_and_only_once(waybill: Command, played: Played, tmp_path: Path) -> None:
    assert waybill("network", "create", "testnet", "--chains", ",".join(NAMES)).code == 0
    document = move_to(played, tmp_path / "networks" / "testnet.json")
    ended = waybill("deploy", "--network", "testnet", "--json")
    assert ended.code == 0, ended.err
    written = (tmp_path / "deployments" / "testnet.json").read_text()
    assert "${SEPOLIA_RPC_1}" in written
    assert "127.0.0.1" not in written, "URLs may hold a key, and this file is published"
    deployment = Deployment.from_json(written, "file")
    for place, chain in enumerate(deployment.chains):
        assert played.read(place, chain.router, _ROLES, "guardian") == list(GUARDIANS.values())[place].lower()
        assert played.read(place, chain.router, _ROLES, "revoker") == REVOKER.lower()
        assert played.read(place, chain.router, _ROLES, "tripwire") == TRIPWIRE.lower()
        other = deployment.chains[1 - place]
        assert played.read(place, chain.router, ROUTER, "floorOf", other.chain_id) == 2
        assert played.read(place, chain.router, ROUTER, "peerOf", other.chain_id) == to_bytes32(other.router)
        mailbox, adapter = str(chain.gmps["hyperlane"]["mailbox"]), chain.adapters["hyperlane"]
        chosen = document["chains"][place]["verification"]["hyperlane"]["ism"]
        assert played.read(place, adapter, contract("interchainSecurityModule() returns (address)"),
                           "interchainSecurityModule") == chosen  # fmt: skip
        assert played.read(place, mailbox, _MAILBOX, "recipientIsm", adapter) == chosen
        check_uln(played, place, chain, document)
        selector, nobody = int(other.gmps["ccip"]["selector"]), "0x" + "00" * 20
        chosen = (nobody, resolver_of(played, place))
        named = played.read(place, chain.adapters["ccip"], _CCIP, "getCCVsAndFinalityConfig", selector, b"")
        assert named == (chosen, (), 0, bytes(4))
        assert (chain.agreement, chain.finality) == (2, "finalized")
        # The file leaves the on-ramp out, and CCIP's router names it.
        assert chain.gmps["ccip"]["onRamp"] == played.gmps.chains[place].gmps["ccip"]["onRamp"]

    heads = played.heads()
    again = json.loads(waybill("deploy", "--network", "testnet", "--json").out)
    assert not again["changed"], again
    assert played.heads() == heads

    findings = {row["check"]: row for row in json.loads(waybill("doctor", "--network", "testnet", "--json").out)}
    assert findings["contracts on base-sepolia"]["result"] == "ok"

    def hosts(*settings: str) -> str:
        (tmp_path / "waybill.toml").write_text("\n".join(["[attestations]", *settings]))
        found = json.loads(waybill("doctor", "--network", "testnet", "--json").out)
        return str({row["check"]: row for row in found}["attestations of GMPs"]["found"])

    validators = "hyperlane = { " + ", ".join(f'{name} = "{OWNER}"' for name in NAMES) + " }"
    assert "wormhole: https://api.testnet.wormholescan.io; ccip: https://api.ccip.chain.link" in hosts(validators)
    assert "wormhole: http://mine.example" in hosts(validators, 'wormhole = ["http://mine.example"]')


def test_new_owner_becomes_layerzeros_delegate(waybill: Command, played: Played, tmp_path: Path) -> None:
    waybill("network", "create", "testnet", "--chains", ",".join(NAMES))
    move_to(played, tmp_path / "networks" / "testnet.json")
    words = ("deploy", "--network", "testnet", "--json")
    assert waybill(*words).code == 0
    heir = account(ANVIL_KEYS[8]).address
    for step in (("transfer", heir), ("accept", "--key", ANVIL_KEYS[8])):
        ended = waybill("role", *step, "--network", "testnet", "--json")
        assert ended.code == 0, ended.err
    done = json.loads(waybill(*words, "--key", ANVIL_KEYS[8]).out)
    assert done["chains"] == {name: ["LayerZero's delegate"] for name in NAMES}
    deployment = Deployment.from_json((tmp_path / "deployments" / "testnet.json").read_text(), "file")
    for place, chain in enumerate(deployment.chains):
        endpoint, adapter = str(chain.gmps["layerzero"]["endpoint"]), chain.adapters["layerzero"]
        assert played.read(place, endpoint, _ENDPOINT, "delegates", adapter) == heir.lower()
    assert not json.loads(waybill(*words, "--key", ANVIL_KEYS[8]).out)["changed"]


def test_on_ramp_of_another_ccip_version_is_refused(waybill: Command, played: Played, tmp_path: Path) -> None:
    file = tmp_path / "networks" / "testnet.json"
    waybill("network", "create", "testnet", "--chains", ",".join(NAMES))
    document = move_to(played, file)
    (sepolia, base), (first, second) = (
        [one.gmps["ccip"] for one in played.gmps.chains],
        [one["gmps"]["ccip"] for one in document["chains"]],
    )
    first["onRampV1"], second["onRamp"] = sepolia["onRamp"], base["router"]
    file.write_text(json.dumps(document))
    heads = played.heads()
    refused = waybill("deploy", "--network", "testnet", "--json")
    assert refused.code == 1
    lines = refused.error["message"].splitlines()
    assert lines == [
        (
            f"chain 'sepolia': gmps.ccip.onRampV1: {sepolia['onRamp']} is 'OnRamp 2.0.0', not an OnRamp 1.6: leave the key"
            " out"
        ),
        (
            f"chain 'base-sepolia': gmps.ccip.onRamp: {base['router']} is 'Router 1.2.0', not an OnRamp 2: write"
            f" {base['onRamp']} (to sepolia)"
        ),
    ]
    assert played.heads() == heads

    del first["onRampV1"], second["onRamp"]
    file.write_text(json.dumps(document))
    ended = waybill("deploy", "--network", "testnet")
    assert ended.code == 0
    assert (ended.out + ended.err).count("wormhole registered") == len(NAMES), "each step is printed once"
    first["onRampV1"] = sepolia["onRamp"]
    file.write_text(json.dumps(document))
    findings = {row["check"]: row for row in json.loads(waybill("doctor", "--network", "testnet", "--json").out)}
    assert findings["plan of base-sepolia"]["result"] == "ok"
    assert findings["plan of sepolia"]["found"] == lines[0].removeprefix("chain 'sepolia': ")


def test_wrong_chain_number_of_a_gmp_is_refused(waybill: Command, played: Played, tmp_path: Path) -> None:
    file = tmp_path / "networks" / "testnet.json"
    waybill("network", "create", "testnet", "--chains", ",".join(NAMES))
    document = move_to(played, file)
    gmps = document["chains"][0]["gmps"]
    numbers = {"hyperlane": "domain", "wormhole": "chainId", "layerzero": "eid", "ccip": "selector"}
    right = {gmp: gmps[gmp][key] for gmp, key in numbers.items()}
    for gmp, key in numbers.items():
        gmps[gmp][key] += 1
    file.write_text(json.dumps(document))
    refused = waybill("deploy", "--network", "testnet", "--dry-run", "--json")
    assert refused.code == 1
    lines = [line for line in refused.error["message"].splitlines() if "identifies the chain" in line]
    for gmp, number in right.items():
        (line, *_) = [one for one in lines if one.startswith(f"chain 'sepolia': gmps.{gmp}: ")]
        assert line.endswith(f"identifies the chain as {number}, the plan as {number + 1}")


def test_doctor_names_whatever_is_not_as_the_plan_says(waybill: Command, played: Played, tmp_path: Path) -> None:
    file = tmp_path / "networks" / "testnet.json"
    waybill("network", "create", "testnet", "--chains", ",".join(NAMES))
    document = move_to(played, file)
    assert waybill("deploy", "--network", "testnet", "--json").code == 0

    def doctor() -> dict[str, Any]:
        ended = waybill("doctor", "--network", "testnet", "--json")
        return {row["check"]: row for row in json.loads(ended.out)}

    findings = doctor()
    assert {findings[f"plan of {name}"]["result"] for name in NAMES} == {"ok"}
    here, there = Deployment.from_json((tmp_path / "deployments" / "testnet.json").read_text(), "file").chains
    stranger = signer("stranger", 0).address
    layerzero, chosen = here.gmps["layerzero"], document["chains"][0]["verification"]["layerzero"]
    (dvn, *_) = chosen["requiredDvns"]
    uln = encode([_CONFIG], [(1, 1, 255, 0, [dvn], [])])
    config = contract("setConfig(address,address,(uint32,uint32,bytes)[])").encode(
        "setConfig", here.adapters["layerzero"], chosen["receiveLibrary"], [(there.gmps["layerzero"]["eid"], 2, uln)]
    )
    ism = contract("setInterchainSecurityModule(address)").encode("setInterchainSecurityModule", "0x" + "00" * 20)
    for to, data in (
        (here.router, ROUTER.encode("setGuardian", stranger)),
        (here.router, ROUTER.encode("setFloor", there.chain_id, 3)),
        (here.adapters["hyperlane"], ism),
        (str(layerzero["endpoint"]), config),
    ):
        sent = {"from": OWNER, "to": to, "data": "0x" + data.hex()}  # anvil has this account's key
        transaction = rpc(played.processes[0].url, "eth_sendTransaction", sent)
        mine(played.processes[0].url)
        assert rpc(played.processes[0].url, "eth_getTransactionReceipt", transaction)["status"] == "0x1"

    findings = doctor()
    drift = findings["plan of sepolia"]["found"].splitlines()
    assert drift == [
        "Hyperlane's ISM: missing, or set differently",
        "DVNs of packets from 31002: missing, or set differently",
        f"guardian: {GUARDIAN} in the plan, {stranger.lower()} on the router",
        "floor to base-sepolia: 2 in the plan, 3 on the router",
    ]
    assert findings["plan of base-sepolia"]["result"] == "ok"
    document = json.loads(file.read_text())
    document["chains"][0]["gmps"]["wormhole"]["chainId"] = 9
    file.write_text(json.dumps(document))
    (line,) = [one for one in doctor()["plan of sepolia"]["found"].splitlines() if one.startswith("gmps.wormhole")]
    assert line.endswith("identifies the chain as 10001, the plan as 9")
