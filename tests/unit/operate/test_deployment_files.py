"""The commands in the files for Compose, Kubernetes and systemd exist, with their options."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from bridge.cli import main

OPS = Path(__file__).resolve().parents[3] / "ops"


def commands() -> list[list[str]]:
    """Every argument list that starts `waybill`."""
    compose = yaml.safe_load((OPS / "compose.yaml").read_text())["services"].values()
    found = [service["command"] for service in compose if service.get("build")]
    for manifest in yaml.safe_load((OPS / "kubernetes.yaml").read_text())["items"]:
        if manifest["kind"] in ("Deployment", "StatefulSet"):
            found += [container["args"] for container in manifest["spec"]["template"]["spec"]["containers"]]
    for unit in (OPS / "systemd").iterdir():
        (line,) = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
        found.append(shlex.split(line)[1:])
    return found


def test_commands_of_deployment_files_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(commands()) == 9
    for arguments in commands():
        # An unknown command or option is refused before help is printed.
        monkeypatch.setattr("sys.argv", ["waybill", *arguments, "--help"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, arguments
