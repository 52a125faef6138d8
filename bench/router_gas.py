"""Measures the router's gas beside its peers' and writes `build/bench/gas.json`.

The rules are the same for all: a 32-byte payload, GMPs and recipient that do nothing, no fees, each call a transaction of
its own; counted is the execution, less 21,000 and calldata. `bench/RouterGasHarness.sol` is the harness. `--snapshot` makes
the figures those that tests/solidity/gas compares with.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from bridge.protocol.gmps import Gmp
from scripts.release import ROUTER, compile_release

ROOT: Final = Path(__file__).resolve().parent.parent
FORGE: Final = ROOT / "build" / "tools" / "bin" / "forge"
RESULT: Final = ROOT / "build" / "bench" / "gas.json"
CAPS: Final = ROOT / "build" / "bench" / "caps.json"
SNAPSHOT: Final = ROOT / "snapshots" / "gas.json"

# Thousands of gas, measured once in a harness of the same rules; None where the peer can't do it.
PEERS: Final[dict[str, tuple[str, str, str]]] = {
    "Glacis, retriable": ("46.1 / 54.9 / 63.8", "19.0 / 27.8 / 36.6", "104.8 + 70.6 + 83.2 = 258.6"),
    "Aave a.DI": ("89.1 / 109.2 / 129.2", "33.0 / 54.3 / 76.2", "63.4 + 46.3 + 74.5 = 184.1"),
    "OZ OpenBridge": ("33.2 / 41.0 / 48.8", "-", "61.8 + 44.7 + 52.7 = 159.1"),
    "Hashi": ("21.2 / 27.3 / 33.5", "-", "3 x 22.4 + 63.6 = 130.8"),
    "Centrifuge MultiAdapter": ("23.1 / 34.4 / 45.8", "-", "60.5 + 23.2 + 26.6 = 110.3, no call"),
}


def measure() -> None:
    """Runs the harnesses, which write their figures to build/bench.

    Raises:
        SystemExit: forge failed; its output has been shown.
    """
    (RESULT.parent / "adapters").mkdir(parents=True, exist_ok=True)
    compile_release()
    # The harnesses alone are compiled, to folders of their own: other builds stay as they are.
    environment = os.environ | {
        "WAYBILL_ROUTER": str(ROUTER.relative_to(ROOT)),
        "FOUNDRY_SRC": "bench",
        "FOUNDRY_TEST": "bench",
        "FOUNDRY_SCRIPT": "bench",
        "FOUNDRY_OUT": "build/bench/out",
        "FOUNDRY_CACHE_PATH": "build/bench/cache",
    }
    command = [str(FORGE), "test", "--isolate"]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        print(run.stdout + run.stderr, file=sys.stderr)
        raise SystemExit("the gas harness failed; its output is above")


def router_table() -> str:
    """The router's figures above its peers', in thousands of gas."""
    gas: dict[str, list[int]] = json.loads(RESULT.read_text())
    receive = gas["receive_3of3"]
    rows = {
        "Waybill, retriable": (
            _slashed(gas["send_retriable"]),
            _slashed(gas["resend"]),
            f"{' + '.join(map(_thousands, receive))} = {_thousands(sum(receive))}",
        ),
        "Waybill, not retriable": (_slashed(gas["send"]), "-", "the same"),
    } | PEERS
    lines = [f"{'':24}  {'send over 1/2/3 GMPs':22}  {'send again':20}  receive 1st + 2nd + 3rd and execute"]
    lines += [f"{name:24}  {send:22}  {again:20}  {received}" for name, (send, again, received) in rows.items()]
    return "\n".join(lines)


def adapter_table() -> str:
    """What a retriable send over one real GMP costs in all, in thousands of gas."""
    lines = ["retriable send over one real GMP, its contracts and fee included"]
    for gmp in Gmp:
        gas: int = json.loads((RESULT.parent / "adapters" / f"{gmp.label}.json").read_text())
        lines.append(f"  {gmp.label:22}  {_thousands(gas):>6}")
    return "\n".join(lines)


def _thousands(gas: int) -> str:
    return f"{gas / 1000:.1f}"


def _slashed(values: list[int]) -> str:
    return " / ".join(map(_thousands, values))


def main() -> int:
    """Measures, prints the tables and says where the figures are."""
    parser = argparse.ArgumentParser(description="Measure the router's gas beside its peers'.")
    parser.add_argument(
        "--snapshot", action="store_true", help=f"write the figures to {SNAPSHOT.relative_to(ROOT)}, too"
    )
    snapshot = parser.parse_args().snapshot
    print("Compiling and running bench/*.t.sol (about a minute)", file=sys.stderr)
    measure()
    largest = json.loads(CAPS.read_text())["largest_send"]
    print(f"{router_table()}\n\n{adapter_table()}\n\n32 KB over sixteen GMPs that log it: {largest:,} gas in all")
    print(f"\nwritten: {RESULT.relative_to(ROOT)}", file=sys.stderr)
    if snapshot:
        SNAPSHOT.parent.mkdir(exist_ok=True)
        shutil.copyfile(RESULT, SNAPSHOT)
        print(f"written: {SNAPSHOT.relative_to(ROOT)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
