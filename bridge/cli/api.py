"""`waybill api`: the HTTP API without a relayer."""

from __future__ import annotations

import asyncio

import structlog

from bridge.cli import options
from bridge.cli.api_process import served_apart
from bridge.cli.logs import configure_logging
from bridge.cli.output import progress
from bridge.cli.serving import api_of, opened_backend
from bridge.cli.workspace import DEVNET, Workspace
from bridge.http.listening import listening_at
from bridge.http.server import serving
from bridge.service.relayer_service import run_until_signalled

_log = structlog.get_logger(__name__)

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

    Anyone who reaches the address may read. Changes need the token in WAYBILL_API_TOKEN, and a retry also needs a key.

    Example: waybill api --http 127.0.0.1:8787
    """
    workspace = Workspace.of(network, config, http=http, store=store)
    settings = workspace.working_settings()
    settings = settings.model_copy(update={"http": settings.http or _DEFAULT})
    configure_logging(as_json=as_json)

    async def work() -> None:
        if settings.relayer_key is None:
            progress("no WAYBILL_RELAYER_KEY: messages can't be retried over this API")
            async with opened_backend(workspace) as backend:
                listener = listening_at(settings.http or _DEFAULT)
                async with serving(api_of(backend, settings), listener) as url:
                    _log.info("serving the HTTP API", url=url)
                    await asyncio.Event().wait()
        async with (
            workspace.open_relayer(settings) as bridge,
            served_apart(workspace, bridge, settings, as_json=as_json),
        ):
            await bridge.while_monitoring(asyncio.Event().wait)

    asyncio.run(run_until_signalled(work))
