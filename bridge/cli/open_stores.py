"""Opens what relayer and indexer keep, to read it while they run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bridge.cli.output import CliError
from bridge.cli.workspace import Workspace
from bridge.domain.store import Store
from bridge.store import may_exist, open_store

if TYPE_CHECKING:
    from indexer.store.reader import IndexReader


@contextmanager
def open_index(workspace: Workspace) -> Iterator[IndexReader]:
    """The index of a network.

    Raises:
        CliError: no index has run yet.
    """
    with index_if_any(workspace) as index:
        if index is None:
            raise CliError(f"network {workspace.network!r} has no index yet", next_step="waybill index run")
        yield index


@contextmanager
def index_if_any(workspace: Workspace) -> Iterator[IndexReader | None]:
    """The index of a network, or None if no index has run yet."""
    url = workspace.index_url
    index = _index_at(url) if may_exist(url) else None
    try:
        yield index
    finally:
        if index is not None:
            index.close()


def _index_at(url: str) -> IndexReader | None:
    from indexer.model.errors import NoIndexError
    from indexer.store.reader import IndexReader

    try:
        return IndexReader(url)
    except NoIndexError:
        return None


@contextmanager
def open_relayer_store(workspace: Workspace) -> Iterator[Store | None]:
    """The relayer's store, or None if no relayer has run yet.

    Raises:
        CliError: the settings name a store that is not there.
    """
    url = workspace.store
    if not may_exist(url):
        yield None
        return
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()
