"""`waybill web`: the explorer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bridge.cli import options
from bridge.cli.workspace import DEVNET, Workspace

_REQUESTS_PER_MINUTE = 600


def web(
    *,
    http: Annotated[
        str,
        typer.Option("--http", envvar="WAYBILL_WEB_HTTP", help="Where to serve: HOST:PORT; port 0 takes a free one."),
    ] = "127.0.0.1:8080",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer nothing that changes state, not even through visitors' wallets.")
    ] = False,
    public_rpc: Annotated[
        list[str] | None,
        typer.Option(
            "--public-rpc",
            help="CHAIN=URL that visitors' browsers may use, once per chain; on the devnet its own by default.",
            show_default=False,
        ),
    ] = None,
    block_explorer: Annotated[
        list[str] | None,
        typer.Option(
            "--block-explorer",
            help="CHAIN=URL of a site with a page for each transaction under /tx/HASH, which pages then link to.",
            show_default=False,
        ),
    ] = None,
    abis: Annotated[
        Path | None,
        typer.Option(envvar="WAYBILL_ABIS", help="TOML file with the ABIs of payloads, to show them decoded."),
    ] = None,
    trusted_proxy: Annotated[
        str | None,
        typer.Option(envvar="WAYBILL_TRUSTED_PROXY", help="Address of a proxy whose X-Forwarded-For counts."),
    ] = None,
    requests_per_minute: Annotated[
        int, typer.Option(envvar="WAYBILL_REQUESTS_PER_MINUTE", help="Requests that one client may make.", min=10)
    ] = _REQUESTS_PER_MINUTE,
    network: options.Network = DEVNET,
    config: options.Config = None,
) -> None:
    """Serve the explorer: every message, why it is where it is, and what to do about it.

    Reads what relayer and indexer keep, which may run or not. The only thing it takes in are decisions about dead letters that an
    operator's wallet has signed. Ctrl-C ends it.

    Example: waybill web --http 127.0.0.1:8080
    """
    # The web's libraries take a moment to import, which no other command has to wait for.
    from bridge.cli.exploring import serve

    serve(
        Workspace.of(network),
        config=config,
        http=http,
        read_only=read_only,
        public_rpc=public_rpc or [],
        block_explorers=block_explorer or [],
        abis=abis,
        trusted_proxy=trusted_proxy,
        requests_per_minute=requests_per_minute,
    )
