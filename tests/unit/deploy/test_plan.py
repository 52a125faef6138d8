import json
from pathlib import Path
from typing import Any

import pytest

from bridge.deploy.plan import NetworkPlan, PlanError
from bridge.gmps.ccip.adapter import CcipContracts
from bridge.gmps.layerzero.adapter import LayerZeroContracts

ADDRESS = "0x" + "ab" * 20
CCIP = {"selector": 2**64 - 1, "router": ADDRESS, "onRamp": ADDRESS}


def chain(chain_id: int, name: str) -> dict[str, Any]:
    return {
        "chainId": chain_id,
        "name": name,
        "rpcUrls": ["http://127.0.0.1:1"],
        "confirmations": 3,
        "gmps": {"wormhole": {"chainId": chain_id, "core": ADDRESS}},
    }


def document() -> dict[str, Any]:
    return {"version": 1, "network": "test", "owner": ADDRESS, "floor": 1, "chains": [chain(1, "one"), chain(2, "two")]}


def read(tmp_path: Path, text: str) -> NetworkPlan:
    path = tmp_path / "test.json"
    path.write_text(text)
    return NetworkPlan.read(path)


def test_a_network_file_reads_as_it_was_written(tmp_path: Path) -> None:
    plan = read(tmp_path, json.dumps(document()))
    assert read(tmp_path, plan.to_json()) == plan
    assert plan.examples


def test_a_plan_that_names_no_floor_asks_for_two_gmps(tmp_path: Path) -> None:
    changed: Any = document()
    del changed["floor"]
    for one in changed["chains"]:
        one["gmps"]["layerzero"] = {"eid": one["chainId"], "endpoint": ADDRESS}
    assert read(tmp_path, json.dumps(changed)).floor == 2


def test_plan_keeps_gmp_numbers_of_full_width(tmp_path: Path) -> None:
    changed: Any = document()
    changed["chains"][1]["gmps"] = {"layerzero": {"eid": 2**32 - 1, "endpoint": ADDRESS}, "ccip": CCIP}
    gmps = read(tmp_path, read(tmp_path, json.dumps(changed)).to_json()).chains[1].gmps
    assert LayerZeroContracts.read(gmps["layerzero"]).eid == 2**32 - 1
    assert CcipContracts.read(gmps["ccip"]).selector == 2**64 - 1


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (("version",), 2, "version"),
        (("owner",), "0x12", "owner: .*'0x12' is not an EVM address"),
        (("owner",), "0x" + "00" * 20, "owner"),
        (("network",), "Main Net", "network"),
        (("floor",), 0, "floor"),
        (("floor",), 17, "floor"),
        (("floor",), 2, r"chains 'one' and 'two' share 1 GMPs, but the floor requires 2 \(wormhole\)"),
        (("chains",), [], "chains"),
        (("chains",), [chain(1, "one")], "chains"),
        (("chains", 1, "chainId"), 1, "chain_id 1 is used by more than one chain"),
        (("chains", 1, "name"), "one", "name one is used by more than one chain"),
        (("chains", 1, "rpcUrls"), [], "rpcUrls"),
        (("chains", 1, "gmps"), {}, "chain 'two' has no GMP"),
        (("chains", 1, "gmps"), {"pigeon": {}}, "pigeon"),
        (("chains", 1, "gmps"), {"layerzero": {"eid": 2**32, "endpoint": ADDRESS}}, "layerzero.eid"),
        (("chains", 1, "gmps"), {"ccip": CCIP | {"selector": 2**64}}, "ccip.selector"),
        (("chains", 1, "gmps"), {"ccip": CCIP | {"selector": 0}}, "ccip.selector"),
        (("chains", 1, "confirmations"), -1, "confirmations"),
        (("chains", 1, "finality"), "latest", "finality"),
        (("surprise",), 1, "surprise: unknown key: remove it, or correct its name"),
        (("chains", 1, "gmps"), {"wormhole": {"core": ADDRESS}}, "gmps.wormhole.chainId: it is missing: add it"),
        (("chains", 1, "confirmations"), "many", r'chains.1.confirmations: .*\(it is "many"\)'),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_a_wrong_value_is_named(tmp_path: Path, path: tuple[str | int, ...], value: Any, complaint: str) -> None:
    changed: Any = document()
    target = changed
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    with pytest.raises(PlanError, match=rf"(?s)test\.json.*{complaint}"):
        read(tmp_path, json.dumps(changed))


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    changed = document() | {"owner": "nobody", "network": "NO"}
    with pytest.raises(PlanError, match=r"(?s)network.*owner"):
        read(tmp_path, json.dumps(changed))


def test_text_that_is_not_json_is_said_to_be_none_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="line 2"):
        read(tmp_path, '{\n"version": }')


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"nowhere\.json"):
        NetworkPlan.read(tmp_path / "nowhere.json")
