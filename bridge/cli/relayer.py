"""`waybill relayer`: runs the relayer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import structlog
import typer

from bridge.cli import options
from bridge.cli.logs import configure_logging
from bridge.cli.root import current
from bridge.cli.workspace import Workspace
from bridge.protocol.gmps import Gmp
from bridge.service.relayer_service import RelayerService, SystemClock, freeze_loaded_objects, run_until_signalled
from bridge.service.settings import Settings
from bridge.store import open_store

_log = structlog.get_logger(__name__)

app = typer.Typer(help="Run the relayer.", no_args_is_help=True)

OnlyGmps = Annotated[
    str | None, typer.Option("--gmp", help="Deliver over these GMPs only, separated by commas.", show_default=False)
]
PausedGmps = Annotated[
    str | None,
    typer.Option(
        "--pause-gmp", help="Keep the messages of these GMPs waiting, separated by commas.", show_default=False
    ),
]


@app.command()
def run(
    *,
    gmp: OnlyGmps = None,
    pause_gmp: PausedGmps = None,
    store: options.StoreUrl = None,
    commit: options.Commit = None,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Allow --commit auto.")] = False,
    new_store: Annotated[
        bool,
        typer.Option("--new-store", help="Create the store in --store or the settings if it does not exist."),
    ] = False,
    http: options.Http = None,
) -> None:
    """Observe every chain, deliver messages, and perform the retries that the index requests, until Ctrl-C.

    Resumes where it stopped, even after a kill.

    Example: waybill relayer run --pause-gmp axelar
    """
    workspace = Workspace.current(
        store=store,
        commit=commit,
        unsafe=unsafe or None,
        gmps=_gmps(gmp),
        paused_gmps=_gmps(pause_gmp),
        http=http,
    )
    workspace.deployment()  # fails before anything is created if the network is not deployed
    if new_store:
        open_store(workspace.settings().store).close()
    settings = workspace.working_settings()
    configure_logging(as_json=current().as_json)

    async def work() -> None:
        async with (
            workspace.open_relayer(settings, index=workspace.index_if_any) as bridge,
            _metrics_served(workspace, bridge, settings),
        ):
            freeze_loaded_objects()
            await bridge.run()

    asyncio.run(run_until_signalled(work))


@asynccontextmanager
async def _metrics_served(workspace: Workspace, bridge: RelayerService, settings: Settings) -> AsyncIterator[None]:
    """Serves `/metrics` and `/healthz` if the settings name an address.

    Raises:
        ListeningError: the address is unavailable.
    """
    if settings.http is None:
        yield
        return
    # The server's libraries are imported only by relayers that use them.
    from bridge.metrics import Monitor
    from bridge.service.listening import listening_at
    from bridge.service.serving import metrics_app, serving

    monitor = Monitor(
        bridge.deployment,
        bridge.chains,
        bridge.store,
        SystemClock(),
        settings,
        dead_letters=bridge.dead_letter_service.dead_letters,
        streams=bridge.store.streams,
        accounts=bridge.accounts,
        index=workspace.index_if_any,
    )
    async with serving(metrics_app(monitor.exposition), listening_at(settings.http)) as url:
        _log.info("serving metrics", url=url)
        yield


def _gmps(text: str | None) -> frozenset[Gmp] | None:
    return None if text is None else frozenset(options.gmps(text))
