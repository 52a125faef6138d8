"""`waybill api`: the HTTP API without a relayer beside it."""

from __future__ import annotations

import asyncio
from functools import partial

from bridge.api import listening_at, serving
from bridge.cli import options
from bridge.cli.output import progress
from bridge.cli.reading import index_if_any
from bridge.cli.serving import WorkspaceBackend, api_of, serving_bridge
from bridge.cli.workspace import DEVNET, Workspace
from bridge.connections import connected
from bridge.logs import configure_logging
from bridge.metrics import Monitor
from bridge.protocol.deployment import Deployment
from bridge.service import SystemClock, open_bridge, run_until_signalled
from bridge.settings import Settings
from bridge.store import open_dead_letters, open_store
from bridge.undertaking import open_desk

_DEFAULT = "127.0.0.1:8787"


def api(
    *,
    http: options.Http = None,
    network: options.Network = DEVNET,
    store: options.StoreUrl = None,
    config: options.Config = None,
    as_json: options.Json = False,
) -> None:
    """Serve health, metrics and the HTTP API, until Ctrl-C, for a relayer that runs elsewhere or not at all.

    Reading is open to everybody who reaches the address. What changes something takes the token in WAYBILL_API_TOKEN, and a
    retry also a key.

    Example: waybill api --http 127.0.0.1:8787
    """
    workspace = Workspace.of(network, config, http=http, store=store)
    deployment = workspace.deployment()
    settings = workspace.working_settings()
    settings = settings.model_copy(update={"http": settings.http or _DEFAULT})
    configure_logging(as_json=as_json)
    work = _with_key if settings.relayer_key else _reading
    asyncio.run(run_until_signalled(lambda: work(workspace, deployment, settings)))


async def _with_key(workspace: Workspace, deployment: Deployment, settings: Settings) -> None:
    async with open_bridge(deployment, settings) as bridge, serving_bridge(workspace, bridge, settings):
        await bridge.with_upkeep(asyncio.Event().wait)


async def _reading(workspace: Workspace, deployment: Deployment, settings: Settings) -> None:
    progress("no WAYBILL_RELAYER_KEY: messages can't be retried over this API")
    async with connected(deployment, settings) as chains:
        opened = open_store(settings.store)
        letters = open_dead_letters(settings.dlq.url or settings.store)
        try:
            index = partial(index_if_any, workspace)
            monitor = Monitor(deployment, chains, opened, SystemClock(), settings, letters=letters, index=index)
            desk = open_desk(deployment, chains, opened, log=letters, settings=settings, clock=SystemClock())
            backend = WorkspaceBackend(
                workspace, deployment, opened, monitor=monitor, desk=desk, letters=letters, retry=None
            )
            assert settings.http is not None
            async with serving(api_of(backend, settings), listening_at(settings.http)):
                await asyncio.Event().wait()
        finally:
            letters.close()
            opened.close()
