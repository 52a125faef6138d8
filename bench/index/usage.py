"""What a piece of work takes of the machine: seconds, processor time and memory, of this process and all below it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

_SAMPLE_EVERY = 0.1  # seconds


@dataclass(slots=True)
class Usage:
    """What was used so far.

    Attributes:
        seconds: by the clock.
        cpu_s: seconds of processor time of all processes. The last tenth of a second of one that ends meanwhile is missing.
        peak_mb: the most resident memory, in megabytes.
    """

    seconds: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float = 0.0


@contextmanager
def usage() -> Iterator[Usage]:
    """Measures the block; the figures are complete at its end."""
    used, done = Usage(), threading.Event()
    before, latest = _processor_seconds(used), dict[int, float]()
    begun = time.monotonic()

    def look() -> None:
        latest.update(_processor_seconds(used))
        used.seconds = time.monotonic() - begun
        used.cpu_s = sum(seconds - before.get(process, 0.0) for process, seconds in latest.items())

    def watch() -> None:
        while not done.wait(_SAMPLE_EVERY):
            look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield used
    finally:
        done.set()
        thread.join()
        look()


def _processor_seconds(used: Usage) -> dict[int, float]:
    """By process; notes the memory of all of them."""
    found, resident = dict[int, float](), 0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
            resident += 0 if _is_forked_java(process) else process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    used.peak_mb = max(used.peak_mb, resident / 1e6)
    return found


def _is_forked_java(process: psutil.Process) -> bool:
    """Whether Java has just forked it to start a program: until then it has the same memory as Java, which counts once."""
    parent = process.parent()
    # The first process of the system, the parent of one whose own has ended, does not say which program it is.
    return process.exe().endswith("/java") and parent is not None and process.exe() == parent.exe()
