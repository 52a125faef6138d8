"""A running index whose Spark is taken from it: it starts another one, loses nothing, and ends at once when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from sqlalchemy.exc import OperationalError

from tests.spark.story import World
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.long


@contextmanager
def running_index(home: Path, log: Path) -> Iterator[psutil.Process]:
    """`waybill index run` in a process of its own, ended by Ctrl-C if it still runs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WAYBILL_")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "bridge.cli", "index", "run"],
            env={**environment, "WAYBILL_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def jvm(index: psutil.Process) -> psutil.Process | None:
    """The index's JVM, once it is more than its launching script."""
    found = [child for child in index.children(recursive=True) if child.name() == "java"]
    return found[0] if found else None


def until(is_so: Callable[[], object], what: str, log: Path) -> None:
    eventually(is_so, lambda: f"{what}: {log.read_text()[-3_000:]}")


def has_caught_up(world: World) -> bool:
    try:
        return (world.folder / "index.db").exists() and world.equals_chains()
    except OperationalError:  # its tables are being made
        return False


def test_an_index_whose_jvm_is_killed_starts_another_and_goes_on(world: World, tmp_path: Path) -> None:
    home, log = tmp_path / "a home", tmp_path / "index.log"
    (home / "deployments").mkdir(parents=True)
    (home / "deployments" / "devnet.json").write_text(world.deployment.to_json())
    world.folder = home / ".waybill" / "devnet"
    world.tell_a_story()
    with running_index(home, log) as index:
        until(lambda: has_caught_up(world), "it has caught up", log)
        first = jvm(index)
        refused = subprocess.run(
            [sys.executable, "-m", "bridge.cli", "index", "run", "--once"],
            env={**os.environ, "WAYBILL_HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (refused.returncode, f"(process {index.pid})" in refused.stderr) == (1, True), refused.stderr
        assert first is not None
        first.kill()
        world.send(world.new_message())
        until(world.equals_chains, "it goes on", log)
        second = jvm(index)
        assert second is not None
        assert second.pid != first.pid
        told = log.read_text()
        assert told.count("stream failed, restarting") == 1
        assert "Traceback" not in told
        assert "Py4J" not in told
        children = index.children(recursive=True)
        world.send(world.new_message())  # perhaps it is at work
        os.killpg(index.pid, signal.SIGINT)  # as a terminal does, to Java and its workers as well
        assert index.wait(30) == 0
    assert not psutil.wait_procs(children, timeout=15)[1]
    ended = log.read_text().removeprefix(told)
    assert ended.rstrip().endswith("stopped"), ended
    assert all(word not in ended for word in ("Traceback", "Exception", "java.", "stream failed")), ended
