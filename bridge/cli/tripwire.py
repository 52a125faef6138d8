"""`waybill tripwire`: the process that pauses a GMP that lies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from bridge.cli import options
from bridge.cli.logs import configure_logging
from bridge.cli.workspace import DEVNET, Workspace

if TYPE_CHECKING:
    from bridge.protocol.deployment import Deployment
    from bridge.tripwire.tripwire import Tripwire

_log = structlog.get_logger(__name__)

app = typer.Typer(help="Pause a GMP that lies.", no_args_is_help=True)


@app.command()
def run(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell people, and pause nothing.")] = False,
    http: Annotated[
        str | None,
        typer.Option(
            "--http", help="Serve its metrics at HOST:PORT; else the setting tripwire.http.", show_default=False
        ),
    ] = None,
    network: options.Network = DEVNET,
    config: options.Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Log one JSON object per line.")] = False,
) -> None:
    """Read every chain through endpoints of its own, and pause a GMP as soon as its receipt is proven to be forged, until Ctrl-C.

    Killed at any point, it goes on where it was. docs/tripwire.md says what it believes, and what a
    pause can't do.

    Example: waybill tripwire run --dry-run
    """
    from bridge.service.relayer_service import run_until_signalled
    from bridge.service.tripwire_service import open_tripwire

    workspace = Workspace.of(network, config)
    settings, deployment = workspace.settings(), workspace.deployment()
    configure_logging(as_json=as_json)
    workspace.state.mkdir(parents=True, exist_ok=True)

    async def work() -> None:
        async with (
            open_tripwire(deployment, settings, workspace.tripwire_file, is_dry_run=dry_run) as tripwire,
            _served(tripwire, deployment, http or settings.tripwire.http),
        ):
            _log.info("watching", chains=[chain.name for chain in deployment.chains], dry_run=dry_run)
            await tripwire.run()

    asyncio.run(run_until_signalled(work))


@asynccontextmanager
async def _served(tripwire: Tripwire, deployment: Deployment, address: str | None) -> AsyncIterator[None]:
    """Serves the metrics, if there is an address for them.

    Raises:
        ListeningError: it can't be listened at.
    """
    if address is None:
        yield
        return
    from bridge.service.listening import listening_at
    from bridge.service.serving import metrics_app, serving
    from bridge.service.tripwire_service import tripwire_samples

    async def expose() -> bytes:
        return tripwire_samples(tripwire, deployment).exposition()

    async with serving(metrics_app(expose), listening_at(address)) as url:
        _log.info("metrics", url=f"{url}/metrics")
        yield
