"""`waybill relayer`: observe, deliver, retry."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated

import typer

from bridge.cli import options
from bridge.cli.api_process import served_apart
from bridge.cli.logs import configure_logging
from bridge.cli.open_stores import index_if_any
from bridge.cli.workspace import DEVNET, Workspace
from bridge.protocol.gmps import Gmp
from bridge.service.relayer_service import run_until_signalled, spare_what_is_set_up

app = typer.Typer(help="Carry messages from chain to chain.", no_args_is_help=True)

OnlyGmps = Annotated[
    str | None, typer.Option("--gmp", help="Deliver over these GMPs only, separated by commas.", show_default=False)
]
PausedGmps = Annotated[
    str | None,
    typer.Option("--pause-gmp", help="Do not deliver over these for now; their messages wait.", show_default=False),
]
PayingKey = Annotated[
    str | None,
    typer.Option(
        "--key",
        help="Private key that pays for deliveries, else WAYBILL_RELAYER_KEY. On the devnet a public one by default.",
        show_default=False,
    ),
]


@app.command()
def run(
    *,
    gmp: OnlyGmps = None,
    pause_gmp: PausedGmps = None,
    network: options.Network = DEVNET,
    key: PayingKey = None,
    store: options.StoreUrl = None,
    commit: options.Commit = None,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Allow --commit auto.")] = False,
    http: options.Http = None,
    config: options.Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Log one JSON object per line.")] = False,
) -> None:
    """Observe every chain, deliver what its GMPs took, and retry what the index asks for, until Ctrl-C.

    Killed at any point, it goes on where it was when it is started again. Everything that can be
    set: waybill config show.

    Example: waybill relayer run --pause-gmp axelar
    """
    workspace = Workspace.of(
        network,
        config,
        relayer_key=key,
        store=store,
        commit=commit,
        unsafe=unsafe or None,
        gmps=_gmps(gmp),
        paused_gmps=_gmps(pause_gmp),
        http=http,
    )
    settings = workspace.working_settings()
    configure_logging(as_json=as_json)

    async def work() -> None:
        async with (
            workspace.open_relayer(settings, index=partial(index_if_any, workspace)) as bridge,
            served_apart(workspace, bridge, settings, as_json=as_json),
        ):
            spare_what_is_set_up()
            await bridge.run()

    asyncio.run(run_until_signalled(work))


def _gmps(text: str | None) -> frozenset[Gmp] | None:
    return None if text is None else frozenset(options.gmps(text))
