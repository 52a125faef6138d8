"""Opens what relayer and indexer keep, to read it while they run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bridge.cli.output import CliError
from bridge.cli.workspace import Workspace
from bridge.records import Store
from bridge.store import may_exist, open_store

if TYPE_CHECKING:
    from indexer.reading import IndexReader


@contextmanager
def open_index(workspace: Workspace) -> Iterator[IndexReader]:
    """The index of a network.

    Raises:
        CliError: no index has run yet.
    """
    from indexer.reading import IndexReader  # noqa: PLC0415  pyarrow is slow to import, and most commands do without

    if not workspace.index_store.exists():
        raise CliError(
            f"network {workspace.network!r} has no index yet: there is no {workspace.index_store}",
            next_step="waybill index run",
        )
    with IndexReader(f"sqlite:///{workspace.index_store}") as reader:
        yield reader


@contextmanager
def index_if_any(workspace: Workspace) -> Iterator[IndexReader | None]:
    """The index of a network, or None if no index has run yet."""
    if not workspace.index_store.exists():
        yield None
        return
    with open_index(workspace) as reader:
        yield reader


@contextmanager
def open_bridge_store(workspace: Workspace) -> Iterator[Store | None]:
    """The relayer's store, or None if no relayer has run yet."""
    url = workspace.settings().store
    if not may_exist(url):
        yield None
        return
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()
