"""Puts the explorer together and serves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import uvicorn

from bridge.cli.output import CliError, UsageError, progress
from bridge.cli.workspace import DEVNET, Workspace
from bridge.protocol.deployment import Deployment, DeploymentError
from bridge.protocol.indexed import Index
from bridge.records import Store
from bridge.store import open_store
from bridge.web import ExplorerSettings, Sources, create_app
from bridge.web.payload import PayloadAbiError, read_abis
from indexer.browsing import IndexBrowser
from indexer.errors import IndexerError, StoreVersionError

_T = TypeVar("_T")


def serve(
    workspace: Workspace,
    *,
    http: str,
    read_only: bool,
    public_rpc: Sequence[str],
    abis: Path | None,
    trusted_proxy: str | None,
    requests_per_minute: int,
) -> None:
    """Serves the explorer until it is asked to end. The arguments are the options of `waybill web`.

    Raises:
        CliError: an option can't be used, or the port can't be had.
    """
    deployment = workspace.deployment()
    host, port = _place(http)
    settings = ExplorerSettings(
        public_rpc=_public_rpc(deployment, public_rpc),
        read_only=read_only,
        requests_per_minute=requests_per_minute,
    )
    try:
        payloads = read_abis(abis) if abis else ()
    except PayloadAbiError as error:
        raise UsageError(str(error)) from error
    sources = Sources(deployment=deployment, index=_index(workspace), store=_store(workspace), payloads=payloads)
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(sources, settings),
            host=host,
            port=port,
            log_level="warning",
            server_header=False,
            proxy_headers=trusted_proxy is not None,
            forwarded_allow_ips=trusted_proxy or "",
            timeout_graceful_shutdown=2,
        )
    )
    config = server.config
    config.load()
    try:
        socket = config.bind_socket()
    except SystemExit as error:  # uvicorn's way to say that it can't
        raise CliError(f"nothing can be served at {http}: the port is taken, or not ours to take") from error
    progress(f"the explorer is at http://{host}:{socket.getsockname()[1]}/")
    server.run(sockets=[socket])


def _place(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"--http {text!r} is not HOST:PORT, such as 127.0.0.1:8080")
    return host, int(port)


def _public_rpc(deployment: Deployment, given: Sequence[str]) -> Mapping[int, str]:
    """What visitors may use. The deployments file's own URLs may carry keys, so only a devnet's are given out."""
    urls = {chain.chain_id: chain.rpc_urls[0] for chain in deployment.chains} if deployment.network == DEVNET else {}
    for entry in given:
        name, separator, url = entry.partition("=")
        if not separator or not url.startswith(("http://", "https://")):
            raise UsageError(f"--public-rpc {entry!r} is not CHAIN=URL, such as alpha=https://rpc.example.org")
        try:
            urls[deployment.chain(name).chain_id] = url
        except DeploymentError as error:
            raise UsageError(f"--public-rpc: {error}") from error
    return urls


def _kept_open(path: Path, opened: Callable[[], _T]) -> Callable[[], _T | None]:
    """Opens what is behind a path when it is there, and again when another file has taken its place."""
    kept: dict[int, _T] = {}

    def get() -> _T | None:
        try:
            file = path.stat().st_ino
        except FileNotFoundError:
            return None
        if file not in kept:
            found = opened()
            kept.clear()
            kept[file] = found
        return kept[file]

    return get


def _index(workspace: Workspace) -> Callable[[], Index | None]:
    get = _kept_open(workspace.index_store, lambda: IndexBrowser(f"sqlite:///{workspace.index_store}"))

    def ready() -> Index | None:
        try:
            return get()
        except StoreVersionError:
            raise
        except IndexerError:
            return None  # being made just now

    return ready


def _store(workspace: Workspace) -> Callable[[], Store | None]:
    return _kept_open(workspace.bridge_store, lambda: open_store(f"sqlite:///{workspace.bridge_store}"))
