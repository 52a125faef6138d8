"""Times refreshes of the tables: the first one beside DuckDB, then with 10% more messages, 1,000 more, and none."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any, Final

from bench.index.duckdb_tables import duckdb_seconds
from bench.index.history import MESSAGES_OF_A_BLOCK, fill_lake
from indexer.pipeline.bronze import Lake
from indexer.pipeline.refresh import StoreFacts, refresh
from indexer.spark.session import batch_session

_FEW: Final = 1_000  # messages


def refresh_times(folder: Path, messages: int) -> dict[str, Any]:
    """Returns the seconds of each refresh, silver and gold together, and the memory of Spark's largest process in MB.

    Args:
        folder: Folder for the lake.
        messages: Number of messages in the first refresh.
    """
    lake, seconds, height = Lake(folder / "lake"), dict[str, float](), 0
    sizes = {"first": messages, "a tenth more": messages // 10, "1,000 more": _FEW, "nothing new": 0}
    with batch_session(events=5 * messages) as spark:
        spark.range(1).collect()
        for name, number in sizes.items():
            blocks = -(-number // MESSAGES_OF_A_BLOCK)
            fill_lake(lake, height, blocks)
            height += blocks
            started = time.monotonic()
            refresh(spark, lake, StoreFacts())
            seconds[name] = round(time.monotonic() - started, 1)
            print(f"    refresh, {name}: {seconds[name]} s", flush=True)
            if name == "first":
                seconds["first, by DuckDB"] = duckdb_seconds(lake, folder / "duckdb")
                print(f"    the same by DuckDB alone: {seconds['first, by DuckDB']} s", flush=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"messages": messages, "refresh_s": seconds, "refresh_mb": round(peak / 1024)}
