"""The package as a user installs it: an environment of its own, an empty folder, and the commands typed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from bridge.devnet import Devnet
from bridge.devnet.accounts import ANVIL_KEYS
from bridge.devnet.paths import ANVIL, GMP_ARTIFACTS
from tests.anvil.rpc import free_ports
from tests.anvil.test_deploying import plan
from tests.waiting import PATIENCE
from tests.wheel import build_wheel

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Installed:
    """The command of an installed package."""

    command: tuple[str, ...]
    variables: dict[str, str]

    def start(self, folder: Path, *words: str) -> subprocess.Popen[str]:
        """Types a command in a folder."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WAYBILL"))}
        with (folder / f"{words[0]}.log").open("w") as output:
            return subprocess.Popen(
                [*self.command, *words],
                cwd=folder,
                env=kept | self.variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def __call__(self, folder: Path, *words: str) -> str:
        """What a command prints, which has to succeed."""
        process = self.start(folder, *words)
        code, text = process.wait(), (folder / f"{words[0]}.log").read_text()
        assert code == 0, text
        return text

    @contextmanager
    def running(self, folder: Path, *words: str) -> Iterator[None]:
        """A command that runs until it is stopped."""
        process = self.start(folder, *words)
        try:
            yield
            assert process.poll() is None, (folder / f"{words[0]}.log").read_text()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def test_the_contracts_in_the_wheel_deploy_without_forge(
    devnet: Devnet, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with zipfile.ZipFile(build_wheel(tmp_path_factory)) as archive:
        archive.extractall(tmp_path / "installed")
    home = tmp_path / "an empty folder"
    (home / "networks").mkdir(parents=True)
    (home / "networks" / "second.json").write_text(plan(devnet).to_json())
    start = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import bridge.cli; print(bridge.__file__); bridge.cli.main()"
    )
    variables = {"WAYBILL_KEY": ANVIL_KEYS[7], "PATH": str(tmp_path)}  # neither forge nor npm nor anything else
    waybill = Installed((sys.executable, "-c", start, str(tmp_path / "installed")), variables)
    said = waybill(home, "deploy", "--network", "second")
    assert str(tmp_path / "installed") in said
    assert "compiling" not in said
    document = json.loads((home / "deployments" / "second.json").read_text())
    assert [chain["name"] for chain in document["chains"]] == ["alpha", "beta"]


@pytest.mark.long
@pytest.mark.timeout(2_400)
def test_fresh_environment_runs_everything(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    environment = tmp_path / "environment"
    venv.create(environment)
    python = environment / "bin" / "python"
    install = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*install, f"{build_wheel(tmp_path_factory)}[devnet]"], check=True)
    cache = tmp_path / "cache"
    waybill = Installed((str(environment / "bin" / "waybill"),), {"XDG_CACHE_HOME": str(cache)})
    folder = tmp_path / "empty"
    folder.mkdir()
    first, _, page = free_ports(3)  # two for the chains

    report = waybill(folder, "demo", "--port", str(first), "--json")
    assert "executed twice" not in report  # JSON, and not the table for people
    written = json.loads((folder / "build" / "demo" / "report.json").read_text())
    assert (written["executedTwice"], written["lost"]) == (0, 0)
    fetched = sorted(
        path.relative_to(cache / "waybill" / "gmp") for path in (cache / "waybill" / "gmp").rglob("*.json")
    )
    assert set(fetched) <= {path.relative_to(GMP_ARTIFACTS) for path in GMP_ARTIFACTS.rglob("*.json")}
    assert (cache / "waybill" / "tools" / "bin" / "anvil").read_bytes() == ANVIL.read_bytes()

    waybill(folder, "devnet", "up", "--port", str(first))
    try:
        with (
            waybill.running(folder, "relayer", "run"),
            waybill.running(folder, "web", "--http", f"127.0.0.1:{page}"),
        ):
            said = waybill(folder, "send", "--payload", "hello", "--wait")
            assert re.search(r"executed +after .* delivered", said), said
            assert "<title>" in _page(f"http://127.0.0.1:{page}/")
    finally:
        waybill(folder, "devnet", "down")


def _page(url: str) -> str:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return httpx.get(url, trust_env=False, follow_redirects=True).text
        except httpx.HTTPError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
