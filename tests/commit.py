"""The commit that is tested: it seeds samples, which are others with every commit and the same ones for the same commit."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def seeded_by_commit(what: str) -> random.Random:
    """Dice for one sample; `what` keeps it from going with others."""
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return random.Random(f"{what} {git.stdout.strip()}")
