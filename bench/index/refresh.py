"""How long the tables take: all of them, a tenth more, a thousand messages more, and nothing new."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any, Final

from bench.index.history import MESSAGES_OF_A_BLOCK, fill_lake
from indexer.lake.lake import Lake
from indexer.pipeline.noted import Noted
from indexer.pipeline.refresh import refresh
from indexer.spark.session import batch_session

_FEW: Final = 1_000  # messages


def refresh_times(folder: Path, messages: int) -> dict[str, Any]:
    """Seconds of each refresh, silver and gold together.

    Args:
        folder: for the lake.
        messages: of the first refresh.
    """
    lake, taken, reached = Lake(folder / "lake"), dict[str, float](), 0
    sizes = {"first": messages, "a tenth more": messages // 10, "1,000 more": _FEW, "nothing new": 0}
    with batch_session(events=5 * messages) as spark:
        spark.range(1).collect()
        for name, number in sizes.items():
            blocks = -(-number // MESSAGES_OF_A_BLOCK)
            fill_lake(lake, reached, blocks)
            reached += blocks
            begun = time.monotonic()
            refresh(spark, lake, Noted())
            taken[name] = round(time.monotonic() - begun, 1)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return {"messages": messages, "refresh_s": taken, "refresh_mb": round(most / 1024)}
