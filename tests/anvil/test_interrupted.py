"""Ctrl-C in the middle of a test leaves none of the commands that the test has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.devnet import Devnet
from tests.anvil.command import new_home
from tests.waiting import eventually

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
TEST = """
import pathlib, sys, time
from tests.anvil.relayers import Process
home = pathlib.Path(sys.argv[1])
relayer = Process(home, home / "relayer.log")  # it is killed when nothing refers to it any more
print(relayer.pid, flush=True)
time.sleep(60)
"""


def test_a_terminals_interrupt_which_reaches_all_at_once_ends_the_relayer_that_a_test_runs(
    devnet: Devnet, tmp_path: Path
) -> None:
    home = new_home(devnet, tmp_path)
    command = [sys.executable, "-c", TEST, str(home)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as test:
        assert test.stdout is not None
        relayer = Path(f"/proc/{int(test.stdout.readline())}")
        assert relayer.exists(), (home / "relayer.log").read_text()
        os.killpg(test.pid, signal.SIGINT)
    eventually(lambda: not relayer.exists(), (home / "relayer.log").read_text)
