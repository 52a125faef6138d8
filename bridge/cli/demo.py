"""`waybill demo`: runs the whole system once, and prints a report."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import time
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.table import Table

from bridge import devnet
from bridge.cli.devnet import FIRST_PORT
from bridge.cli.extras import require_devnet
from bridge.cli.freshness import freshness
from bridge.cli.output import CliError, progress, result, table
from bridge.cli.root import DEVNET
from bridge.cli.workspace import Workspace
from bridge.devnet.anvil import HOST, free_port
from bridge.devnet.demo.actions import ActionOutcome
from bridge.devnet.demo.processes import ProcessFailedError, Service
from bridge.devnet.demo.report import DisagreementError, Report, percentiles
from bridge.devnet.demo.run import demonstrate
from bridge.protocol.ports import Block

_CHAINS = 3
"""Two carry the messages. The third takes part in atomic actions, and goes down."""


def demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running until Ctrl-C.")] = False,
    port: Annotated[
        int, typer.Option(help="Port of the first chain.", envvar="WAYBILL_PORT", min=1, max=65_535)
    ] = FIRST_PORT,
) -> None:
    """Route messages over three GMPs, stall one, retry, execute, and audit the result.

    Also freeze an asset atomically: on all chains, or on none.

    At the end, check that chains and index agree, and print a report, which is also written to
    build/demo/report.json.

    Example: waybill demo --keep
    """
    require_devnet()
    # Both signals stop the demo, even if the shell ignores SIGINT: its processes must end with it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    workspace = Workspace.current(DEVNET)
    folder = workspace.root / "build" / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started = time.monotonic()

    def log(text: str) -> None:
        progress(f"{time.monotonic() - started:5.1f} s  {text}")

    if devnet.status(home=workspace.root):
        raise CliError("a devnet is already up, but the demonstration starts its own", next_step="waybill devnet down")

    async def finished(report: Report) -> None:
        (folder / "report.json").write_text(json.dumps(report.to_json(), indent=2) + "\n")
        result(report.to_json(), *_tables(report))
        progress(f"\nthe report is in {folder / 'report.json'}")
        if not keep:
            progress("next: waybill demo --keep, and look around")
            return
        address = f"{HOST}:{free_port()}"
        with Service(["web", "--http", address], folder / "web.log"):
            progress(_LOOK_AROUND.format(folder=workspace.root.resolve(), explorer=f"http://{address}/"))
            await asyncio.Event().wait()

    def index_has_read(heads: Mapping[int, Block]) -> bool:
        with workspace.index_if_any() as index:
            return index is not None and not freshness(workspace, index, 0, heads).behind

    try:
        found = asyncio.run(devnet.up(home=workspace.root, chains=_CHAINS, first_port=port, progress=log))
        shutil.rmtree(workspace.state, ignore_errors=True)
        asyncio.run(
            demonstrate(
                found,
                workspace.index_url,
                index_has_read=lambda heads: asyncio.to_thread(index_has_read, heads),
                folder=folder,
                say=log,
                finished=finished,
            )
        )
    except (ProcessFailedError, DisagreementError) as error:
        raise CliError(str(error), next_step=f"see the logs in {folder}") from error
    finally:
        devnet.down(home=workspace.root)


_LOOK_AROUND = """the chains, the relayer and the indexer are still running, and the explorer is at {explorer}
look around from another terminal:
  cd {folder}
  waybill status
  waybill message list
  waybill send --payload hello --gmps hyperlane,wormhole --wait
Ctrl-C here stops it all"""


def _tables(report: Report) -> list[Table]:
    audit, latency = report.audit, percentiles(report.audit)
    outcome = [
        ["messages", str(audit.messages)],
        ["executed", str(audit.executed)],
        ["executed twice", str(audit.executed_twice)],
        ["lost", str(audit.lost)],
        ["retries requested / sent / executed", " / ".join(map(str, report.retries.values()))],
        [
            "duplicates absorbed",
            f"{audit.duplicates_absorbed}: {audit.late_receipts} late, {audit.repeated_deliveries} repeated",
        ],
        *([outcome.text, _outcome(outcome)] for outcome in report.actions),
        ["divergences", str(len(report.divergences))],
        ["latency p50 / p95, from block to block", f"{latency['p50']} / {latency['p95']} ms"],
        ["seconds", str(report.seconds)],
    ]
    rows = [
        [gmp, *(str(counts.get(what, 0)) for what in ("dispatched", "received", "duplicates"))]
        for gmp, counts in audit.per_gmp.items()
    ]
    return [
        table("Outcome: chains and index agree", ["", ""], outcome),
        table("\nEach GMP", ["GMP", "dispatched", "received", "repeated"], rows),
    ]


def _outcome(outcome: ActionOutcome) -> str:
    states = ", ".join(f"{chain} {'frozen' if frozen else 'not frozen'}" for chain, frozen in outcome.frozen.items())
    return f"{outcome.action.state.name}: {states}"
