"""An index that kills itself: `python -m tests.spark.crashing_index DEPLOYMENT FOLDER POINT CALL`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from itertools import count
from pathlib import Path
from typing import Any

from bridge.protocol.deployment import Deployment
from indexer.jobs import stream
from indexer.jobs.index import run_index
from indexer.model.settings import IndexFolder, IndexSettings, SourceLimits, StallPolicy
from indexer.pipeline.bronze import Lake
from indexer.store import store

POINTS = (
    "in the middle of a transaction",
    "between store and checkpoint",
    "before the Delta commit",
    "between Delta commit and store",
)


def dying_at(call: int, step: Callable[..., Any]) -> Callable[..., Any]:
    """The step, but its `call`-th call kills the process before it does anything."""
    calls = count(1)

    @wraps(step)
    def counted(*arguments: Any, **named: Any) -> Any:
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(*arguments, **named)

    return counted


def arm(point: str, call: int) -> None:
    """Makes the step behind `point` the last thing that this process does, at its `call`-th call."""
    if point == POINTS[0]:
        store._save_position = dying_at(call, store._save_position)
    elif point == POINTS[1]:
        stream.request_retries = dying_at(call, stream.request_retries)  # type: ignore[attr-defined]  # dies in it
    elif point == POINTS[2]:
        Lake.append = dying_at(call, Lake.append)  # type: ignore[method-assign]  # dies in it
    elif point == POINTS[3]:
        store.Store.note_lake = dying_at(call, store.Store.note_lake)  # type: ignore[method-assign]  # dies in it
    else:
        raise ValueError(point)


if __name__ == "__main__":
    deployment, folder, point, call = sys.argv[1:]
    arm(point, int(call))
    settings = IndexSettings(
        folder=IndexFolder(path=Path(folder)),
        stall=StallPolicy(stall_after=60, max_lag=100_000),
        limits=SourceLimits(max_blocks_per_batch=20),
        lake_interval=0.01,
    )
    run_index(Deployment.from_json(Path(deployment).read_text(), deployment), settings, once=True)
