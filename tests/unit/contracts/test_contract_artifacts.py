"""What the compiler makes of the contracts: the ABIs in use are theirs, the router's halves agree, and every one fits."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.generate_abi import storage_text
from scripts.release import OUT, compile_release

CHECKOUT = Path(__file__).resolve().parents[3]
FORGE = CHECKOUT / "build" / "tools" / "bin" / "forge"

MOST_CODE = 24_000
"""Bytes of a contract; the chains' own limit is 24,576."""
MOST_CREATION_CODE = 49_152
"""Bytes of a contract's creation code, which is the chains' own limit (EIP-3860)."""

pytestmark = [pytest.mark.usefixtures("compiled")]  # seconds; nobody may have compiled yet


@pytest.fixture(scope="module")
def compiled() -> None:
    built = subprocess.run([str(FORGE), "build", "--quiet"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr


@pytest.mark.long
def test_a_comment_does_not_change_a_contracts_code(tmp_path: Path) -> None:
    """Its address follows from the code: a comment would deploy a second network."""
    codes: list[str] = []
    for comment in ("", "// Just a word.\n"):
        folder = tmp_path / f"project{len(codes)}"
        (folder / "contracts").mkdir(parents=True)
        shutil.copy(CHECKOUT / "foundry.toml", folder)
        (folder / "build" / "tools").mkdir(parents=True)
        (folder / "build" / "tools" / "bin").symlink_to(FORGE.parent)
        source = (
            "// SPDX-License-Identifier: MIT\npragma solidity ^0.8.28;\ncontract Plain { uint256 public value = 7; }\n"
        )
        (folder / "contracts" / "Plain.sol").write_text(source + comment)
        subprocess.run([str(FORGE), "build", "--quiet"], cwd=folder, check=True)
        codes.append(json.loads((folder / "build/forge/out/Plain.sol/Plain.json").read_text())["bytecode"]["object"])
    assert codes[0] == codes[1]


def contract_names() -> list[str]:
    """Every contract in a file of its own name; interfaces and libraries have no code and pass."""
    return sorted(path.stem for path in (CHECKOUT / "contracts").rglob("*.sol"))


def size_of(contract: str, code: str) -> int:
    """Bytes of a contract as it is deployed."""
    artifact = OUT / f"{contract}.sol" / f"{contract}.json"
    if not artifact.exists():  # a file of types, or not deployed by us
        return 0
    bytecode: str = json.loads(artifact.read_text())[code]["object"]
    return len(bytecode.removeprefix("0x")) // 2


def test_abis_and_storage_snapshot_are_current() -> None:
    command = [sys.executable, "scripts/generate_abi.py", "--check"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_router_halves_share_their_storage_layout() -> None:
    layout = storage_text("Router")
    assert '"name": "_receipts"' in layout
    assert '"kind": "transientStorage"' in layout
    assert layout == storage_text("RouterExtension")


def test_every_contract_fits_on_a_chain_with_room_to_spare() -> None:
    compile_release()
    names = contract_names()
    code = {name: size_of(name, "deployedBytecode") for name in names}
    creation = {name: size_of(name, "bytecode") for name in names}
    assert code["Router"] > 0
    assert {name: size for name, size in code.items() if size > MOST_CODE} == {}
    assert {name: size for name, size in creation.items() if size > MOST_CREATION_CODE} == {}
