"""The data source `evm`: what Spark's planning processes import of it."""

from __future__ import annotations

import subprocess
import sys


def test_planning_with_the_source_imports_nothing_that_reads_chains() -> None:
    imported = "import sys, indexer.sources.evm; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", imported], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "pyspark.sql.datasource" in modules
    assert not {"indexer.sources.chain", "indexer.sources.tail", "pyarrow", "numpy", "pydantic"} & set(modules)
