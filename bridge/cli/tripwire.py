"""`waybill tripwire`: runs the process that pauses GMPs that deliver forged messages."""

from __future__ import annotations

import asyncio

import structlog
import typer

from bridge.cli.logs import configure_logging
from bridge.cli.root import current
from bridge.cli.workspace import Workspace

_log = structlog.get_logger(__name__)

app = typer.Typer(help="Pause GMPs that deliver forged messages.", no_args_is_help=True)


@app.command()
def run() -> None:
    """Watch the index's divergences, and pause a GMP with a proven forged receipt, until Ctrl-C.

    Needs a running index and the relayer's store. docs/tripwire.md describes the evidence, and the limits of a pause.

    Example: waybill tripwire run
    """
    from bridge.service.relayer_service import run_until_signalled
    from bridge.service.tripwire_service import open_tripwire

    workspace = Workspace.current()
    settings, deployment = workspace.settings(), workspace.deployment()
    configure_logging(as_json=current().as_json)

    async def work() -> None:
        async with open_tripwire(deployment, settings, workspace.index_if_any) as tripwire:
            _log.info("tripwire started", chains=[chain.name for chain in deployment.chains])
            await tripwire.run()

    asyncio.run(run_until_signalled(work))
