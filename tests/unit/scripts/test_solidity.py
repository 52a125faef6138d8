"""forge and solc, as set-up links them into build/tools/bin."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import solcx

from bridge.devnet.fetch import is_native
from scripts.setup_tools import SOLC_VERSION, ToolMissingError, find_foundry, find_solc

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / "build" / "tools" / "bin"
COUNTER = """\
// SPDX-License-Identifier: MIT
pragma solidity 0.8.34;

import {Ownable2Step, Ownable} from "@openzeppelin/contracts/access/Ownable2Step.sol";

contract Counter is Ownable2Step {
    uint256 public transient pending;
    uint256 public count;

    constructor() Ownable(msg.sender) {}

    function add(uint256 amount) external onlyOwner {
        count += amount;
    }
}
"""
TEST = """\
// SPDX-License-Identifier: MIT
pragma solidity 0.8.34;

contract CountTest {
    function test_TwoAndTwoIsFour() external pure {
        require(2 + 2 == 4);
    }

    function test_TwoAndTwoIsFive() external pure {
        require(2 + 2 == %d);
    }
}
"""


def forge_project(folder: Path) -> dict[str, object]:
    """Make an empty project with our own settings and libraries; return those settings."""
    (folder / "foundry.toml").write_text((ROOT / "foundry.toml").read_text())
    (folder / "build" / "tools").mkdir(parents=True)
    (folder / "build" / "tools" / "bin").symlink_to(TOOLS)
    (folder / "node_modules").symlink_to(ROOT / "node_modules")
    for name in ("contracts", "tests/solidity"):
        (folder / name).mkdir(parents=True)
    shown = subprocess.run(
        [str(TOOLS / "forge"), "config", "--json"], cwd=folder, capture_output=True, text=True, check=True
    )
    settings: dict[str, object] = json.loads(shown.stdout)
    return settings


def test_failing_forge_test_ends_with_a_non_zero_exit_code(tmp_path: Path) -> None:
    forge_project(tmp_path)
    contract = tmp_path / "tests" / "solidity" / "Count.t.sol"
    for expected, code in ((4, 0), (5, 1)):
        contract.write_text(TEST % expected)
        done = subprocess.run([str(TOOLS / "forge"), "test"], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == code, done.stdout.decode()


def test_py_solc_x_and_forge_give_the_same_bytecode(tmp_path: Path) -> None:
    settings = forge_project(tmp_path)
    (tmp_path / "contracts" / "Counter.sol").write_text(COUNTER)
    subprocess.run([str(TOOLS / "forge"), "build"], cwd=tmp_path, capture_output=True, check=True)
    built = json.loads((tmp_path / "build" / "forge" / "out" / "Counter.sol" / "Counter.json").read_text())

    compiled = solcx.compile_standard(
        {
            "language": "Solidity",
            "sources": {"contracts/Counter.sol": {"content": COUNTER}},
            "settings": {
                "evmVersion": settings["evm_version"],
                "optimizer": {"enabled": settings["optimizer"], "runs": settings["optimizer_runs"]},
                "remappings": settings["remappings"],
                "metadata": {"bytecodeHash": settings["bytecode_hash"], "appendCBOR": settings["cbor_metadata"]},
                "outputSelection": {"*": {"*": ["evm.bytecode.object"]}},
            },
        },
        solc_binary=str(TOOLS / "solc"),
        base_path=str(tmp_path),
    )
    bytecode = compiled["contracts"]["contracts/Counter.sol"]["Counter"]["evm"]["bytecode"]["object"]
    assert len(bytecode) > 1000
    assert "0x" + bytecode == built["bytecode"]["object"]


@pytest.mark.parametrize("tool", ["forge", "anvil", "cast"])
def test_linked_foundry_tools_are_native_binaries(tool: str) -> None:
    assert is_native((TOOLS / tool).resolve())


def test_launcher_script_on_path_is_passed_over_for_the_native_binary(tmp_path: Path) -> None:
    launcher = tmp_path / "forge"
    launcher.write_text("#!/bin/sh\necho 'forge Version: 1.7.1'\n")
    launcher.chmod(0o755)
    assert find_foundry("forge", path=str(tmp_path)) != launcher


def test_missing_foundry_tool_is_named_with_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ToolMissingError, match=r"chisel: no native chisel >= 1\.7 on PATH.*Install Foundry"):
        find_foundry("chisel", path=str(tmp_path))


def test_compiler_that_py_solc_x_installed_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOLCX_BINARY_PATH", str(tmp_path))
    assert find_solc()[0] == ROOT / "scripts" / "solc-wasm"
    native = tmp_path / f"solc-v{SOLC_VERSION}"
    native.touch(mode=0o755)
    assert find_solc()[0] == native


def test_a_home_that_can_not_be_written_has_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", os.devnull)
    assert find_solc()[0] == ROOT / "scripts" / "solc-wasm"


@pytest.mark.parametrize("content", ["{}", "not json"])
def test_solc_refuses_what_it_can_not_read(content: str) -> None:
    done = subprocess.run(
        [str(TOOLS / "solc"), "--standard-json"], input=content, capture_output=True, text=True, check=False
    )
    assert done.returncode or json.loads(done.stdout)["errors"], done.stdout
