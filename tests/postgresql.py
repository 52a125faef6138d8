"""A real PostgreSQL server of one's own: in a temporary folder, on a Unix socket, started and stopped by the tests."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from scripts.setup_postgresql import find_postgresql
from tests.waiting import PATIENCE

PORT = 5432  # names the socket's file; nothing listens on the network
SERVANT = "nobody"  # whom the server runs as when the tests run as root, which PostgreSQL refuses

_schemas = itertools.count(1)


class Server:
    """One server. Its data outlive its process, as on a machine that lost power: `kill`, then `start`."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        """Makes an empty cluster; `durable` waits for the disk at every commit, as a machine in use should."""
        self._folder = folder
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._thaw: threading.Timer | None = None  # lets it go on after `freeze`
        self._programs = find_postgresql()
        self._identity: Mapping[str, Any] = {}
        if os.geteuid() == 0:
            servant = pwd.getpwnam(SERVANT)
            os.chown(folder, servant.pw_uid, servant.pw_gid)
            self._identity = {"user": servant.pw_uid, "group": servant.pw_gid, "extra_groups": []}
        self._command = [str(self._programs / "postgres"), "-D", str(self._data), "-k", str(folder), "-p", str(PORT)]
        self._command += ["-c", "listen_addresses=", "-c", f"fsync={'on' if durable else 'off'}"]
        # initdb takes fewer than the usual where little shared memory is free; every test shares this server.
        self._command += ["-c", "max_connections=100", "-c", "max_locks_per_transaction=256"]
        self._run("initdb", "-D", str(self._data), "-U", "waybill", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            **self._identity,
        )
        assert done.returncode == 0, (
            f"{program} failed as {SERVANT if self._identity else 'this user'}: {done.stdout}{done.stderr}"
        )

    def start(self) -> None:
        """Starts the process, and waits until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._identity,
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.conninfo).close()
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < deadline, "PostgreSQL does not answer"
                time.sleep(0.05)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Ends the process: SIGINT closes every connection at once, SIGQUIT is a crash that has to be recovered from."""
        if self._process is None:
            return
        if self._thaw is not None:
            self._thaw.join()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(how)
        self._process.wait(PATIENCE)
        self._process = None

    def freeze(self, seconds: float) -> None:
        """Stops all its processes, which then answer nothing and close nothing, and lets them go on after a while."""
        assert self._process is not None
        group = self._process.pid  # each server has a session of its own
        os.killpg(group, signal.SIGSTOP)
        self._thaw = threading.Timer(seconds, os.killpg, (group, signal.SIGCONT))
        self._thaw.start()

    @property
    def conninfo(self) -> str:
        """How psycopg connects."""
        return f"host={self._folder} port={PORT} user=waybill dbname=postgres"

    def new_url(self) -> str:
        """The URL of an empty schema of its own, as an operator would give it."""
        schema = f"store_{next(_schemas)}"
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}")
        options = quote(f"-csearch_path={schema}")
        return f"postgresql://waybill@/postgres?host={quote(str(self._folder))}&port={PORT}&options={options}"


@contextmanager
def running_postgresql(*, durable: bool = False) -> Iterator[Server]:
    """A server that ends with the block, and leaves nothing behind."""
    # Not below pytest's own folder: that one is closed to other users, and root's server runs as one.
    folder = Path(tempfile.mkdtemp(prefix="waybill-pg-"))
    try:
        server = Server(folder, durable=durable)
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)  # nothing of it is kept
    finally:
        shutil.rmtree(folder, ignore_errors=True)
