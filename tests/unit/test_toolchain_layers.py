"""The layer contracts in pyproject.toml catch the imports they are there for."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    "bridge/__init__.py",
    "bridge/cli/__init__.py",
    "bridge/service.py",
    "bridge/chains/__init__.py",
    "bridge/adapters/__init__.py",
    "bridge/store/__init__.py",
    "bridge/relay.py",
    "bridge/recovery.py",
    "bridge/policies.py",
    "bridge/ports.py",
    "bridge/unlisted/__init__.py",
    "bridge/unlisted/part.py",
    "bridge/protocol/__init__.py",
    "bridge/protocol/message.py",
    "bridge/protocol/status.py",
    "indexer/__init__.py",
    "indexer/jobs.py",
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
        "indexer/jobs.py": "import bridge.protocol\nfrom bridge.protocol.message import __doc__",
        "bridge/protocol/message.py": "from bridge.protocol import status\nimport eth_abi",
        "bridge/protocol/__init__.py": "from bridge.protocol import message",
        "bridge/relay.py": "from bridge import policies, ports\nfrom bridge.protocol import message",
        "bridge/store/__init__.py": "import sqlalchemy\nfrom bridge import ports",
        "bridge/chains/__init__.py": "import web3\nfrom bridge import ports",
        "bridge/service.py": "from bridge import chains, relay, store",
        "bridge/cli/__init__.py": "from bridge import service",
    }
    done = check_layers(tmp_path, allowed)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("indexer/jobs.py", "from bridge import ports"),
        ("indexer/jobs.py", "import bridge.store"),
        ("bridge/service.py", "import indexer.jobs"),
        ("bridge/protocol/message.py", "from bridge import policies"),
        ("bridge/protocol/message.py", "from bridge import ports"),
        ("bridge/protocol/__init__.py", "from bridge import service"),
        ("bridge/protocol/message.py", "import bridge.unlisted"),
        ("bridge/protocol/message.py", "from bridge.unlisted import part"),
        ("bridge/protocol/message.py", "import web3"),
        ("bridge/protocol/status.py", "import sqlite3"),
        ("bridge/protocol/status.py", "from urllib import request"),
        ("bridge/protocol/__init__.py", "import socket"),
        ("bridge/protocol/message.py", "import pyspark"),
        ("bridge/relay.py", "from bridge import chains"),
        ("bridge/relay.py", "from bridge.store import __doc__"),
        ("bridge/recovery.py", "from bridge import adapters"),
        ("bridge/recovery.py", "import bridge.service"),
        ("bridge/policies.py", "from bridge import store"),
        ("bridge/ports.py", "import bridge.relay"),
        ("bridge/ports.py", "import bridge.cli"),
    ],
)
def test_forbidden_import_is_caught(tmp_path: Path, module: str, forbidden: str) -> None:
    done = check_layers(tmp_path, {module: forbidden})
    assert done.returncode == 1, done.stdout
    assert "BROKEN" in done.stdout
