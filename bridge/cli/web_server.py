"""Assembles the explorer and serves it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol, TypeVar

import structlog
from sqlalchemy import make_url

from bridge.cli.index_settings import chains_to_ask
from bridge.cli.logs import configure_logging
from bridge.cli.output import UsageError, progress
from bridge.cli.root import DEVNET, current
from bridge.cli.workspace import Workspace
from bridge.dead_letters.decisions import DecisionError
from bridge.dead_letters.review import DeadLetterReview
from bridge.evm.rpc_answers import RpcError, WrongChainError
from bridge.protocol.deployment import Deployment
from bridge.protocol.indexed import Payment
from bridge.protocol.ports import TransientError
from bridge.service.connections import connected
from bridge.service.dead_letter_service import open_review
from bridge.service.listening import listening_at
from bridge.service.relayer_service import SystemClock, run_until_signalled
from bridge.service.serving import serving
from bridge.service.settings import Settings
from bridge.store import open_dead_letters, open_store
from bridge.web import ExplorerSettings, Sources, create_app
from bridge.web.costs import Payments
from bridge.web.timeline import Transaction
from indexer.model.errors import IndexerError, StoreVersionError
from indexer.model.settings import SourceLimits
from indexer.sources.chain import ChainConfig, ChainReader
from indexer.store.browser import IndexBrowser


class _Closable(Protocol):
    def close(self) -> None:
        """Closes the database."""


_Opened = TypeVar("_Opened", bound=_Closable)

_log = structlog.get_logger(__name__)


def serve(
    workspace: Workspace,
    *,
    http: str,
    read_only: bool,
    public_rpc: Sequence[str],
    block_explorers: Sequence[str],
    trusted_proxy: str | None,
    requests_per_minute: int,
) -> None:
    """Serves the explorer until a signal ends it. The arguments are the options of `waybill web`.

    Raises:
        UsageError: an option is invalid.
        ListeningError: the address is unavailable.
    """
    if current().as_json:
        configure_logging(as_json=True)
    deployment = workspace.deployment()
    kept = workspace.settings().model_copy(update={"store": workspace.store})
    settings = ExplorerSettings(
        public_rpc=_public_rpc(deployment, public_rpc),
        block_explorers=_by_chain(deployment, "--block-explorer", block_explorers),
        read_only=read_only,
        open_letters=is_open(http, kept, trusted_proxy) and not read_only,
        token=kept.api_token,
        requests_per_minute=requests_per_minute,
        max_lag=kept.index.max_lag,
    )
    letters = kept.dlq.url or kept.store
    sources = Sources(
        deployment=deployment,
        index=_index(kept.index_store or workspace.index_url),
        store=_reopened(kept.store, lambda: open_store(kept.store)),
        dead_letters=_reopened(letters, lambda: open_dead_letters(letters)),
        payments=partial(_payments, chains_to_ask(workspace)),
    )
    listener = listening_at(http)
    app = create_app(sources, settings, partial(review_without_key, sources, kept))

    async def run() -> None:
        async with serving(app, listener, trusted_proxy=trusted_proxy) as url:
            if current().as_json:
                _log.info("serving the explorer", url=url)
            else:
                progress(f"the explorer is at {url}/")
            await asyncio.Event().wait()

    asyncio.run(run_until_signalled(run))


def is_open(http: str, settings: Settings, trusted_proxy: str | None) -> bool:
    """Whether dead letters are shown to everybody.

    They are if only this machine can reach the server and no token is configured.
    """
    if settings.api_token is not None or trusted_proxy is not None:
        return False
    host = http.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _public_rpc(deployment: Deployment, given: Sequence[str]) -> Mapping[int, str]:
    """Returns the RPC URLs to publish to visitors.

    URLs in the deployments file may contain API keys, so they are published only for a devnet.
    """
    urls = {chain.chain_id: chain.rpc_urls[0] for chain in deployment.chains} if deployment.network == DEVNET else {}
    return urls | _by_chain(deployment, "--public-rpc", given)


def _by_chain(deployment: Deployment, option: str, given: Sequence[str]) -> dict[int, str]:
    urls = {}
    for entry in given:
        name, separator, url = entry.partition("=")
        if not separator or not url.startswith(("http://", "https://")):
            raise UsageError(f"{option} {entry!r} is not CHAIN=URL, such as alpha=https://alpha.example.org")
        urls[deployment.chain(name).chain_id] = url.rstrip("/")
    return urls


def _reopened(url: str, opened: Callable[[], _Opened]) -> Callable[[], _Opened | None]:
    """Returns a getter that opens a database once it exists, and reopens it if its SQLite file was replaced."""
    kept: dict[int, _Opened] = {}
    parsed = make_url(url)

    def get() -> _Opened | None:
        try:
            file = Path(parsed.database or "").stat().st_ino if parsed.get_backend_name() == "sqlite" else 0
        except FileNotFoundError:
            return None
        if file not in kept:
            found = opened()
            for replaced in kept.values():
                replaced.close()  # requests that still read it end undisturbed
            kept.clear()
            kept[file] = found
        return kept[file]

    return get


def _index(url: str) -> Callable[[], IndexBrowser | None]:
    get = _reopened(url, lambda: IndexBrowser(url))

    def ready() -> IndexBrowser | None:
        try:
            return get()
        except StoreVersionError:
            raise
        except IndexerError:
            return None  # it is being created

    return ready


def _payments(chains: Sequence[ChainConfig], wanted: Sequence[Transaction]) -> Payments:
    """Reads the costs of transactions from the chains."""
    payments: dict[Transaction, Payment] = {}
    for chain in chains:
        on_chain = {one.hash: one for one in wanted if one.chain_id == chain.chain_id}
        try:
            with ChainReader(chain, SourceLimits()) as reader:
                payments |= {on_chain[digest]: paid for digest, paid in reader.costs(list(on_chain)).items()}
        except RpcError as error:
            _log.warning("transaction costs unavailable", chain=chain.chain_id, error=str(error))
    return payments


@asynccontextmanager
async def review_without_key(sources: Sources, settings: Settings) -> AsyncIterator[DeadLetterReview]:
    """Opens a review for a decision that the visitor's wallet signs; see `bridge.web.decisions.OpenReview`.

    Raises:
        DecisionError: no relayer has run here yet.
        TransientError: a chain returns no usable response.
    """
    store, log = sources.store(), sources.dead_letters()
    if store is None or log is None:
        raise DecisionError("no relayer has run here yet, so there are no dead letters: waybill relayer run")
    try:
        async with connected(sources.deployment, settings) as chains:
            yield open_review(sources.deployment, chains, store, log=log, settings=settings, clock=SystemClock())
    except WrongChainError as error:
        raise TransientError(str(error)) from error
