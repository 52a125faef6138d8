"""The table of addresses says what the GMPs' registries say, and nothing else."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from bridge.devnet.fetch import ArtifactError
from scripts.network_addresses import PINS, TARGET, Registries, RegistryError, changes, read_chain

A, B, C, D, E, F = (f"0x{letter * 40}" for letter in "abcdef")
CHAIN = {"id": 7, "hyperlane": "seven", "layerzero": "seven", "wormhole": "Seven"}
SDK = "dist/esm/constants"
FILES: dict[str, dict[str, str]] = {
    "hyperlane": {
        "dist/chains/seven/metadata.json": json.dumps(
            {"chainId": 7, "domainId": 70, "blocks": {"reorgPeriod": 5}, "nativeToken": {"symbol": "SVN"}}
        ),
        "dist/chains/seven/addresses.json": json.dumps({"mailbox": A, "merkleTreeHook": B, "validatorAnnounce": C}),
    },
    "axelar": {
        "info/testnet.json": json.dumps(
            {
                "chains": {
                    "other": {"chainId": 8, "axelarId": "other", "contracts": {}},
                    "seven": {
                        "chainId": 7,
                        "axelarId": "Seven",
                        "contracts": {"AxelarGateway": {"address": A}, "AxelarGasService": {"address": B}},
                    },
                }
            }
        )
    },
    "wormhole": {
        f"{SDK}/contracts/core.js": f'[["Mainnet", [["Seven", "{B}"]]], ["Testnet", [["Seven", "{A}"]]]]',
        f"{SDK}/nativeChainIds.js": '["Mainnet", [["Seven", 1n]]], ["Testnet", [["Seven", 7n]]]',
        f"{SDK}/chains.js": '[70, "Seventy"], [77, "Seven"]',
        f"{SDK}/finality.js": 'const finalityThresholds = [["Seven", 64]];\nconst others = [["Seven", 9]];',
    },
    "layerzero": {
        f"deployments/seven-testnet/{name}.json": json.dumps({"address": address})
        for name, address in {"EndpointV2": A, "SendUln302": B, "ReceiveUln302": C, "DVN": D, "DVNHorizen": E}.items()
    },
    "layerzero-numbers": {"dist/index.mjs": 'TestnetV2EndpointId2["SEVEN_V2_TESTNET"] = 40007] = "SEVEN_V2_TESTNET";'},
    "ccip": {
        "src/ccip/Register.sol": f"s_networkDetails[7] = NetworkDetails({{\n chainSelector: 18446744073709551615,\n"
        f" routerAddress: address({F}),"
    },
}


class Package:
    """Files as of an npm package."""

    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def text(self, path: str) -> str:
        if path not in self._files:
            raise ArtifactError(path)
        return self._files[path]


def read(chain: dict[str, Any] | None = None, **changed: dict[str, str]) -> dict[str, Any]:
    packages: Any = {registry: Package(files | changed.get(registry, {})) for registry, files in FILES.items()}
    registries = Registries(packages, {registry: f"@{registry}/registry@1" for registry in FILES})
    return read_chain(registries, chain or CHAIN, testnet=True)


def test_every_registry_is_read_as_it_is_laid_out() -> None:
    assert read() == {
        "chainId": 7,
        "testnet": True,
        "currency": "SVN",
        "confirmations": 5,
        "finalBlocks": 64,
        "gmps": {
            "hyperlane": {"domain": 70, "mailbox": A, "merkleTreeHook": B, "validatorAnnounce": C},
            "axelar": {"chainName": "Seven", "gateway": A, "gasService": B},
            "wormhole": {"chainId": 77, "core": A, "consistencyLevel": 1},
            "layerzero": {"eid": 40007, "endpoint": A},
            "ccip": {"selector": 2**64 - 1, "router": F},
        },
        "missing": [],
        "layerzero": {"sendLibrary": B, "receiveLibrary": C, "dvns": {"layerzero-labs": D, "horizen": E}},
    }


def test_what_a_registry_does_not_have_is_missing_by_name() -> None:
    found = read({"id": 9})
    assert found["gmps"] == {}
    assert found["missing"] == ["hyperlane", "axelar", "wormhole", "layerzero", "ccip"]


def test_a_registry_that_knows_the_chain_by_another_id_ends_the_run() -> None:
    other = json.dumps({"chainId": 6, "domainId": 70})
    with pytest.raises(RegistryError, match="@hyperlane/registry@1 says that chain 7 has id 6"):
        read(hyperlane={"dist/chains/seven/metadata.json": other})
    with pytest.raises(RegistryError, match="@wormhole/registry@1 says that chain 7 has id 6"):
        read(wormhole={f"{SDK}/nativeChainIds.js": '["Testnet", [["Seven", 6n]]]'})


def test_a_layout_that_has_changed_ends_the_run() -> None:
    registries = Registries({"axelar": Package({})}, {"axelar": "@axelar/registry@2"})  # type: ignore[dict-item]  # as PackageFiles
    with pytest.raises(RegistryError, match=r"@axelar/registry@2 has no info/testnet.json"):
        registries.required("axelar", "info/testnet.json")


def test_bsc_waits_for_as_many_blocks_as_are_final_there() -> None:
    files = {path: text.replace("Seven", "Bsc").replace("64", "15") for path, text in FILES["wormhole"].items()}
    assert read(CHAIN | {"wormhole": "Bsc"}, wormhole=files)["gmps"]["wormhole"]["consistencyLevel"] == 15


def test_changes_name_each_value_before_and_after() -> None:
    before = {"a": {"x": 1, "y": 2}, "b": [1]}
    assert list(changes(before, {"a": {"x": 1, "y": 3}, "b": [1], "c": "new"})) == ["a.y: 2 -> 3", 'c: null -> "new"']
    assert list(changes(before, before)) == []


def test_the_committed_table_is_made_of_the_pinned_registries_and_of_every_chain_in_the_pins() -> None:
    pins, table = tomllib.loads(PINS.read_text()), json.loads(TARGET.read_text())
    assert table["registries"] == {name: f"{pin['name']}@{pin['version']}" for name, pin in pins["registries"].items()}
    assert {name: chain["chainId"] for name, chain in table["chains"].items()} == {
        name: chain["id"] for group in ("mainnets", "testnets") for name, chain in pins[group].items()
    }
