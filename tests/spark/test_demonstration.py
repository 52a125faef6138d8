"""The whole loop on real chains, real GMP contracts and real Spark, with relayer and index killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.anvil.rpc import free_ports

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(420)
@pytest.mark.requirement("GLA-2", "GLA-3", "GLA-5", "GLA-9", "GLA-10", "GLA-25", "OBX-6", "OBX-12", "SF-90", "X-16")
def test_every_message_is_executed_once_although_a_gmp_stalls_and_relayer_and_index_are_killed(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")}
    done = subprocess.run(
        [sys.executable, "-m", "bridge.cli", "demo", "--json"],
        env=environment | {"WAYBILL_HOME": str(tmp_path), "WAYBILL_PORT": str(free_ports(2)[0])},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    report = json.loads(done.stdout)
    assert report == json.loads((tmp_path / "build" / "demo" / "report.json").read_text())
    assert report["messages"] >= 60
    assert report["executed"] == report["messages"]
    assert (report["executed_twice"], report["lost"], report["divergences"]) == (0, 0, [])
    retries = report["retries"]
    assert retries["requested"] == retries["sent"] == retries["executed"] > 0
    assert report["late_receipts"] >= retries["executed"]
    assert report["repeated_deliveries"] > 0
    assert report["execution_failures_recovered"] > 0
    assert set(report["per_gmp"]) == {"hyperlane", "axelar", "wormhole"}
    assert not _processes_of(tmp_path), "the demonstration left processes behind"


def _processes_of(home: Path) -> list[str]:
    """Command lines of processes that still work in the demonstration's folder."""
    found = []
    for process in psutil.process_iter(["environ", "cmdline"]):
        environment = process.info["environ"] or {}
        if environment.get("WAYBILL_HOME") == str(home):
            found.append(" ".join(process.info["cmdline"] or []))
    return found


@pytest.mark.timeout(180)
def test_an_interrupted_demonstration_leaves_no_process(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "bridge.cli", "demo"],
        env=environment | {"WAYBILL_HOME": str(tmp_path), "WAYBILL_PORT": str(free_ports(2)[0])},
        cwd=CHECKOUT,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            if "executed" in line:  # relayer and index run by now
                break
        process.send_signal(signal.SIGINT)
        process.stderr.read()
    assert process.wait(60) == 128 + signal.SIGINT
    assert not _processes_of(tmp_path), "the demonstration left processes behind"
