"""Ctrl-C ends a command with status 130."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.devnet.accounts import DEPLOYER_KEY
from tests.unit.cli.command import Command
from tests.unit.cli.network import write_network
from tests.unit.cli.test_network import ROLES, WITHOUT_GAPS
from tests.waiting import PATIENCE


@pytest.fixture
def waybill(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    monkeypatch.setenv("WAYBILL_HOME", str(tmp_path))
    return Command(monkeypatch, capsys)


@pytest.mark.parametrize(
    "words",
    [
        ("deploy", "--network", "testnet", "--dry-run"),
        ("gmp", "floor", "alpha", "beta", "2", "--key", DEPLOYER_KEY),
    ],
    ids=["deploy", "gmp"],
)
def test_interrupt_ends_a_command_without_a_traceback(waybill: Command, tmp_path: Path, words: tuple[str, ...]) -> None:
    waybill("network", "create", "testnet", *WITHOUT_GAPS)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        write_network(tmp_path, url, url)
        urls = {f"{chain}_RPC_{n}": f"{url}/{n}" for chain in ("SEPOLIA", "BASE_SEPOLIA") for n in (1, 2, 3)}
        process = subprocess.Popen(
            [sys.executable, "-m", "bridge.cli", *words],
            env={**os.environ, **ROLES, **urls, "PYTHONPATH": str(Path(__file__).parents[3])},
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            silent.settimeout(PATIENCE)
            asked, _ = silent.accept()
            with asked:
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 130, said
    assert "Traceback" not in said
