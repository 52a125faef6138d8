"""Seeds of the tests that draw: fixed in `make test`, and one for each run of `make test-all`, which prints it."""

from __future__ import annotations

import os
import random

SEED = os.environ.get("WAYBILL_TEST_SEED", "")
"""The seed of this run; empty in `make test`."""


def dice(purpose: str) -> random.Random:
    """Return a generator for one sample; samples of different purposes are independent."""
    return random.Random(f"{purpose} {SEED}")
