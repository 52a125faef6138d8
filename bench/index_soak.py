"""Soak test: runs a real index for a long time beside two busy chains, and checks that its memory does not grow.

A separate process runs the index with Spark. Messages of all outcomes, requested retries and reorgs of up to
`_DEEPEST` blocks continue until the time is up; then the index must have exactly the chains' logs. Writes
`build/bench/index-soak.json`; the exit status is 0 only if all checks pass. Memory is resident memory, on Linux and
macOS.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from bridge.protocol.deployment import Deployment
from bridge.protocol.message import Message
from indexer.jobs.history import History
from indexer.jobs.index import run_index
from indexer.model.settings import IndexFolder, IndexSettings, SourceLimits, StallPolicy
from indexer.pipeline.bronze import Lake
from indexer.store.engine import reading_engine
from tests.spark.chain import AnvilChain, anvil_chain
from tests.spark.story import World, log_of
from tests.unit.indexer.world import absorbed, executed, received, retried

ROOT: Final = Path(__file__).resolve().parents[1]
RESULT: Final = ROOT / "build" / "bench" / "index-soak.json"

_MEBIBYTE: Final = 1 << 20
_SAMPLE_EVERY: Final = 5.0  # seconds
_ROUND: Final = 1.0  # seconds from one round of messages to the next
_MESSAGES_IN_A_ROUND: Final = 8
_REORG_EVERY: Final = 15  # rounds
_DEEPEST: Final = 12  # blocks, of a reorg
_MOST_GROWTH: Final = 1.10  # of the last third of the samples over the third before it
_PATIENCE: Final = 180.0  # seconds for the index to catch up in the end


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of the index's processes: memory in MiB, and CPU seconds used so far."""

    seconds: float
    processor: float
    python: float
    java: float
    threads: int
    files: int


def growth(values: Sequence[float]) -> float:
    """Returns the ratio of the last third's median to that of the third before; the first third is warm-up."""
    third = len(values) // 3
    return statistics.median(values[-third:]) / statistics.median(values[third:-third])


