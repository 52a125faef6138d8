"""Notes the functions that are called, in each Python process that has this folder on PYTHONPATH.

WAYBILL_CALL_TRACE names a folder. While the first byte of its file `switch` is not 0, each process adds a line to a file of its own
there for each function that is called for the first time with this byte: the byte, the function's first line and its source file.
Python imports this module by itself, because of its name.

A process is traced from its start on: a thread that runs already can't be traced. Until the switch is on, a call costs one look
at a byte that all processes share.
"""

from __future__ import annotations

import inspect
import mmap
import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

VARIABLE = "WAYBILL_CALL_TRACE"
SWITCH = "switch"


def open_switch(folder: Path) -> mmap.mmap:
    """The byte that turns the trace on and off, shared by all processes."""
    with (folder / SWITCH).open("r+b") as file:
        return mmap.mmap(file.fileno(), 1)


def trace_calls(folder: Path) -> None:
    """Trace this process, and the threads that it starts from now on."""
    switch = open_switch(folder)
    seen: set[tuple[int, CodeType]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        phase = switch[0]
        if not phase or event != "call" or (phase, frame.f_code) in seen:
            return
        seen.add((phase, frame.f_code))
        # The body of a module or class is no function. What dataclasses generate has no file, but its module's globals.
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED and (file := frame.f_globals.get("__file__")):
            with (folder / f"{os.getpid()}.calls").open("a") as calls:
                calls.write(f"{phase} {frame.f_code.co_firstlineno} {file}\n")

    threading.setprofile(note)
    sys.setprofile(note)


if VARIABLE in os.environ:
    trace_calls(Path(os.environ[VARIABLE]))
