"""Measures the router's gas against its peers', and writes `build/bench/gas.json`.

All are measured alike: a 32-byte payload, GMPs and recipient without effects, no fees, each call in its own
transaction, and the execution gas without the 21,000 base and calldata. `bench/RouterGasHarness.sol` is the harness.
`bench/SendFloor.sol`, the floor, sends the same data as cheaply as possible. `--snapshot` updates the figures that
tests/solidity/gas compares with. `--peers FOLDER` measures peers in the same run, each a Foundry project in a
subfolder with its own settings and compiler; otherwise figures of an earlier run are used.
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
FLOOR: Final = ROOT / "build" / "bench" / "floor.json"
SNAPSHOT: Final = ROOT / "snapshots" / "gas.json"

PEER_RESULTS: Final = RESULT.parent / "peers"
HARNESSED_PEERS: Final = {"Glacis": ("glacis", "GlacisRouter")}
"""By name: the subfolder of the peers' folder, which is also the name of the result, and the contract that is measured."""

RECORDED_AT: Final = "recorded 2026-11-21, commits not noted, not in this run"
# Thousands of gas, measured once in a harness of the same rules; "-" where the peer can't do it.
PEERS: Final[dict[str, tuple[str, str, str]]] = {
    "Glacis, retriable": ("46.1 / 54.9 / 63.8", "19.0 / 27.8 / 36.6", "104.8 + 70.6 + 83.2 = 258.6"),
    "Aave a.DI": ("89.1 / 109.2 / 129.2", "33.0 / 54.3 / 76.2", "63.4 + 46.3 + 74.5 = 184.1"),
    "OZ OpenBridge": ("33.2 / 41.0 / 48.8", "-", "61.8 + 44.7 + 52.7 = 159.1"),
    "Hashi": ("21.2 / 27.3 / 33.5", "-", "3 x 22.4 + 63.6 = 130.8"),
    "Centrifuge MultiAdapter": ("23.1 / 34.4 / 45.8", "-", "60.5 + 23.2 + 26.6 = 110.3, no call"),
}


class PeerError(Exception):
    """A peer cannot be measured; the message names it and the remedy."""


def compile_peers(folder: Path) -> None:
    """Compiles the peers in a folder and copies their contracts to the harnesses.

    Raises:
        PeerError: no peer in the folder has a harness, or a peer does not compile.
    """
    found = {name: peer for name, peer in HARNESSED_PEERS.items() if (folder / peer[0] / "foundry.toml").exists()}
    if not found:
        known = ", ".join(f"{folder / subfolder}/foundry.toml" for subfolder, _ in HARNESSED_PEERS.values())
        raise PeerError(f"{folder} holds no peer that a harness knows; expected one of: {known}")
    for name, (subfolder, contract) in found.items():
        project = folder / subfolder
        sources = sorted(project.glob(f"contracts/**/{contract}.sol"))
        print(f"Compiling {name} in {project} by its own settings", file=sys.stderr)
        own = {key: value for key, value in os.environ.items() if not key.startswith("FOUNDRY_")}
        command = [str(FORGE), "build", "--out", "out", *map(str, sources)]
        run = subprocess.run(command, cwd=project, env=own, capture_output=True, text=True, check=False)
        artifact = project / "out" / f"{contract}.sol" / f"{contract}.json"
        if run.returncode != 0 or not artifact.exists():
            print(run.stdout + run.stderr, file=sys.stderr)
            raise PeerError(
                f"{name} does not compile in {project}; forge's output is above. `forge build` there must work by itself:"
                " install its dependencies, and name a compiler of its version as `solc` in its foundry.toml"
            )
        shutil.copyfile(artifact, PEER_RESULTS / artifact.name)


def measure(peers: Path | None) -> None:
    """Runs the harnesses, which write their figures to build/bench.

    Raises:
        PeerError: a peer does not compile.
        SystemExit: forge failed; its output has been shown.
    """
    (RESULT.parent / "adapters").mkdir(parents=True, exist_ok=True)
    # Peers of another run are not in this one.
    shutil.rmtree(PEER_RESULTS, ignore_errors=True)
    PEER_RESULTS.mkdir()
    if peers is not None:
        compile_peers(peers)
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
    """Returns a table of the router's gas above its peers', in thousands."""
    rows = _rows("Waybill", RESULT)
    if FLOOR.exists():
        rows |= _rows("floor", FLOOR)
    for name, (result, _) in HARNESSED_PEERS.items():
        if (measured := PEER_RESULTS / f"{result}.json").exists():
            rows |= _rows(name, measured)
    lines = [f"{'':24}  {'send over 1/2/3 GMPs':22}  {'send again':20}  receive 1st + 2nd + 3rd and execute"]
    lines += map(_line, rows.items())
    recorded = {name: figures for name, figures in PEERS.items() if name not in rows}
    return "\n".join([*lines, f"{RECORDED_AT}:", *map(_line, recorded.items())])


def _rows(name: str, result: Path) -> dict[str, tuple[str, str, str]]:
    gas: dict[str, list[int]] = json.loads(result.read_text())
    receive = gas.get("receive_3of3")
    received = f"{' + '.join(map(_thousands, receive))} = {_thousands(sum(receive))}" if receive else "-"
    return {
        f"{name}, retriable": (_slashed(gas["send_retriable"]), _slashed(gas["resend"]), received),
        f"{name}, not retriable": (_slashed(gas["send"]), "-", "the same" if receive else "-"),
    }


def _line(row: tuple[str, tuple[str, str, str]]) -> str:
    name, (send, again, received) = row
    return f"{name:24}  {send:22}  {again:20}  {received}"


def batch_table() -> str:
    """Returns a table of the least cost per message of a batch of ten sends, beside the router's single send."""
    single: dict[str, list[int]] = json.loads(RESULT.read_text())
    batch: list[int] = json.loads(FLOOR.read_text())["batch_of_ten"]
    lines = ["floor of a batch of ten over 1/2/3 GMPs, for each message"]
    for key, gas in (("send_retriable", batch[3:]), ("send", batch[:3])):
        each = [total // 10 for total in gas]
        shares = " / ".join(f"{one / whole:.2f}" for one, whole in zip(each, single[key], strict=True))
        lines.append(f"  {key.replace('_', ', '):22}  {_slashed(each)}, of a single send {shares}")
    return "\n".join(lines)


def adapter_table() -> str:
    """Returns a table of the total gas of a retriable send over one real GMP, in thousands."""
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
    """Measures, prints the tables and the paths of the results."""
    parser = argparse.ArgumentParser(description="Measure the router's gas beside its peers'.")
    parser.add_argument(
        "--snapshot", action="store_true", help=f"write the figures to {SNAPSHOT.relative_to(ROOT)}, too"
    )
    parser.add_argument("--peers", type=Path, metavar="FOLDER", help="measure the peers that it holds, too")
    arguments = parser.parse_args()
    print("Compiling and running bench/*.t.sol (about a minute)", file=sys.stderr)
    try:
        measure(arguments.peers)
    except PeerError as error:
        print(error, file=sys.stderr)
        return 1
    largest = json.loads(CAPS.read_text())["largest_send"]
    print(
        f"{router_table()}\n\n{batch_table()}\n\n{adapter_table()}\n\n32 KB over sixteen GMPs that log it: {largest:,} gas in all"
    )
    print(f"\nwritten: {RESULT.relative_to(ROOT)}", file=sys.stderr)
    if arguments.snapshot:
        SNAPSHOT.parent.mkdir(exist_ok=True)
        shutil.copyfile(RESULT, SNAPSHOT)
        print(f"written: {SNAPSHOT.relative_to(ROOT)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
