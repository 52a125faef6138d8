"""Generates bridge/deploy/addresses.json from the GMPs' own registries on npm, pinned in network_addresses.toml.

Nothing is guessed: chains that a registry does not have are listed as missing, and a contradictory chain id is
an error.
"""

import argparse
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from bridge.devnet.fetch import ArtifactError, Package, PackageFiles, check_integrity, download

ROOT: Final = Path(__file__).resolve().parents[1]
PINS: Final = ROOT / "scripts" / "network_addresses.toml"
TARGET: Final = ROOT / "bridge" / "deploy" / "addresses.json"

# Operators of LayerZero's DVNs in order of preference, with the names of their deployments.
_DVNS: Final = {
    "layerzero-labs": "DVN",
    "nethermind": "DVNNethermind",
    "horizen": "DVNHorizen",
    "p2p": "DVNP2P",
    "bware": "DVNBware",
}


_FINALIZED: Final = 1  # Wormhole's consistency level


class RegistryError(Exception):
    """A registry can't be read, or contradicts the pins."""


class Registries:
    """The pinned packages, read from their tarballs."""

    def __init__(self, files: Mapping[str, PackageFiles], specifiers: Mapping[str, str]) -> None:
        """Stores the packages' `files` and `specifiers`, both by the registry's name in the pins."""
        self._files = files
        self.specifiers = specifiers

    def text(self, registry: str, path: str) -> str | None:
        """Returns a file's text, or None if the package has no such file."""
        try:
            return self._files[registry].text(path)
        except ArtifactError:
            return None

    def json(self, registry: str, path: str) -> Any:
        """Returns a JSON file's content, or None."""
        text = self.text(registry, path)
        return None if text is None else json.loads(text)

    def required(self, registry: str, path: str) -> str:
        """Returns a file's text.

        Raises:
            RegistryError: the package has no such file.
        """
        text = self.text(registry, path)
        if text is None:
            raise RegistryError(f"{self.specifiers[registry]} has no {path}; the package's layout has changed")
        return text


def _hyperlane(registries: Registries, chain: Mapping[str, Any], _testnet: bool) -> dict[str, Any] | None:  # noqa: FBT001  # all readers are called alike
    folder = f"dist/chains/{chain.get('hyperlane')}"
    found, metadata = (registries.json("hyperlane", f"{folder}/{name}.json") for name in ("addresses", "metadata"))
    if not found or not metadata or "mailbox" not in found:
        return None
    _require_id(registries.specifiers["hyperlane"], chain, metadata["chainId"])
    section = {"domain": metadata["domainId"]}
    section |= {name: found[name] for name in ("mailbox", "merkleTreeHook", "validatorAnnounce")}
    return section


def _axelar(registries: Registries, chain: Mapping[str, Any], testnet: bool) -> dict[str, Any] | None:  # noqa: FBT001
    networks = json.loads(registries.required("axelar", f"info/{'testnet' if testnet else 'mainnet'}.json"))
    for entry in networks["chains"].values():
        contracts = entry.get("contracts", {})
        addresses = [contracts.get(name, {}).get("address") for name in ("AxelarGateway", "AxelarGasService")]
        if entry.get("chainId") == chain["id"] and all(addresses):
            return {"chainName": entry["axelarId"], "gateway": addresses[0], "gasService": addresses[1]}
    return None


def _wormhole(registries: Registries, chain: Mapping[str, Any], testnet: bool) -> dict[str, Any] | None:  # noqa: FBT001
    name = chain.get("wormhole")
    folder, network = "dist/esm/constants", "Testnet" if testnet else "Mainnet"
    core = _entry(registries.required("wormhole", f"{folder}/contracts/core.js"), network, name, r'"(0x\w{40})"')
    native = _entry(registries.required("wormhole", f"{folder}/nativeChainIds.js"), network, name, r"(\d+)n")
    number = re.search(rf'\[(\d+), "{name}"\]', registries.required("wormhole", f"{folder}/chains.js"))
    if name is None or core is None or native is None or number is None:
        return None
    _require_id(registries.specifiers["wormhole"], chain, int(native))
    return {"chainId": int(number[1]), "core": core, "consistencyLevel": _consistency_level(registries, name)}


def _consistency_level(registries: Registries, name: str) -> int:
    """Returns Wormhole's consistency level for finality.

    On BSC, where the level is a number of blocks, it is Wormhole's finality threshold.
    """
    return _final_blocks(registries, name) or _FINALIZED if name == "Bsc" else _FINALIZED


def _final_blocks(registries: Registries, name: str | None) -> int | None:
    """Returns the number of blocks after which Wormhole considers a chain's block final, or None if unknown."""
    text = registries.required("wormhole", "dist/esm/constants/finality.js")
    thresholds = text.partition("const finalityThresholds")[2].partition("];")[0]
    found = re.search(rf'\["{name}", (\d+)\]', thresholds)
    return found and int(found[1])


def _entry(text: str, network: str, name: str | None, value: str) -> str | None:
    """Returns a value from the SDK's nested arrays: [network, [[name, value], …]]."""
    parts = re.split(r'"(Mainnet|Testnet|Devnet)"', text)
    found = re.search(rf'\["{name}", {value}\]', dict(zip(parts[1::2], parts[2::2], strict=True)).get(network, ""))
    return found and found[1]


