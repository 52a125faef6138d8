"""A Spark standalone cluster of one's own: a master and workers, each a process of PySpark's wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from indexer.spark.java import java_home
from tests.anvil.rpc import free_ports
from tests.waiting import eventually

SPARK_HOME = Path(pyspark.__file__).parent


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster.

    Attributes:
        master: its URL.
        workers: by worker, the folder in which each of its executors has one of its own.
        processes: the workers'.
    """

    master: str
    workers: list[Path]
    processes: list[subprocess.Popen[bytes]]

    def executors(self) -> list[list[Path]]:
        """By worker, the logs of the executors that it has run."""
        return [sorted(folder.glob("app-*/*/stderr")) for folder in self.workers]

    def kill(self, worker: int) -> None:
        """Kills a worker and its executors as a power cut would."""
        process = psutil.Process(self.processes[worker].pid)
        for one in (process, *process.children(recursive=True)):
            one.kill()


@contextmanager
def standalone_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """Starts it, and ends all of it with the block."""
    (port,) = free_ports(1)
    url = f"spark://127.0.0.1:{port}"
    folders = [folder / f"worker-{number}" for number in range(workers)]
    processes: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        master = [
            "org.apache.spark.deploy.master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--webui-port",
            "0",
        ]
        stack.enter_context(_running(master, folder / "master.log"))
        _wait_for(folder / "master.log", "I have been elected leader")
        for place in folders:
            place.mkdir(parents=True)
            worker = [
                "org.apache.spark.deploy.worker.Worker",
                "--host",
                "127.0.0.1",
                "--webui-port",
                "0",
                "--cores",
                "1",
            ]
            worker += ["--memory", "1g", "--work-dir", str(place), url]
            processes.append(stack.enter_context(_running(worker, place / "log")))
            _wait_for(place / "log", "Successfully registered with master")
        yield Cluster(url, folders, processes)


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.terminate()  # a worker takes its executors with it
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(log: Path, text: str) -> None:
    eventually(lambda: text in log.read_text(errors="replace"), lambda: log.read_text(errors="replace")[-2_000:])
