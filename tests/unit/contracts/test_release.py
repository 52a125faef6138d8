"""The contracts as they are deployed: every test that takes a router from an artifact, and every proof."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.test_suites import forge_counts

CHECKOUT = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.sweep, pytest.mark.timeout(3600)]  # seconds


def run(*arguments: str, **environment: str) -> str:
    command, settings = [sys.executable, "-m", *arguments], {**os.environ, **environment}
    done = subprocess.run(command, cwd=CHECKOUT, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_solidity_test_passes_on_the_deployed_code() -> None:
    counts = forge_counts(run("scripts.release", "--test", "tests/solidity/**/*.sol"))
    assert counts.passed > 500
    assert counts.failed == counts.skipped == 0


def test_every_proof_holds_via_ir() -> None:
    run("scripts.prove", FOUNDRY_VIA_IR="true", FOUNDRY_OUT="build/proofs/out", FOUNDRY_CACHE_PATH="build/proofs/cache")
