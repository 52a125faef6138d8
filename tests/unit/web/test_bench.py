"""`python -m bench.explorer` measures every page of the explorer, in Chromium as well, from the filling of a store to its figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.long
def test_every_page_is_measured_and_painted_but_downloads() -> None:
    target = ROOT / "build" / "bench" / "web.json"
    target.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "bench.explorer", "--messages", "2000"], cwd=ROOT, check=False, timeout=500)
    measured = json.loads(target.read_text())
    assert set(measured["pages"]) - set(measured["painted"]) == {"an export"}
    assert measured["messages"] == 2000
