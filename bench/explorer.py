"""Measures the explorer's response times with a large store: `python -m bench.explorer`, into build/bench/web.json."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from bench.filled_index import CHAINS, fill
from bridge.protocol.deployment import Deployment
from bridge.service.listening import listening_at
from bridge.service.serving import serving
from bridge.web import ExplorerSettings, Sources, create_app
from indexer.store.browser import IndexBrowser

ROOT = Path(__file__).resolve().parents[1]
GOAL_MS = 50
_TRIES = 7
_CONTRACT = "0x00000000000000000000000000000000000000A1"


def deployment() -> Deployment:
    chains: list[dict[str, object]] = [
        {
            "chainId": chain_id,
            "name": f"chain-{chain_id}",
            "rpcUrls": ["http://127.0.0.1:1"],
            "startBlock": 0,
            "confirmations": 1,
            "router": _CONTRACT,
            "adapters": {},
            "gmps": {},
        }
        for chain_id in CHAINS
    ]
    return Deployment.model_validate({"version": 1, "network": "bench", "chains": chains})


Figures = dict[str, dict[str, float]]
"""By page: `first_ms` and `median_ms`, in milliseconds."""


def explorer(url: str, ids: list[bytes], now: int) -> tuple[FastAPI, dict[str, str]]:
    """Creates the explorer of a store; returns it with the pages to load by name."""
    index = IndexBrowser(url, clock=lambda: now)
    found = index.message(ids[0])
    assert found is not None
    assert found.sender is not None
    assert found.source_transaction is not None
    sources = Sources(deployment=deployment(), index=lambda: index, store=lambda: None, clock=lambda: now)
    return create_app(sources, ExplorerSettings(requests_per_minute=100_000)), {
        "home": "/",
        "messages": "/messages",
        "stalled": "/messages?status=stalled",
        "a lane": f"/messages?source={CHAINS[0]}&destination={CHAINS[1]}",
        "a GMP and a kind": "/messages?gmp=ccip&kind=query",
        "nothing passes": "/messages?kind=report",
        "executed": "/messages?status=executed",
        "stalled, of a GMP": "/messages?status=stalled&gmp=ccip",
        "an address": f"/messages?account=0x{found.sender[12:].hex()}",
        "a message": f"/message/0x{ids[0].hex()}",
        "a search for a transaction": f"/search?q=0x{found.source_transaction.hex()}",
        "lanes": "/lanes",
        "GMPs": "/gmps",
        "status": "/status",
        "faults": "/faults",
    }


async def answered(app: FastAPI, paths: dict[str, str]) -> Figures:
    """Measures the server's response times in milliseconds."""
    taken: Figures = {}
    async with AsyncClient(transport=ASGITransport(app), base_url="http://explorer", timeout=60) as client:
        for name, path in paths.items():
            times = []
            for _ in range(_TRIES):
                started = time.perf_counter()
                answer = await client.get(path)
                times.append((time.perf_counter() - started) * 1000)
                assert answer.status_code in (200, 303), f"{path}: {answer.status_code}"
            taken[name] = _figures(times)
    return taken


async def painted(app: FastAPI, paths: dict[str, str]) -> Figures:
    """Measures the milliseconds until Chromium's first paint of each page.

    Raises:
        RuntimeError: Chromium failed, or a page was not painted.
    """
    async with serving(app, listening_at("127.0.0.1:0")) as url:
        command = ("node", "--conditions=source", "--import", "tsx", "bench/pages.ts", url, *paths.values())
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT / "dapp", stdout=asyncio.subprocess.PIPE)
        told, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"dapp/bench/pages.ts ended with {process.returncode}")
    times = json.loads(told)
    return {name: _figures(times[path]) for name, path in paths.items()}


def _figures(times: list[float]) -> dict[str, float]:
    return {"first_ms": round(times[0], 1), "median_ms": round(statistics.median(times), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="how many to put into the store")
    count = parser.parse_args().messages
    store = ROOT / "build" / "bench" / f"web-{count}.db"
    store.parent.mkdir(parents=True, exist_ok=True)
    now = 1_800_000_000
    print(f"putting {count} messages into {store}, after those that are there", flush=True)
    started = time.monotonic()
    ids = fill(f"sqlite:///{store}", count, now)
    print(f"  took {time.monotonic() - started:.0f} s", flush=True)
    with store.open("rb") as file:
        while file.read(1 << 24):
            pass  # into the operating system's cache, where a store is that an index writes to
    app, paths = explorer(f"sqlite:///{store}", ids, now)
    pages = asyncio.run(answered(app, paths))
    seen = asyncio.run(painted(app, paths))
    slow = [name for name, figures in pages.items() if max(figures.values()) > GOAL_MS]
    for name, figures in pages.items():
        late = f"  over the goal of {GOAL_MS} ms" if name in slow else ""
        shown = seen.get(name)
        paint = f"; painted after {shown['median_ms']:6.1f} ms, first {shown['first_ms']:6.1f} ms" if shown else ""
        print(f"{name:28} median {figures['median_ms']:6.1f} ms, first {figures['first_ms']:6.1f} ms{paint}{late}")
    target = ROOT / "build" / "bench" / "web.json"
    measured = {"messages": count, "goal_ms": GOAL_MS, "pages": pages, "painted": seen}
    target.write_text(json.dumps(measured, indent=2) + "\n")
    print(f"figures are in {target}")
    if slow:
        sys.exit(f"over the goal of {GOAL_MS} ms: {', '.join(slow)}")


if __name__ == "__main__":
    main()
