"""`waybill web`: serves the explorer and the JSON API."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge.cli.workspace import Workspace

_REQUESTS_PER_MINUTE = 600

_Http = Annotated[
    str,
    typer.Option(
        "--http", envvar="WAYBILL_WEB_HTTP", help="The address to serve at, HOST:PORT. Port 0 picks a free port."
    ),
]
_ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="Offer no state changes, not even through visitors' wallets.")
]
_PublicRpc = Annotated[
    list[str] | None,
    typer.Option(
        "--public-rpc",
        help="CHAIN=URL that visitors' browsers may use, once per chain; on the devnet its own by default.",
        show_default=False,
    ),
]
_BlockExplorer = Annotated[
    list[str] | None,
    typer.Option(
        "--block-explorer",
        help="CHAIN=URL of a site with a page for each transaction under /tx/HASH, which pages then link to.",
        show_default=False,
    ),
]
_TrustedProxy = Annotated[
    str | None,
    typer.Option(envvar="WAYBILL_TRUSTED_PROXY", help="Address of a proxy whose X-Forwarded-For counts."),
]
_Requests = Annotated[
    int, typer.Option(envvar="WAYBILL_REQUESTS_PER_MINUTE", help="Requests that one client may make.", min=10)
]


def web(
    *,
    http: _Http = "127.0.0.1:8080",
    read_only: _ReadOnly = False,
    public_rpc: _PublicRpc = None,
    block_explorer: _BlockExplorer = None,
    trusted_proxy: _TrustedProxy = None,
    requests_per_minute: _Requests = _REQUESTS_PER_MINUTE,
) -> None:
    """Serve the explorer and the JSON API: every message, the reason for its state, and the next step.

    Reads the stores of relayer and index, whether or not these are running. Ctrl-C stops the server.

    Changes through the API require WAYBILL_API_TOKEN as a bearer token. On a loopback address, dead letters are
    shown to everybody; on other addresses only to operators, who sign in with the token as the password. Put a
    reverse proxy in front of a public server, and set the token.

    Example: waybill web --http 127.0.0.1:8080
    """
    # The web's libraries take a moment to import, which no other command has to wait for.
    from bridge.cli.web_server import serve

    serve(
        Workspace.current(),
        http=http,
        read_only=read_only,
        public_rpc=public_rpc or [],
        block_explorers=block_explorer or [],
        trusted_proxy=trusted_proxy,
        requests_per_minute=requests_per_minute,
    )
