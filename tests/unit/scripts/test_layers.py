"""The layer contracts in pyproject.toml catch the imports they are there for."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
PACKAGES = [
    f"{container}/{package.strip()}"
    for contract in CONTRACTS
    if contract["type"] == "layers"
    for container in contract["containers"]
    for layer in contract["layers"]
    for package in re.split("[:|]", layer)
]
MODULES = (
    "bridge/__init__.py",
    "indexer/__init__.py",
    *(f"{package}/__init__.py" for package in PACKAGES),
    "bridge/cli/index.py",
    "bridge/domain/ports.py",
    "bridge/gmps/axelar/__init__.py",
    "bridge/gmps/axelar/adapter.py",
    "bridge/gmps/axelar/devnet.py",
    "bridge/devnet/network.py",
    "bridge/protocol/message.py",
    "bridge/protocol/status.py",
    "bridge/relayer/delivery.py",
    "bridge/rpc/policy.py",
    "bridge/service/relayer_service.py",
    "indexer/jobs/index.py",
)


def check_layers(folder: Path, imports: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Lay out a project of empty modules, but for the given ones, and check its layers by our contracts."""
    for module in MODULES:
        path = folder / module
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(imports.get(module, ""))
    lint = [str(Path(sys.executable).with_name("lint-imports")), "--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    return subprocess.run(lint, cwd=folder, capture_output=True, text=True, check=False)


def test_allowed_imports_pass(tmp_path: Path) -> None:
    allowed = {
        "indexer/jobs/index.py": "import bridge.protocol\nfrom bridge.protocol.message import __doc__",
        "bridge/protocol/message.py": "from bridge.protocol import status\nimport eth_abi",
        "indexer/sources/__init__.py": "import bridge.rpc.policy",
        "bridge/rpc/policy.py": "import bridge.protocol.message\nimport structlog",
        "bridge/relayer/delivery.py": "from bridge import dead_letters, gmps, store, evm, domain",
        "bridge/store/__init__.py": "import sqlalchemy\nfrom bridge import domain",
        "bridge/evm/__init__.py": "import web3\nfrom bridge.domain import ports",
        "bridge/service/relayer_service.py": "from bridge import evm, relayer, settings, store",
        "bridge/gmps/axelar/devnet.py": "import bridge.devnet.network",
        "bridge/cli/index.py": "from bridge import service\nimport indexer.jobs.index\nimport bridge.devnet.network",
    }
    done = check_layers(tmp_path, allowed)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("indexer/jobs/index.py", "from bridge.domain import ports"),
        ("indexer/jobs/index.py", "import bridge.store"),
        ("indexer/jobs/index.py", "import bridge.evm"),
        ("bridge/rpc/policy.py", "import aiohttp"),
        ("bridge/rpc/policy.py", "import time"),
        ("bridge/rpc/policy.py", "from bridge.domain import ports"),
        ("indexer/store/__init__.py", "import indexer.jobs.index"),
        ("indexer/transforms/__init__.py", "import indexer.lake"),
        ("bridge/service/relayer_service.py", "import indexer.jobs"),
        ("bridge/service/relayer_service.py", "import bridge.devnet.network"),
        ("bridge/gmps/axelar/adapter.py", "import bridge.gmps.axelar.devnet"),
        ("bridge/protocol/message.py", "from bridge import domain"),
        ("bridge/protocol/__init__.py", "from bridge import service"),
        ("bridge/protocol/message.py", "import web3"),
        ("bridge/protocol/status.py", "import sqlite3"),
        ("bridge/protocol/status.py", "from urllib import request"),
        ("bridge/protocol/__init__.py", "import socket"),
        ("bridge/protocol/message.py", "import pyspark"),
        ("bridge/store/__init__.py", "import bridge.gmps"),
        ("bridge/store/__init__.py", "import bridge.evm"),
        ("bridge/relayer/delivery.py", "import bridge.service.relayer_service"),
        ("bridge/relayer/delivery.py", "import bridge.settings"),
        ("bridge/domain/ports.py", "import bridge.evm"),
        ("bridge/domain/ports.py", "import bridge.cli"),
    ],
)
def test_forbidden_import_is_caught(tmp_path: Path, module: str, forbidden: str) -> None:
    done = check_layers(tmp_path, {module: forbidden})
    assert done.returncode == 1, done.stdout
    assert "BROKEN" in done.stdout


def test_a_package_without_a_layer_is_caught(tmp_path: Path) -> None:
    (tmp_path / "bridge" / "unlisted").mkdir(parents=True)
    (tmp_path / "bridge" / "unlisted" / "__init__.py").write_text("")
    assert check_layers(tmp_path, {}).returncode == 1
