"""(f) Who decides that a message is stalled: the store's tick, or Spark's state. Both in turns, each in processes of its own.

`python -m bench.index.stateful DEPLOYMENT FOLDER MODE` runs one of them until it is killed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from bench.index.requests import STALL_AFTER, indexed_message, make_overdue, one_request, until_requested
from bridge.protocol.deployment import Deployment
from bridge.protocol.message import Kind
from indexer.jobs.index import run_index
from indexer.model.settings import IndexFolder, IndexSettings, SourceLimits, StallPolicy
from indexer.store.analytics import percentile
from tests.spark.chain import anvil_chain
from tests.spark.story import World, log_of
from tests.unit.indexer.world import received

_MODES: Final = ("tick", "state")
_ROUNDS: Final = 2
_WARM_UP: Final = 5
_WAITING: Final = 3_000  # messages that wait all the time
_AT_ONCE: Final = 100  # of them in a block
_IDLE_BLOCKS: Final = 15  # empty ones on each chain, one every two seconds
_BLOCK_TIME: Final = 2.0  # seconds


@dataclass(slots=True)
class _Figures:
    requests_ms: list[int] = field(default_factory=list[int])
    idle_cores: list[float] = field(default_factory=list[float])
    memory_mb: list[int] = field(default_factory=list[int])
    recovery_s: list[float] = field(default_factory=list[float])


def stateful(folder: Path, events: int) -> dict[str, Any]:
    """Figures of each, by mode: from an event to its request, processor time and memory, and from a start after a kill."""
    found = {mode: _Figures() for mode in _MODES}
    for round_ in range(_ROUNDS):
        for mode, figures in found.items():
            with anvil_chain(31337) as alpha, anvil_chain(31338) as beta:
                _measure(World(alpha, beta, folder / f"{mode}-{round_}"), mode, events // _ROUNDS, figures)
    return {"stateful": {mode: _summary(figures) for mode, figures in found.items()}}


def _measure(world: World, mode: str, events: int, figures: _Figures) -> None:
    _send_waiting(world)
    with _index(world, mode) as index:
        taken = [one_request(world) for _ in range(_WARM_UP + events)]
        figures.requests_ms += [round(1000 * seconds) for seconds in taken[_WARM_UP:]]
        before, begun = _processor_seconds(index), time.monotonic()
        for _ in range(_IDLE_BLOCKS):
            for chain in (world.alpha, world.beta):
                chain.mine(1)
            time.sleep(_BLOCK_TIME)
        figures.idle_cores.append((_processor_seconds(index) - before) / (time.monotonic() - begun))
        figures.memory_mb.append(round(sum(one.memory_info().rss for one in _processes(index)) / 2**20))
        message = indexed_message(world)
    make_overdue(world, message)
    begun = time.monotonic()
    with _index(world, mode):
        until_requested(world, message)
        figures.recovery_s.append(time.monotonic() - begun)


def _send_waiting(world: World) -> None:
    """Messages with one of two receipts, of a kind that has until long after the measurement."""
    for _ in range(_WAITING // _AT_ONCE):
        sent = [world.new_message(quorum=2, sent_at=world.beta.time(), kind=Kind.STATE_SYNC) for _ in range(_AT_ONCE)]
        world.send(*sent, gmps=0b11)
        world.beta.emit(*[log_of(received(one, 1)) for one in sent])


@contextmanager
def _index(world: World, mode: str) -> Iterator[psutil.Process]:
    """An index, killed at the end with all its processes."""
    world.folder.mkdir(parents=True, exist_ok=True)
    deployment = world.folder / "deployment.json"
    deployment.write_text(world.deployment.to_json())
    with (world.folder / "index.log").open("ab") as log:
        command = [sys.executable, "-m", "bench.index.stateful", str(deployment), str(world.folder), mode]
        index = psutil.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield index
    finally:
        for process in reversed(_processes(index)):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        index.wait()


def _processes(index: psutil.Process) -> list[psutil.Process]:
    return [index, *index.children(recursive=True)]


def _processor_seconds(index: psutil.Process) -> float:
    return sum(times.user + times.system for times in (one.cpu_times() for one in _processes(index)))


def _summary(figures: _Figures) -> dict[str, float | list[float]]:
    taken = sorted(figures.requests_ms)
    return {
        "p50_ms": percentile(taken, 0.5),
        "p95_ms": percentile(taken, 0.95),
        "events": len(taken),
        "idle_cores": round(sum(figures.idle_cores) / len(figures.idle_cores), 3),
        "memory_mb": max(figures.memory_mb),
        "recovery_s": [round(one, 1) for one in figures.recovery_s],
    }


def _run(deployment: str, folder: str, mode: str) -> None:
    settings = IndexSettings(
        folder=IndexFolder(path=Path(folder)),
        stall=StallPolicy(
            stall_after=STALL_AFTER,
            max_lag=1_000_000,
            requests_per_lane_minute=1_000_000,
            by_kind={Kind.STATE_SYNC: 10_000_000},
        ),
        limits=SourceLimits(poll_interval=0.1),
        stateful=mode == "state",
    )
    run_index(Deployment.from_json(Path(deployment).read_text(), deployment), settings)


if __name__ == "__main__":
    _run(*sys.argv[1:])
