"""strace on a process that runs: kills it at a system call, or lets its system calls fail."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.debian import find_program
from tests.waiting import PATIENCE, eventually

_PR_SET_PTRACER = 0x59616D61
_ANYBODY = -1


def allow_tracing() -> None:
    """Lets any process of the same user trace this one, where only a parent may otherwise."""
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)


def attach(pid: int, inject: str, folder: Path) -> subprocess.Popen[bytes]:
    """Starts strace on a process and its threads, and returns once it holds it.

    Args:
        pid: of the process.
        inject: what strace shall do, such as ``fsync:error=EIO``; the part before the colon names the system calls.
        folder: where its logs go.
    """
    calls = inject.partition(":")[0]
    command = [
        str(find_program("strace", "strace", with_dependencies=True)),
        "-f",
        "-p",
        str(pid),
        "-o",
        str(folder / "trace"),
        "-e",
        f"trace={calls}",
    ]
    with (folder / "strace.log").open("wb") as log:
        tracer = subprocess.Popen([*command, "-e", f"inject={inject}"], stdout=log, stderr=log)
    eventually(
        lambda: tracer.poll() is not None or "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text(),
        "strace has attached",
    )
    assert tracer.poll() is None, f"strace can't attach: {(folder / 'strace.log').read_text()}"
    return tracer


@contextmanager
def injected(pid: int, inject: str, folder: Path) -> Iterator[None]:
    """While this holds, strace does something to a process's system calls; then it lets go of it."""
    tracer = attach(pid, inject, folder)
    try:
        yield
    finally:
        tracer.terminate()
        tracer.wait(PATIENCE)
