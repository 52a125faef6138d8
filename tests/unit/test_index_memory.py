"""What the index's processes allocate with, and what they give back."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = "import indexer.session, pyarrow; print(pyarrow.default_memory_pool().backend_name)"


@pytest.mark.parametrize(("told", "expected"), [(None, "system"), ("mimalloc", "mimalloc")])
def test_arrow_gives_back_what_it_frees_unless_it_is_told_otherwise(told: str | None, expected: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    environment |= {"ARROW_DEFAULT_MEMORY_POOL": told} if told else {}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, check=True, capture_output=True, text=True, timeout=60
    )
    assert found.stdout.strip() == expected


SCATTERED = """
import sys
import psutil
from indexer.jobs.maintain import give_back_memory

def resident():
    return psutil.Process().memory_info().rss >> 20

blocks = [bytes(1000) for _ in range(200_000)]
full = resident()
kept = blocks[::50]  # a few in every page or two: nothing that glibc gives back by itself
del blocks
freed = resident()
give_back_memory()
print(full, freed, resident())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only glibc keeps what is freed")
def test_maintenance_gives_back_what_was_freed_between_what_is_in_use() -> None:
    found = subprocess.run([sys.executable, "-c", SCATTERED], check=True, capture_output=True, text=True, timeout=60)
    full, freed, given_back = map(int, found.stdout.split())
    assert full - freed < 20
    assert freed - given_back > 100
