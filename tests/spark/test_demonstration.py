"""A demonstration that is interrupted; a whole one is in test_quickstart.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.anvil.rpc import free_ports
from tests.spark.test_quickstart import processes_of

pytestmark = pytest.mark.long

CHECKOUT = Path(__file__).resolve().parents[2]


def test_an_interrupted_demonstration_leaves_no_process(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "bridge.cli", "demo"],
        env=environment | {"WAYBILL_HOME": str(tmp_path), "WAYBILL_PORT": str(free_ports(3)[0])},
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
    assert not processes_of(tmp_path), "the demonstration left processes behind"
