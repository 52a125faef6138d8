"""Has all of the command imported, and forks a process that runs it for whoever asks: importing takes seconds, forking does not.

python -m tests.anvil.running.server SOCKET     until its standard input ends

A client sends one line of JSON, the arguments and the environment, and with it the files that are to be standard output and
standard error. It gets the process's id, and the exit code when the process has ended. If the client goes away, the process is
killed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from bridge.cli import main
from tests.anvil.tracing import allow_tracing

LONGEST_REQUEST = 1 << 20  # bytes


def serve(path: str) -> None:
    """Answers until standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who serve one client
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal's Ctrl-C reaches all: who is left has to kill what it started
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listener.fileno(), sys.stdin.fileno()], [], [])
            if sys.stdin.fileno() in ready:
                return
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _process(connection)


def _process(connection: socket.socket) -> None:
    """Serves one client, in a process for it. Never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    line, files, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, 2)
    while not line.endswith(b"\n"):
        line += connection.recv(LONGEST_REQUEST)
    child = os.fork()
    if child == 0:
        connection.close()
        _run(json.loads(line), files)
    for file in files:
        os.close(file)
    connection.sendall(b"%d\n" % child)
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([ended, connection.fileno()], [], [])
    if ended not in ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if ended in ready:
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _run(request: dict[str, Any], files: Sequence[int]) -> None:
    """The command, as in a new interpreter. Never returns."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    allow_tracing()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for standard, given in enumerate(files, 1):
        os.dup2(given, standard)
        os.close(given)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["waybill", *request["arguments"]]
    code = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001  # an interpreter prints whatever nobody has caught
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
