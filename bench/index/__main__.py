"""`make bench-index`: ingest, refreshes, retry requests, cold start and waiting, into build/bench/index.json and a plot.

Everything is measured in one run on the machine at hand, and what is compared takes turns; ratios say more than figures.
Each part has a process of its own, so that none pays for memory that another has taken.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from bench.bar_chart import bar_chart
from bench.index.endpoint import endpoint
from bench.index.idle import idle
from bench.index.ingest import ingest
from bench.index.refresh import refresh_times
from bench.index.requests import request_latency
from bridge.cli.logs import configure_logging
from indexer.spark.session import spark_session

RESULT: Final = Path("build/bench/index.json")
PARTS: Final = ("cold", "ingest", "refresh", "requests", "idle")


def main() -> None:
    """Measures, prints and writes; parts that are not requested keep the figures of the last run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1_000_000, help="to read from an endpoint")
    parser.add_argument("--messages", type=int, default=10_000_000, help="whose tables to refresh")
    parser.add_argument("--events", type=int, default=60, help="that are to give rise to a retry request")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part; may be repeated")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started ends with this process
    parts = chosen.only or list(PARTS)
    if len(parts) > 1:
        sizes = [f"--{name}={getattr(chosen, name)}" for name in ("logs", "messages", "events")]
        for part in parts:
            _run_apart([sys.executable, "-m", "bench.index", f"--only={part}", *sizes])
        print(f"figures are in {RESULT}, the plot is {RESULT.with_suffix('.svg')}")
        return
    configure_logging(level=logging.WARNING)
    _note(_measured(parts[0], chosen))


def _run_apart(command: list[str]) -> None:
    """Waits for a part.

    `subprocess.run` would kill it on Ctrl-C before it has stopped its servers.
    """
    with subprocess.Popen(command) as process:
        try:
            code = process.wait()
        except SystemExit:
            process.terminate()
            raise
    if code:
        raise subprocess.CalledProcessError(code, command)


def _measured(part: str, sizes: argparse.Namespace) -> dict[str, Any]:
    """Returns the figures of one part."""
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as name:
        folder = Path(name)
        of_part: dict[str, Callable[[], dict[str, Any]]] = {
            "cold": lambda: {"first_row_s": _cold_start()},
            "ingest": lambda: _in_session(lambda spark: ingest(spark, folder, sizes.logs)),
            "refresh": lambda: refresh_times(folder, sizes.messages),
            "requests": lambda: _in_session(
                lambda spark: {"retry_request_ms": request_latency(spark, folder / "requests", sizes.events)}
            ),
            "idle": lambda: idle(folder),
        }
        return of_part[part]()


def _in_session(work: Callable[[SparkSession], dict[str, Any]]) -> dict[str, Any]:
    with spark_session() as spark:
        spark.range(1).collect()
        return work(spark)


def _note(figures: Mapping[str, Any]) -> None:
    """Adds figures to those of earlier parts, so that an interrupted run keeps them."""
    found: dict[str, Any] = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    found |= {**figures, "cores": os.cpu_count(), "load_average": round(os.getloadavg()[0], 1)}
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(found, indent=2) + "\n")
    RESULT.with_suffix(".svg").write_text(bar_chart(_groups(found)))
    print(json.dumps(figures), flush=True)


def _cold_start() -> float:
    """Returns the seconds from starting Python to the first row of a chain in Spark."""
    with endpoint(2) as url:
        begun = time.monotonic()
        subprocess.run([sys.executable, "-m", "bench.index.first_row", url], check=True, stderr=subprocess.DEVNULL)
        return round(time.monotonic() - begun, 2)


def _groups(found: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Returns the figures in the plot's form."""
    names = {"ingest": "index", "naive": "plain web3.py source", "cryo": "cryo", "ponder": "Ponder"}
    rates = {shown: found.get(f"{name}_logs_per_s") for name, shown in names.items()}
    latency = found.get("retry_request_ms", {})
    return {
        "RPC to tables, logs per second": {name: rate for name, rate in rates.items() if rate},
        f"refresh of {found.get('messages', 0):,} messages, seconds": found.get("refresh_s", {}),
        "event to retry request, ms": {name: latency[name] for name in ("p50", "p95") if name in latency},
    }


if __name__ == "__main__":
    main()
