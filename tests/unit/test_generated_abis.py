"""The ABIs that Python and TypeScript use are those of the contracts as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
FORGE = CHECKOUT / "build" / "tools" / "bin" / "forge"


@pytest.mark.timeout(400)  # seconds; compiles the contracts if nobody has yet
def test_the_generated_abis_are_those_of_the_contracts() -> None:
    for command in ([str(FORGE), "build", "--quiet"], [sys.executable, "scripts/generate_abi.py", "--check"]):
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
