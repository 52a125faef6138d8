"""`docs/add-an-adapter.md`, done as it says: a sixth GMP in a copy of the repository, and a message over it alone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import indent
from typing import Final

import pytest

from tests.anvil.rpc import free_ports
from tests.unit.docs.test_docs import ROOT

pytestmark = pytest.mark.long

PAGE: Final = ROOT / "docs" / "add-an-adapter.md"

COPIED: Final = (
    "bridge",
    "indexer",
    "contracts",
    "scripts",
    "foundry.toml",
    "node_modules/@openzeppelin/contracts",
    "node_modules/@layerzerolabs/toolbox-foundry/lib/forge-std",
    "build/gmp",
)

MAILBOX: Final = "tests/solidity/adapters/doubles/SignetMailbox.sol"
"""What a real GMP's npm package would bring."""


def blocks_of(page: str) -> dict[str, str]:
    """The page's blocks of code, by the file that the first line of each names."""
    found = re.findall(r"^```(?:python|solidity)\n(?:#|//) (\S+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return dict(found)


class Copy:
    """The repository, and commands in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in COPIED:
            source, target = ROOT / name, root / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        (root / "build" / "tools").symlink_to(ROOT / "build" / "tools")
        for compiled in ("forge", "release"):  # what is compiled already need not be compiled again
            if (ROOT / "build" / compiled).exists():
                shutil.copytree(ROOT / "build" / compiled, root / "build" / compiled)

    def put_blocks(self) -> set[str]:
        """Puts the blocks of the page where they say; returns the files."""
        blocks = blocks_of(PAGE.read_text())
        for name, code in blocks.items():
            path = self.root / name
            before, last, after = path.read_text().partition("    CCIP = 5\n") if path.exists() else ("", "", "")
            added = indent(code, "    ") if last else code
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(before + last + added + after)
        return set(blocks)

    def put_mailbox(self) -> None:
        """The GMP's own contract, as set-up unpacks one from a package."""
        (self.root / MAILBOX).parent.mkdir(parents=True)
        shutil.copy(ROOT / MAILBOX, self.root / MAILBOX)
        forge = str(ROOT / "build" / "tools" / "bin" / "forge")
        subprocess.run([forge, "build", MAILBOX], cwd=self.root, check=True, capture_output=True)
        artifact = json.loads((self.root / "build/forge/out/SignetMailbox.sol/SignetMailbox.json").read_text())
        target = self.root / "build" / "gmp" / "signet" / "SignetMailbox.json"
        target.parent.mkdir()
        target.write_text(json.dumps({"abi": artifact["abi"], "bytecode": artifact["bytecode"]["object"]}))

    def run(self, *command: str) -> str:
        """What a command of `waybill` prints."""
        words = [sys.executable, "-m", "bridge.cli", *command]
        ended = subprocess.run(words, cwd=self.root, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    @contextmanager
    def started(self, *command: str) -> Iterator[None]:
        """A command that goes on until then."""
        with (self.root / "started.log").open("wb") as log:
            words = [sys.executable, "-m", "bridge.cli", *command]
            process = subprocess.Popen(words, cwd=self.root, stdout=log, stderr=log)
            try:
                yield
            finally:
                process.terminate()
                process.wait()


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Copy]:
    made = Copy(tmp_path / "copy")
    yield made
    subprocess.run(
        [sys.executable, "-m", "bridge.cli", "devnet", "down"], cwd=made.root, capture_output=True, check=False
    )


def test_sixth_gmp_is_a_folder_a_contract_and_a_registration(copy: Copy) -> None:
    assert copy.put_blocks() == {
        "bridge/protocol/gmps.py",
        "contracts/adapters/SignetAdapter.sol",
        *(f"bridge/gmps/signet/{part}.py" for part in ("adapter", "attester", "devnet")),
    }
    copy.put_mailbox()
    (copy.root / "waybill.toml").write_text('[attestations]\nsignet = "https://signers.example"\n')

    (port,) = free_ports(2)[:1]
    copy.run("devnet", "up", "--port", str(port))
    deployments = json.loads((copy.root / "deployments" / "devnet.json").read_text())
    assert all(chain["adapters"].keys() == chain["gmps"].keys() >= {"signet"} for chain in deployments["chains"])

    with copy.started("relayer", "run"):
        sent = json.loads(copy.run("send", "--payload", "hello", "--gmps", "signet", "--wait", "--json"))
    assert (sent["gmps"], sent["executed"]) == (["signet"], True)
