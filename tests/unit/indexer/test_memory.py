"""What the index's processes allocate with."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = "import indexer.spark.session, pyarrow; print(pyarrow.default_memory_pool().backend_name)"


@pytest.mark.parametrize(("told", "expected"), [(None, "system"), ("mimalloc", "mimalloc")])
def test_arrow_gives_back_what_it_frees_unless_it_is_told_otherwise(told: str | None, expected: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    environment |= {"ARROW_DEFAULT_MEMORY_POOL": told} if told else {}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, check=True, capture_output=True, text=True, timeout=60
    )
    assert found.stdout.strip() == expected