def cores(samples: Sequence[Sample]) -> float:
    """Returns the average number of cores that the index used after warm-up."""
    first, last = samples[len(samples) // 3], samples[-1]
    return round((last.processor - first.processor) / (last.seconds - first.seconds), 3)


def sample(process: psutil.Process, seconds: float) -> Sample:
    """Adds up the process and its children; a child that exits meanwhile is left out."""
    python = java = processor = 0.0
    threads = files = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            memory = one.memory_info().rss / _MEBIBYTE
            processor += sum(one.cpu_times()[:4])  # with those of its children that have ended
            is_java = "java" in one.name()
            threads += one.num_threads()
            files += one.num_fds()
        except psutil.NoSuchProcess:
            continue
        java, python = (java + memory, python) if is_java else (java, python + memory)
    return Sample(round(seconds, 1), round(processor, 1), round(python, 1), round(java, 1), threads, files)


class Traffic:
    """Generates messages, late and repeated deliveries, stalls, requested retries and reorgs."""

    def __init__(self, world: World, seed: int) -> None:
        """Seeds the traffic; it is reproducible as far as the index requests the same retries."""
        self._world = world
        self._dice = random.Random(seed)
        self._silent: dict[bytes, Message] = {}
        self._answered: set[tuple[bytes, int]] = set()
        self.messages = self.reorgs = self.retries = 0

    def round(self, number: int) -> None:
        """Runs one round of traffic."""
        sent = [self._world.new_message() for _ in range(_MESSAGES_IN_A_ROUND)]
        self._world.send(*sent, gmps=0b11)
        self.messages += len(sent)
        silent, *delivered = sent
        if number % 5:
            delivered = sent
        else:
            self._silent[silent.id] = silent
        self._world.beta.emit(*[log for one in delivered for log in (log_of(received(one, 1)), log_of(executed(one)))])
        self._world.beta.emit(*[log_of(received(one, 2)) for one in delivered])
        self._world.beta.emit(log_of(absorbed(self._dice.choice(delivered), 1)), by_adapter=True)
        if number % 10 == 0:
            self._answer_requests()
        if number % _REORG_EVERY == 0:
            self._reorganise(self._dice.choice((self._world.alpha, self._world.beta)))

    def _reorganise(self, chain: AnvilChain) -> None:
        chain.rpc("evm_increaseTime", 1)  # or the same blocks would come again
        chain.rpc("anvil_reorg", self._dice.randint(1, _DEEPEST), [])
        self.reorgs += 1

    def _answer_requests(self) -> None:
        if not self._world.store_is_there():
            return
        with self._world.reader() as reader:
            requests = reader.retry_requests()
        for request in requests:
            key = request.message_id, request.attempt
            message = self._silent.get(request.message_id)
            if message is None or key in self._answered:
                continue
            self._answered.add(key)
            self._world.alpha.emit(log_of(retried(message, request.attempt, 0b10)))
            self._world.deliver(message, 2)
            self.retries += 1


def index(deployment: Path, folder: Path) -> None:
    """Runs the index until it is told to stop, with the tasks of a long run at shorter intervals."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    settings = IndexSettings(
        folder=IndexFolder(path=folder),
        # Reorgs move the chains' clocks ahead of the wall's.
        stall=StallPolicy(stall_after=30, max_lag=100_000, requests_per_lane_minute=600),
        limits=SourceLimits(rollback_patience=0.5, poll_interval=0.1),
        lake_interval=5.0,
        refresh_interval=60.0,
        keep_ended=120,
        verify_interval=60.0,
    )
    run_index(Deployment.from_json(deployment.read_text(), str(deployment)), settings, stop=stop)


@contextmanager
def running_index(world: World, log: Path) -> Iterator[psutil.Popen]:
    """Runs the index process; at the end it is told to stop, and killed if it does not."""
    deployment = world.folder.parent / "deployment.json"
    deployment.write_text(world.deployment.to_json())
    command = [sys.executable, "-m", "bench.index_soak", "--index", str(deployment), str(world.folder)]
    with log.open("wb") as output:
        process = psutil.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield process
        process.terminate()
        process.wait(60)
    finally:
        if process.is_running():
            for child in process.children(recursive=True):
                child.kill()
            process.kill()
        process.wait()


def differences(world: World) -> dict[str, int]:
    """Returns, by chain, the numbers of logs that only the chain or only the index (lake and store) has."""
    engine = reading_engine(world.settings().folder.store_url)
    try:
        history = History(engine, Lake(world.settings().folder.lake))
        found = {}
        for chain in (world.alpha, world.beta):
            names = ("block_number", "log_index", "block_hash", "transaction_hash")
            events = history.events(chain.chain_id, 0, int(chain.head()["number"], 16), names)
            ours = set(zip(*[events[name].to_pylist() for name in names], strict=True))
            found[str(chain.chain_id)] = len(ours ^ chain.log_places()) + len(events) - len(ours)
        return found
    finally:
        engine.dispose()


def soak(minutes: float, seed: int) -> dict[str, Any]:
    """Runs the soak test and returns its figures."""
    with (
        tempfile.TemporaryDirectory(prefix="waybill-soak-") as name,
        anvil_chain(31337) as alpha,
        anvil_chain(31338) as beta,
    ):
        world = World(alpha, beta, Path(name) / "index")
        log = RESULT.with_suffix(".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        traffic, samples = Traffic(world, seed), list[Sample]()
        with running_index(world, log) as process:
            started = time.monotonic()
            _play(traffic, process, samples, started, started + 60 * minutes)
            caught_up = _wait(world, process)
            requests = _requests(world)
        return {
            "minutes": round((time.monotonic() - started) / 60, 1),
            "seed": seed,
            "messages": traffic.messages,
            "reorgs": traffic.reorgs,
            "retries_requested": requests,
            "retries_sent": traffic.retries,
            "blocks": {str(chain.chain_id): int(chain.head()["number"], 16) for chain in (alpha, beta)},
            "growth": {name: round(growth([getattr(one, name) for one in samples]), 3) for name in _JUDGED},
            "peak_mib": {name: max(getattr(one, name) for one in samples) for name in ("python", "java")},
            "cores": cores(samples),
            "caught_up": caught_up,
            "different_logs": differences(world),
            "samples": [asdict(one) for one in samples],
        }


_JUDGED: Final = ("python", "java", "threads", "files")


def _play(traffic: Traffic, process: psutil.Popen, samples: list[Sample], started: float, end: float) -> None:
    number = 0
    sampled = told = started
    while time.monotonic() < end:
        if process.poll() is not None:
            sys.exit(
                f"the index ended with {process.returncode} after {number} rounds: see {RESULT.with_suffix('.log')}"
            )
        number += 1
        next_round = time.monotonic() + _ROUND
        traffic.round(number)
        now = time.monotonic()
        if now - sampled >= _SAMPLE_EVERY:
            samples.append(sample(process, now - started))
            sampled = now
        if samples and now - told >= 60:
            print(f"{(now - started) / 60:5.1f} min  {traffic.messages} messages  {samples[-1]}", flush=True)
            told = now
        time.sleep(max(0.0, next_round - time.monotonic()))


def _wait(world: World, process: psutil.Popen) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while any(differences(world).values()):
        if time.monotonic() > deadline or process.poll() is not None:
            return False
        time.sleep(1)
    return True


def _requests(world: World) -> int:
    with world.reader() as reader:
        return len(reader.retry_requests())


def problems(found: dict[str, Any]) -> list[str]:
    """Returns the figures that violate a limit."""
    grown = [f"{name} grew {ratio:.2f} times" for name, ratio in found["growth"].items() if ratio > _MOST_GROWTH]
    lost = [f"chain {chain}: {count} logs differ" for chain, count in found["different_logs"].items() if count]
    return grown + lost + ([] if found["caught_up"] else ["the index did not catch up"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long messages are sent")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--index", nargs=2, type=Path, metavar=("DEPLOYMENT", "FOLDER"), help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.index:
        index(*told.index)
        return 0
    found = soak(told.minutes, told.seed)
    RESULT.write_text(json.dumps(found, indent=2) + "\n")
    wrong = problems(found)
    print(json.dumps({name: value for name, value in found.items() if name != "samples"}, indent=2))
    print(
        f"{RESULT.relative_to(ROOT)} written; "
        + ("; ".join(wrong) or "memory is flat, and the index is the chains' own logs")
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
