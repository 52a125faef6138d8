"""Puts the explorer together and serves it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import uvicorn
from sqlalchemy import make_url

from bridge.chains import open_chains
from bridge.cli.output import CliError, UsageError, progress
from bridge.cli.workspace import DEVNET, Workspace
from bridge.desk import Desk
from bridge.dlq.decisions import DecisionError
from bridge.protocol.deployment import Deployment, DeploymentError
from bridge.protocol.indexed import Index
from bridge.records.dead_letters import DeadLetterLog
from bridge.service import SystemClock
from bridge.settings import Settings
from bridge.store import open_dead_letters, open_store
from bridge.undertaking import open_desk
from bridge.web import ExplorerSettings, Sources, create_app
from bridge.web.decisions import OpenDesk
from bridge.web.payload import PayloadAbiError, read_abis
from indexer.browsing import IndexBrowser
from indexer.errors import IndexerError, StoreVersionError

_T = TypeVar("_T")


def serve(
    workspace: Workspace,
    *,
    config: Path | None,
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
    kept = workspace.settings(config)
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
    sources = Sources(
        deployment=deployment,
        index=_index(kept.index_store or workspace.index_url),
        store=_kept_open(kept.store, lambda: open_store(kept.store)),
        letters=_letters(kept),
        payloads=payloads,
    )
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(sources, settings, _desk(sources, kept)),
            host=host,
            port=port,
            log_level="warning",
            server_header=False,
            proxy_headers=trusted_proxy is not None,
            forwarded_allow_ips=trusted_proxy or "",
            timeout_graceful_shutdown=2,
        )
    )
    server.config.load()
    try:
        socket = server.config.bind_socket()
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


def _kept_open(url: str, opened: Callable[[], _T]) -> Callable[[], _T | None]:
    """Opens a database when it is there, and again when another file has taken a SQLite file's place."""
    kept: dict[int, _T] = {}
    parsed = make_url(url)

    def get() -> _T | None:
        try:
            file = Path(parsed.database or "").stat().st_ino if parsed.get_backend_name() == "sqlite" else 0
        except FileNotFoundError:
            return None
        if file not in kept:
            found = opened()
            kept.clear()
            kept[file] = found
        return kept[file]

    return get


def _index(url: str) -> Callable[[], Index | None]:
    get = _kept_open(url, lambda: IndexBrowser(url))

    def ready() -> Index | None:
        try:
            return get()
        except StoreVersionError:
            raise
        except IndexerError:
            return None  # being made just now

    return ready


def _letters(settings: Settings) -> Callable[[], DeadLetterLog | None]:
    url = settings.dlq.url or settings.store
    return _kept_open(url, lambda: open_dead_letters(url))


def _desk(sources: Sources, settings: Settings) -> OpenDesk:
    """A desk without a key: what is decided there is signed by the visitor's wallet."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Desk]:
        store, log = sources.store(), sources.letters()
        if store is None or log is None:
            raise DecisionError("no relayer has run here yet, so there are no dead letters: waybill relayer run")
        async with open_chains(sources.deployment) as chains:
            yield open_desk(sources.deployment, chains, store, log=log, settings=settings, clock=SystemClock())

    return opened
