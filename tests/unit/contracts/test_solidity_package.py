"""The Solidity of the quickstart, compiled with forge in projects outside the repository that have Waybill as a library."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.docs.test_docs import ROOT, blocks

FORGE = ROOT / "build" / "tools" / "bin" / "forge"
CONTRACT = """\
// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

{imports}
import {{Lane, Lanes}} from "@waybill/contracts/client/Lanes.sol";
import {{RouterClient}} from "@waybill/contracts/client/RouterClient.sol";

contract Dapp {{
    uint64 constant DESTINATION_CHAIN = 2;

    function send(IRouter router, address recipient, uint256 hyperlaneFee, uint256 wormholeFee) external payable {{
{body}
    }}
}}

abstract contract Client is RouterClient {{}}
"""


def quickstart_contract() -> str:
    """The first Solidity block of the quickstart, as the body of a function."""
    (snippet,) = [
        content for page, content in blocks("solidity") if page == "docs/quickstart.md" and "import" in content
    ]
    imports = re.findall(r"^import .*;$", snippet, re.MULTILINE)
    return CONTRACT.format(imports="\n".join(imports), body=re.sub(r"^import .*;\n", "", snippet, flags=re.MULTILINE))


def copy_of_the_repository(target: Path, *, with_packages: bool) -> None:
    """What a clone has, and after `npm ci` what forge needs of it."""
    target.mkdir(parents=True)
    shutil.copytree(ROOT / "contracts", target / "contracts")
    shutil.copy(ROOT / "foundry.toml", target)
    shutil.copy(ROOT / "package.json", target)
    if with_packages:
        for package in ("@openzeppelin/contracts", "@layerzerolabs/toolbox-foundry/lib/forge-std"):
            shutil.copytree(ROOT / "node_modules" / package, target / "node_modules" / package)


def linked(project: Path) -> None:
    """`lib/waybill` is a link to a clone, with the two lines of contracts/README.md."""
    (project / "lib").mkdir()
    copy_of_the_repository(project.parent / "clone", with_packages=True)
    (project / "lib" / "waybill").symlink_to(project.parent / "clone")
    lines = re.findall(r"^    (@\S+=\S+)$", (ROOT / "contracts" / "README.md").read_text(), re.MULTILINE)
    assert len(lines) == 2
    (project / "remappings.txt").write_text("\n".join(lines) + "\n")


def cloned(project: Path) -> None:
    """`lib/waybill` is a clone in which `npm ci` was run."""
    copy_of_the_repository(project / "lib" / "waybill", with_packages=True)


def cloned_alone(project: Path) -> None:
    """`lib/waybill` is a clone as it is; the project has OpenZeppelin of its own."""
    copy_of_the_repository(project / "lib" / "waybill", with_packages=False)
    shutil.copytree(ROOT / "node_modules/@openzeppelin/contracts", project / "lib/openzeppelin-contracts/contracts")
    (project / "remappings.txt").write_text(
        "@waybill/contracts/=lib/waybill/contracts/\n@openzeppelin/contracts/=lib/openzeppelin-contracts/contracts/\n"
    )


def from_npm(project: Path) -> None:
    """The npm package, unpacked as npm does it beside OpenZeppelin's."""
    packed = subprocess.run(
        ["npm", "pack", "--json", "--silent", str(ROOT / "contracts"), "--pack-destination", str(project)],
        cwd=project,
        check=True,
        capture_output=True,
        text=True,
    )
    described = json.loads(packed.stdout)
    (entry,) = described.values() if isinstance(described, dict) else described
    wanted = {"README.md", "LICENSE", "abi/Router.json", "interfaces/IRouter.sol", "conformance/GatewayConformance.sol"}
    assert wanted <= {file["path"] for file in entry["files"]}
    package = project / "node_modules" / "@waybill" / "contracts"
    package.mkdir(parents=True)
    shutil.unpack_archive(project / entry["filename"], project / "unpacked", filter="data")
    (project / "unpacked" / "package").rename(package)
    shutil.copytree(ROOT / "node_modules/@openzeppelin/contracts", project / "node_modules/@openzeppelin/contracts")


@pytest.mark.parametrize("layout", [linked, cloned, cloned_alone, from_npm])
def test_the_quickstarts_imports_resolve_in_another_project(tmp_path: Path, layout: Callable[[Path], None]) -> None:
    project = tmp_path / "a dapp"
    (project / "src").mkdir(parents=True)
    (project / "foundry.toml").write_text(
        f'[profile.default]\nsolc = "{ROOT / "build/tools/bin/solc"}"\noffline = true\nevm_version = "cancun"\n'
    )
    layout(project)
    (project / "src" / "Dapp.sol").write_text(quickstart_contract())
    done = subprocess.run([str(FORGE), "build"], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "out" / "Dapp.sol" / "Dapp.json").exists()


@pytest.mark.long
def test_npm_packages_install_together_and_pass_their_tests(tmp_path: Path) -> None:
    project = tmp_path / "a dapp"
    (project / "test").mkdir(parents=True)
    (project / "package.json").write_text('{"name": "a-dapp", "private": true}')
    pack = ["npm", "pack", "--silent", str(ROOT / "contracts"), str(ROOT / "dapp"), "--pack-destination", str(tmp_path)]
    subprocess.run(pack, cwd=project, check=True, capture_output=True)
    tarballs = [str(tarball) for tarball in tmp_path.glob("*.tgz")]
    assert len(tarballs) == 2
    others = ["viem", "@openzeppelin/contracts@5.7.0", "@layerzerolabs/toolbox-foundry@0.1.13"]
    install = ["npm", "install", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run([*install, *tarballs, *others], cwd=project, check=True)

    (project / "foundry.toml").write_text(
        f'[profile.default]\nlibs = ["node_modules"]\nsolc = "{ROOT / "build/tools/bin/solc"}"\noffline = true\n'
        'evm_version = "cancun"\noptimizer = true\n'
        # `forge init` brings forge-std; here it comes from npm.
        'remappings = ["forge-std/=node_modules/@layerzerolabs/toolbox-foundry/lib/forge-std/"]\n'
    )
    (project / "src").mkdir()
    (project / "src" / "Dapp.sol").write_text(quickstart_contract())
    (project / "test" / "doubles").mkdir()
    for folder, name in (
        ("testing", "Guestbook.sol"),
        ("testing", "WaybillFixture.t.sol"),
        ("conformance", "MyGateway.t.sol"),
        ("conformance", "doubles/LoopbackGateway.sol"),
    ):
        text = (ROOT / "tests" / "solidity" / folder / name).read_text()
        (project / "test" / name).write_text(text.replace("../../../contracts/", "@waybill/contracts/"))
    done = subprocess.run([str(FORGE), "test"], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"[1-9]\d* passed; 0 failed", done.stdout), done.stdout

    same = (
        'const { routerAbi } = require("@waybill/dapp"); const other = require("@waybill/contracts/abi/Router.json");'
        'require("node:assert").deepStrictEqual(routerAbi, other); console.log(other.length)'
    )
    # Not a module: a script that requires the kit gets the same one as a module that imports it.
    ran = subprocess.run(["node", "--eval", same], cwd=project, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 50
