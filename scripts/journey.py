"""Traces the files that one message passes: a route over a GMP that is silent, a retry that the index asks for, an execution.

python -m scripts.journey writes build/journey.json. It lists the files of bridge/ and indexer/ with a function that any process
calls between the route and the execution, and that no process called in half a minute before, without a message. A file whose
loop turns anyway counts if docs/architecture.md has it as a step; the others of that kind are printed. It also lists the files of
contracts/ whose code runs in a transaction of that time. A loop that turns seldom may add a file to a run. A file with nothing but
constants does not count.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bridge import devnet
from bridge.client import Client, RouteRequest
from bridge.devnet.accounts import DAPP_KEY, account
from bridge.devnet.demo.processes import Service
from bridge.evm.chain import open_chains
from bridge.protocol.gmps import Gmp
from scripts.call_tracer.sitecustomize import SWITCH, VARIABLE, open_switch, trace_calls
from scripts.solidity_trace import Artifact, SolidityTrace, compile_contracts

ROOT: Final = Path(__file__).resolve().parents[1]
RESULT: Final = ROOT / "build" / "journey.json"
WORK: Final = ROOT / "build" / "journey"
PAGE: Final = ROOT / "docs" / "architecture.md"
TRACER: Final = ROOT / "scripts" / "call_tracer"

SILENT, RESCUE = Gmp.AXELAR, Gmp.HYPERLANE
STALL_AFTER: Final = 5  # seconds
SETTINGS: Final = {"WAYBILL_INDEX": '{"lake_interval": 3600}'}
"""The lake gets what is final every half minute, whichever message goes its way."""
_FIRST_PORT: Final = 28_545
_PATIENCE: Final = 180.0  # seconds
_COMMIT: Final = 6.0  # seconds in which the relayer commits that it has delivered
_IDLE: Final = 30.0  # seconds without a message
IDLE, MESSAGE = 1, 2
"""What the switch of the tracers says."""


def called_files(calls: Iterable[Path], steps: str, root: Path = ROOT) -> tuple[list[str], list[str]]:
    """The files of bridge/ and indexer/ that are on the message's way, by what tracers noted.

    Args:
        calls: what each process noted.
        steps: text that names the files of the way's steps.
        root: the folder of bridge/ and indexer/.

    Returns:
        files with a function that was called with a message alone, or that are a step; and other files that were called
    """
    functions: dict[int, set[tuple[str, Path]]] = {IDLE: set(), MESSAGE: set()}
    for line in (line for path in calls for line in path.read_text().splitlines()):
        phase, first, file = line.split(" ", 2)
        if any(Path(file).is_relative_to(root / package) for package in ("bridge", "indexer")):
            functions[int(phase)].add((first, Path(file)))
    called = _relative((file for _, file in functions[MESSAGE]), root)
    messages_own = _relative((file for _, file in functions[MESSAGE] - functions[IDLE]), root)
    way = {file for file in called if file in messages_own or f"`{file}`" in steps}
    return sorted(way), sorted(called - way)


def _relative(files: Iterable[Path], root: Path) -> set[str]:
    return {str(file.relative_to(root)) for file in files}


def steps_of_the_way() -> str:
    """The section of docs/architecture.md that has a file for each step."""
    return PAGE.read_text().partition("## The way of a message\n")[2].partition("\n## ")[0]


async def trace(
    network: devnet.Devnet, artifacts: list[Artifact], services: Iterable[Service], calls: Path
) -> list[str]:
    """Send the message and wait for its execution; returns the Solidity files whose code ran."""
    traces = [SolidityTrace(chain.url, artifacts) for chain in network.chains]
    switch = open_switch(calls)
    source, destination = network.deployment.chains[:2]
    async with open_chains(network.deployment) as chains:
        client = Client(network.deployment, chains, account(DAPP_KEY))
        await _until_indexed(services)
        before = [trace.head() for trace in traces]
        request = RouteRequest(
            destination=destination.name,
            recipient=destination.examples["inbox"],
            payload=b"hello",
            gmps=(SILENT,),
            quorum=1,
        )
        switch[0] = IDLE
        await asyncio.sleep(_IDLE)
        switch[0] = MESSAGE
        sent = await client.route(source.name, request)
        progress = await client.wait(sent.message, timeout=_PATIENCE)
        await asyncio.sleep(_COMMIT)
        switch[0] = 0
    for service in services:
        service.check()
    if not progress.executed or progress.receipts != {RESCUE}:
        sys.exit(f"the message was not rescued over {RESCUE.label}: {progress}; logs are in {WORK}")
    return sorted(
        set().union(*(trace.files(head + 1, trace.head()) for trace, head in zip(traces, before, strict=True)))
    )


async def _until_indexed(services: Iterable[Service]) -> None:
    """Waits until the index has read the chains up to now; until then nothing counts as stalled."""
    command = [sys.executable, "-m", "bridge.cli", "report", "--engine", "duckdb", "--max-behind", "10", "--json"]
    deadline = time.monotonic() + _PATIENCE
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    while (done := await asyncio.to_thread(subprocess.run, command, capture_output=True, env=environment)).returncode:
        for service in services:
            service.check()
        if time.monotonic() > deadline:
            sys.exit(f"the index does not follow the chains: {done.stderr.decode()}")


def main() -> None:
    """Trace on a devnet of its own, and write down what was found."""
    shutil.rmtree(WORK, ignore_errors=True)
    home, calls = WORK / "home", WORK / "calls"
    home.mkdir(parents=True)
    calls.mkdir()
    (calls / SWITCH).write_bytes(b"\0")
    for name in [name for name in os.environ if name.startswith("WAYBILL_")]:
        del os.environ[name]
    trace_calls(calls)
    artifacts = compile_contracts(WORK)
    try:
        network = asyncio.run(devnet.up(home=home, first_port=_FIRST_PORT))
        os.environ |= {"WAYBILL_HOME": str(home), VARIABLE: str(calls), "PYTHONPATH": str(TRACER), **SETTINGS}
        with ExitStack() as stack:
            services = [
                stack.enter_context(Service(list(arguments), WORK / f"{arguments[0]}.log"))
                for arguments in (
                    ("index", "run", "--stall-after", str(STALL_AFTER)),
                    ("relayer", "run", "--gmp", f"{SILENT.label},{RESCUE.label}", "--pause-gmp", SILENT.label),
                )
            ]
            solidity = asyncio.run(trace(network, artifacts, services, calls))
    finally:
        devnet.down(home=home)
    python, background = called_files(calls.glob("*.calls"), steps_of_the_way())
    RESULT.write_text(json.dumps({"Python": python, "Solidity": solidity}, indent=2) + "\n")
    print(f"{len(python)} files of Python and {len(solidity)} of Solidity, in {RESULT.relative_to(ROOT)}")
    print(f"{len(background)} files of Python that run without a message, too: {', '.join(background)}")


if __name__ == "__main__":
    main()
