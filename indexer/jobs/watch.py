"""Verifies newly final blocks against the routers' totals while the stream runs, and corrects wrong ranges."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from bridge.evm.rpc_answers import RpcError
from indexer.jobs.history import History
from indexer.jobs.verify import Verdict, correct, last_equal, store_checks, verify
from indexer.model.errors import IndexerError
from indexer.model.settings import IndexSettings
from indexer.pipeline.bronze import Lake
from indexer.sources.chain import ChainConfig, ChainReader
from indexer.store.store import Store

log = structlog.get_logger(__name__)


class Watch:
    """Verifies all lanes periodically. Cheap, because it continues from the last checks whose totals were equal."""

    def __init__(
        self,
        chains: Sequence[ChainConfig],
        settings: IndexSettings,
        *,
        store: Store,
        lake: Lake,
        clock: Callable[[], float],
    ) -> None:
        """Creates the watch. `clock` returns Unix seconds."""
        self._chains = chains
        self._settings = settings
        self._store = store
        self._lake = lake
        self._clock = clock

    def look(self) -> None:
        """Checks all lanes and corrects wrong ranges. A chain that does not respond is checked next time."""
        readers = [ChainReader(chain, self._settings.limits) for chain in self._chains]
        try:
            since = last_equal(self._store.engine)
            checks = verify(readers, History(self._store.engine, self._lake), since=since)
            for wrong in {
                (range_.chain_id, range_.first): range_ for check in checks for range_ in check.wrong
            }.values():
                correct(self._store, self._lake, wrong)
            # A lane that differs keeps its starting point until the corrected index matches.
            kept = [check for check in checks if check.verdict is not Verdict.DIFFERENT or not check.wrong]
            store_checks(self._store.engine, kept, self._clock())
            for check in checks:
                if check.verdict is Verdict.DIFFERENT:
                    log.error("lane totals differ", chain=check.chain_id, lane=check.other_chain, reason=check.reason)
        except (IndexerError, RpcError) as error:
            log.warning("lanes not verified", reason=str(error))
        finally:
            for reader in readers:
                reader.close()
