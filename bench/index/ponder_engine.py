"""Ponder beside the index: brings it in, lets it index the history by the handlers in bench/index/ponder, and keeps its rows."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from psycopg import sql
from psycopg.rows import dict_row

from bench.index.endpoint import WHOLE
from bench.index.history import ROUTER, SOURCE
from bench.index.naive import COLUMNS
from tests.anvil.rpc import free_ports
from tests.postgresql import running_postgresql

_PROJECT: Final = Path(__file__).with_name("ponder")
_HOME: Final = Path("build/tools/ponder")
_PATIENCE: Final = 1800  # seconds, for a million logs on a busy machine
_LOOK: Final = 0.1  # seconds between two looks, so that answering them is no work
_SCHEMA: Final = "bench"
_TABLES: Final = {  # of bench/index/ponder/ponder.schema.ts
    "MessageIdCreated": "message_id_created",
    "MessageRouted": "message_routed",
    "MessageReceived": "message_received",
    "MessageExecuted": "message_executed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Seconds from starting the process until it began to read, and until all was indexed."""

    start: float
    whole: float


def ponder_is_there() -> bool:
    """Brings in Ponder from the package registry by its lock file, for this measurement alone."""
    lock = _HOME / "package-lock.json"
    whole = _HOME / "node_modules" / ".package-lock.json"  # what npm writes last
    locked = lock.exists() and lock.read_bytes() == (_PROJECT / lock.name).read_bytes()
    # A copy, since Ponder writes beside what it runs.
    shutil.copytree(_PROJECT, _HOME, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    if locked and whole.exists():
        return True
    return subprocess.run(["npm", "ci", "--loglevel=error"], cwd=_HOME, check=False).returncode == 0


def run_ponder(url: str, blocks: int, folder: Path) -> Timed:
    """Indexes the first blocks into a new PostgreSQL, with which Ponder is faster than with the PGlite that it brings.

    Args:
        url: the endpoint's.
        blocks: how many.
        folder: a new one, for what the tables have afterwards: Parquet with columns of the lake.
    """
    folder.mkdir(parents=True)
    (port,), log = free_ports(1), folder / "log"
    settings = {
        "WAYBILL_BENCH_CHAIN": str(SOURCE),
        "WAYBILL_BENCH_LAST_BLOCK": str(blocks - 1),
        "WAYBILL_BENCH_ROUTER": f"0x{ROUTER.hex()}",
        "WAYBILL_BENCH_URL": url + WHOLE,
    }
    with running_postgresql() as server:
        begun = time.monotonic()
        with (
            _running(settings | {"DATABASE_URL": server.new_url()}, port, log) as process,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_PATIENCE, trust_env=False) as client,
        ):
            start = _once_it_answers(client, "/health", process, log) - begun
            whole = _once_it_answers(client, "/ready", process, log) - begun
        _keep_rows(server.conninfo, folder / "rows.parquet")
    return Timed(start=start, whole=whole)


@contextmanager
def _running(settings: Mapping[str, str], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Ponder's process; it and all that it has started end with the block, however that ends."""
    # Another variable of this kind would name another database, and come first.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DATABASE_")}
    environment |= {**settings, "PONDER_TELEMETRY_DISABLED": "true"}
    command = ["node_modules/.bin/ponder", "start", "--schema", _SCHEMA, "--hostname", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=_HOME, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        # It has a second for its own end: all that is read afterwards has been committed.
        for end in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, end)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=1)
        process.wait()


def _once_it_answers(client: httpx.Client, path: str, process: subprocess.Popen[bytes], log: Path) -> float:
    """The moment at which a path has its first good answer."""
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(httpx.TransportError):
            if client.get(path).is_success:
                return time.monotonic()
        time.sleep(_LOOK)
    raise RuntimeError(f"Ponder has no {path}; the end of what it said:\n{log.read_text()[-3000:]}")


def _keep_rows(conninfo: str, out: Path) -> None:
    """Writes what the tables have, by the names and types of the lake."""
    rows = []
    with psycopg.connect(conninfo, row_factory=dict_row) as connection:
        for event, table in _TABLES.items():
            found = connection.execute(sql.SQL("select * from {}").format(sql.Identifier(_SCHEMA, table)))
            rows += [
                {"event": event} | {name: _value(row.get(name)) for name in COLUMNS if name != "event"} for row in found
            ]
    pq.write_table(pa.Table.from_pylist(rows), out)


def _value(found: Any) -> Any:
    return bytes.fromhex(found.removeprefix("0x")) if isinstance(found, str) else found
