"""Opens what relayer and indexer keep, to read it while they run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bridge.cli.output import CliError
from bridge.cli.workspace import Workspace
from bridge.service.settings import Settings
from bridge.store.dead_letters import DeadLetterLog

if TYPE_CHECKING:
    from bridge.store import Store
    from indexer.store.browser import IndexBrowser

_SQLITE: Final = "sqlite:///"


def _is_nothing(url: str) -> bool:
    """Whether a URL names a SQLite file that is not there: a small installation, which has no stores, can tell that too."""
    return url.startswith(_SQLITE) and not Path(url.removeprefix(_SQLITE).partition("?")[0]).exists()


@contextmanager
def open_index(workspace: Workspace) -> Iterator[IndexBrowser]:
    """The index of a network.

    Raises:
        CliError: no index has run yet.
    """
    with index_if_any(workspace) as index:
        if index is None:
            raise CliError(f"network {workspace.network!r} has no index yet", next_step="waybill index run")
        yield index


@contextmanager
def index_if_any(workspace: Workspace) -> Iterator[IndexBrowser | None]:
    """The index of a network, or None if no index has run yet."""
    if _is_nothing(workspace.index_url):
        yield None
        return
    from indexer.model.errors import NoIndexError
    from indexer.store.browser import IndexBrowser
    from indexer.store.engine import may_exist

    with ExitStack() as stack:
        index = None
        if may_exist(workspace.index_url):
            with suppress(NoIndexError):
                index = stack.enter_context(IndexBrowser(workspace.index_url))
        yield index


@contextmanager
def open_relayer_store(workspace: Workspace) -> Iterator[Store | None]:
    """The relayer's store, or None if no relayer has run yet.

    Raises:
        CliError: the settings name a store that is not there.
    """
    url = workspace.store
    if _is_nothing(url):
        yield None
        return
    from bridge.store import is_store, open_store

    with closing(open_store(url)) if is_store(url) else nullcontext() as store:
        yield store


@contextmanager
def open_letters(settings: Settings) -> Iterator[DeadLetterLog | None]:
    """The dead letters, or None if no relayer has run yet."""
    url = settings.dlq.url or settings.store
    if _is_nothing(url):
        yield None
        return
    from bridge.store import is_store, open_dead_letters
    from bridge.store.dead_letters import dead_letter_log

    with closing(open_dead_letters(url)) if is_store(url, table=dead_letter_log) else nullcontext() as log:
        yield log
