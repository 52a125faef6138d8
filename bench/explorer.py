"""How long the explorer's pages take when the store holds many messages: `make bench-web`, into build/bench/web.json."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

from httpx import ASGITransport, AsyncClient

from bench.filled_index import CHAINS, fill
from bridge.protocol.deployment import Deployment
from bridge.web import ExplorerSettings, Sources, create_app
from indexer.browsing import IndexBrowser

ROOT = Path(__file__).resolve().parents[1]
LIMIT_MS = 200
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


async def measure(url: str, ids: list[bytes], now: int) -> dict[str, dict[str, float]]:
    index = IndexBrowser(url, clock=lambda: now)
    found = index.message(ids[0])
    assert found is not None
    assert found.sender is not None
    assert found.source_transaction is not None
    sources = Sources(deployment=deployment(), index=lambda: index, store=lambda: None, clock=lambda: now)
    app = create_app(sources, ExplorerSettings(requests_per_minute=100_000))
    paths = {
        "messages": "/messages",
        "stalled": "/messages?status=stalled",
        "a lane": f"/messages?source={CHAINS[0]}&destination={CHAINS[1]}",
        "a GMP and a kind": "/messages?gmp=ccip&kind=query",
        "nothing passes": "/messages?kind=report",
        "an address": f"/messages?account=0x{found.sender[12:].hex()}",
        "a message": f"/message/0x{ids[0].hex()}",
        "a search for a transaction": f"/search?q=0x{found.source_transaction.hex()}",
        "lanes": "/lanes",
        "GMPs": "/gmps",
        "faults": "/faults",
    }
    taken: dict[str, dict[str, float]] = {}
    async with AsyncClient(transport=ASGITransport(app), base_url="http://explorer", timeout=60) as client:
        for name, path in paths.items():
            times = []
            for _ in range(_TRIES):
                started = time.perf_counter()
                answer = await client.get(path)
                times.append((time.perf_counter() - started) * 1000)
                assert answer.status_code in (200, 303), f"{path}: {answer.status_code}"
            taken[name] = {"first_ms": round(times[0], 1), "median_ms": round(statistics.median(times), 1)}
    return taken


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
    pages = asyncio.run(measure(f"sqlite:///{store}", ids, now))
    slow = [name for name, figures in pages.items() if max(figures.values()) > LIMIT_MS]
    for name, figures in pages.items():
        late = f"  over {LIMIT_MS} ms" if name in slow else ""
        print(f"{name:28} median {figures['median_ms']:8.1f} ms, first {figures['first_ms']:8.1f} ms{late}")
    target = ROOT / "build" / "bench" / "web.json"
    target.write_text(json.dumps({"messages": count, "limit_ms": LIMIT_MS, "pages": pages}, indent=2) + "\n")
    print(f"figures are in {target}")
    if slow:
        sys.exit(f"over {LIMIT_MS} ms: {', '.join(slow)}")


if __name__ == "__main__":
    main()