def _layerzero(registries: Registries, chain: Mapping[str, Any], testnet: bool) -> dict[str, Any] | None:  # noqa: FBT001
    kind = "testnet" if testnet else "mainnet"
    endpoint = _layerzero_address(registries, chain, kind, "EndpointV2")
    wanted = f"{str(chain.get('layerzero')).upper()}_V2_{kind.upper()}"
    numbers = registries.required("layerzero-numbers", "dist/index.mjs")
    eid = re.search(rf'V2EndpointId2\["{wanted}"\] = (\d+)\]', numbers)
    return {"eid": int(eid[1]), "endpoint": endpoint} if eid and endpoint else None


def _layerzero_address(registries: Registries, chain: Mapping[str, Any], kind: str, contract: str) -> str | None:
    found = registries.json("layerzero", f"deployments/{chain.get('layerzero')}-{kind}/{contract}.json")
    return found and str(found["address"])


def _ccip(registries: Registries, chain: Mapping[str, Any], _testnet: bool) -> dict[str, Any] | None:  # noqa: FBT001
    register = registries.required("ccip", "src/ccip/Register.sol")
    fields = r"\s*chainSelector:\s*(\d+),\s*routerAddress:\s*address\((0x\w{40})\)"
    found = re.search(rf"\[{chain['id']}\]\s*=\s*NetworkDetails\(\{{{fields}", register)
    return {"selector": int(found[1]), "router": found[2]} if found else None


_READERS: Final = {
    "hyperlane": _hyperlane,
    "axelar": _axelar,
    "wormhole": _wormhole,
    "layerzero": _layerzero,
    "ccip": _ccip,
}


def _require_id(registry: str, chain: Mapping[str, Any], found: object) -> None:
    if found != chain["id"]:
        raise RegistryError(f"{registry} has id {found} for chain {chain['id']}; correct {PINS.name}")


def read_chain(registries: Registries, chain: Mapping[str, Any], *, testnet: bool) -> dict[str, Any]:
    """Returns all registries' entries for one chain."""
    sections = {gmp: read(registries, chain, testnet) for gmp, read in _READERS.items()}
    kind = "testnet" if testnet else "mainnet"
    libraries = {"sendLibrary": "SendUln302", "receiveLibrary": "ReceiveUln302"}
    addresses = {
        name: _layerzero_address(registries, chain, kind, contract) for name, contract in (libraries | _DVNS).items()
    }
    metadata = registries.json("hyperlane", f"dist/chains/{chain.get('hyperlane')}/metadata.json") or {}
    reorg_period = metadata.get("blocks", {}).get("reorgPeriod")
    return {
        "chainId": chain["id"],
        "testnet": testnet,
        "confirmations": reorg_period if isinstance(reorg_period, int) else 0,
        "finalBlocks": _final_blocks(registries, chain.get("wormhole")),
        "gmps": {gmp: section for gmp, section in sections.items() if section},
        "missing": [gmp for gmp, section in sections.items() if not section],
        "layerzero": {
            **{name: addresses[name] for name in libraries},
            "dvns": {name: addresses[name] for name in _DVNS if addresses[name]},
        },
    }


def make_table(pins: Mapping[str, Any], registries: Registries) -> dict[str, Any]:
    """Returns the table of all chains."""
    chains = {
        name: read_chain(registries, chain, testnet=testnet)
        for group, testnet in (("mainnets", False), ("testnets", True))
        for name, chain in pins[group].items()
    }
    return {"registries": dict(registries.specifiers), "chains": chains}


def changes(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yields one line for each changed value."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from changes(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif before != after:
        yield f"{path}: {json.dumps(before)} -> {json.dumps(after)}"


def _newest(name: str) -> tuple[str, str]:
    process = subprocess.run(
        ["npm", "view", "--json", name, "version", "dist.integrity"], capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise RegistryError(f"npm view {name} failed:\n{process.stderr.strip()}")
    answer = json.loads(process.stdout)
    return answer["version"], answer["dist.integrity"]


def _upgraded(text: str) -> str:
    """Returns the pins with each package's newest version."""
    for pin in tomllib.loads(text)["registries"].values():
        version, integrity = _newest(pin["name"])
        text = text.replace(pin["integrity"], integrity)
        text = text.replace(
            f'name = "{pin["name"]}"\nversion = "{pin["version"]}"', f'name = "{pin["name"]}"\nversion = "{version}"'
        )
    return text


def main() -> None:
    """Writes the table and prints its changes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="pin the newest versions of the registries first")
    text = PINS.read_text()
    if parser.parse_args().upgrade:
        text = _upgraded(text)
    pins = tomllib.loads(text)
    files = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for registry, pin in pins["registries"].items():
            package = Package(gmp=registry, **pin, layout="", folder="", contracts=[])
            print(f"  {registry}: {package.specifier}", flush=True)
            archive = download(package, Path(folder))
            check_integrity(package, archive)
            files[registry] = PackageFiles(stack.enter_context(tarfile.open(archive)))
        specifiers = {registry: f"{pin['name']}@{pin['version']}" for registry, pin in pins["registries"].items()}
        table = make_table(pins, Registries(files, specifiers))
    before = json.loads(TARGET.read_text()) if TARGET.exists() else {}
    PINS.write_text(text)
    TARGET.write_text(json.dumps(table, indent=1) + "\n")
    print("\n".join(changes(before, table)) or "nothing has changed")


if __name__ == "__main__":
    try:
        main()
    except (ArtifactError, RegistryError) as error:
        sys.exit(str(error))
