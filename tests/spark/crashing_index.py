"""An index that kills itself: `python -m tests.spark.crashing_index DEPLOYMENT FOLDER POINT`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from bridge.protocol.deployment import Deployment
from indexer.jobs import stream
from indexer.jobs.index import run_index
from indexer.settings import IndexFolder, IndexSettings, SourceLimits, StallPolicy
from indexer.sinks import store
from indexer.sinks.lake import Lake

POINTS = (
    "in the middle of a transaction",
    "between store and checkpoint",
    "between Parquet and Delta commit",
    "between Delta commit and store",
)


def die(*_: object, **__: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("survived")


def arm(point: str) -> None:
    """Makes the step behind `point` the last thing that this process does."""
    if point == POINTS[0]:
        store._save_position = die
    elif point == POINTS[1]:
        stream.request_retries = die  # type: ignore[attr-defined]
    elif point == POINTS[2]:
        Lake.commit = die  # type: ignore[method-assign]
    elif point == POINTS[3]:
        store.Store.note_lake = die  # type: ignore[method-assign]
    else:
        raise ValueError(point)


if __name__ == "__main__":
    deployment, folder, point = sys.argv[1:]
    arm(point)
    settings = IndexSettings(
        folder=IndexFolder(path=Path(folder)),
        stall=StallPolicy(stall_after=60, max_lag=100_000),
        limits=SourceLimits(max_blocks_per_batch=20),
        lake_interval=0.01,
    )
    run_index(Deployment.from_json(Path(deployment).read_text(), deployment), settings, once=True)
