"""Measures the relayer and writes `build/bench/relay.json` and a plot, `build/bench/relay.svg`.

Everything is measured in one run on the machine at hand; ratios say more than figures. While (c) is measured, the indexer writes
beside the relayer.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bench import relay_chain, relay_idle, relay_peers, relay_store
from bench.bar_chart import bar_chart
from bridge.cli.logs import configure_logging
from tests.postgresql import running_postgresql

ROOT: Final = Path(__file__).resolve().parent.parent
RESULT: Final = ROOT / "build" / "bench" / "relay.json"
PLOT: Final = RESULT.with_suffix(".svg")

# What the delivery document says of its own strategies (SF-34…37), messages per second.
DOCUMENT: Final[Mapping[str, str]] = {
    "batch": "~35,000",
    "message": "~200",
    "auto": "~35,000",
    "time": "~40,000",
    "at-most-once": "not said",
}


def main() -> None:
    configure_logging(level=logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as name:
        folder = Path(name)
        print("(a) durable transitions per second, full sync, a hundred at a time", flush=True)
        stores = _stores(folder)
        committed = relay_store.strategies(folder)
        print("\n    strategy       deliveries/s   the document's figure", flush=True)
        for strategy, rate in committed.items():
            print(f"    {strategy:14} {rate:12,.0f}   {DOCUMENT[strategy]}", flush=True)
        print("\n(b) messages per second between two anvil chains", flush=True)
        chain = relay_chain.measure(folder / "devnet")
        idle = relay_idle.measure(folder / "idle")
        print("(f) beside Hyperlane's relayer, each with its defaults", flush=True)
        peers = relay_peers.measure(folder / "peers")
    ours = peers["waybill"]
    value: dict[str, Any] = {
        "transitions_per_s": stores,
        "strategies_per_s": committed,
        "delivered_per_s": chain.delivered,
        "delivered_alone_per_s": chain.delivered_alone,
        "ceiling_per_s": chain.ceiling,
        "naive_per_s": chain.naive,
        "pickup_ms": chain.pickup,
        "pickup_alone_ms": chain.pickup_alone,
        "wasted_tx_per_delivery": chain.wasted,
        "idle_http_per_hour_and_chain": idle.an_hour(idle.requests),
        "idle_blocks_per_hour": idle.an_hour(idle.blocks),
        "idle_requests_per_block": idle.requests / idle.blocks,
        "idle_cpu": idle.cpu,
        "peer_relayers": {name: one.value() for name, one in peers.items()},
        "cpu_ms_per_delivery": ours.cpu_ms,
        "requests_per_delivery": ours.requests,
    }
    share = chain.delivered / chain.ceiling
    print(f"    delivered {chain.delivered:,.0f}, at most {relay_chain.SHARE} to a transaction")
    print(f"    ceiling {chain.ceiling:,.0f}, one to a transaction ({share:.0%} of it; goal 60%)")
    print(
        f"    delivered one to a transaction {chain.delivered_alone:,.0f} ({chain.delivered_alone / chain.ceiling:.0%})"
    )
    print(f"    plain web3.py loop {chain.naive:,.0f} ({chain.delivered / chain.naive:.1f} times; goal 2)")
    for what, pickup in (("beside the indexer", chain.pickup), ("alone", chain.pickup_alone)):
        print(f"(c) observed to broadcast, {what}: " + ", ".join(f"{name} {ms:,.0f} ms" for name, ms in pickup.items()))
    print(f"(d) transactions, and calls in shared ones, wasted per delivery: {chain.wasted:g} (goal 0)")
    print(
        f"(e) idle: {idle.requests:,.0f} HTTP requests an hour and chain, {idle.blocks:,.0f} blocks (goal: no more than one"
        f" each), {idle.cpu:.1%} of a core"
    )
    print("\n".join(relay_peers.lines(peers)))
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(value, indent=2) + "\n")
    PLOT.write_text(plot(value))
    print(f"\n{RESULT.relative_to(ROOT)} and {PLOT.name} written")


def _stores(folder: Path) -> dict[str, float]:
    found = {
        "sqlite": relay_store.transitions(f"sqlite:///{folder}/ours.db"),
        "sqlite_bare": relay_store.bare_transitions(folder / "bare.db"),
    }
    with running_postgresql(durable=True) as server:
        found["postgresql"] = relay_store.transitions(server.new_url())
        found["peer"] = relay_store.peer_transitions(server)
    ratio = found["sqlite"] / found["sqlite_bare"]
    print(f"    SQLite {found['sqlite']:,.0f}, bare sqlite3 {found['sqlite_bare']:,.0f} (ratio {ratio:.2f}; goal 0.75)")
    print(f"    PostgreSQL {found['postgresql']:,.0f}, procrastinate {found['peer']:,.0f} (goal: no less)", flush=True)
    return found


def plot(value: Mapping[str, Any]) -> str:
    """Writes bar charts, each group with its own scale."""
    groups = {
        "transitions per second": value["transitions_per_s"],
        "deliveries committed per second, by strategy": value["strategies_per_s"],
        "messages per second": {
            "delivered": value["delivered_per_s"],
            "one to a transaction": value["delivered_alone_per_s"],
            "ceiling": value["ceiling_per_s"],
            "naive": value["naive_per_s"],
        },
        "observed to broadcast beside the indexer, ms": value["pickup_ms"],
    }
    return bar_chart(groups)


if __name__ == "__main__":
    main()
