"""Compares, while the stream runs, what has become final with the routers' own totals; what is wrong is read again.

So that it can be alerted on, it also notes where store and lake hold different events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from sqlalchemy import delete, insert, select

from indexer.errors import IndexerError, LakeDamagedError
from indexer.jobs.restore import restore
from indexer.jobs.verify import Verdict, correct, keep, last_equal, verify
from indexer.settings import IndexSettings
from indexer.sinks import tables
from indexer.sinks.history import History
from indexer.sinks.lake import Lake
from indexer.sinks.store import Store
from indexer.sources.chain import ChainConfig, ChainReader

log = structlog.get_logger(__name__)

_MOST_COMPARED: Final = 200_000  # blocks of a chain in one look: a long history is gone through in several


def compare_with_lake(store: Store, lake: Lake, now: float) -> None:
    """Compares the events of store and lake from where they were equal last, and notes what differs; `now` in Unix seconds."""
    history = History(store.engine, lake)
    row = tables.lake_checks.c
    for chain in sorted(history.positions()):
        with store.engine.connect() as connection:
            equal_to = connection.scalar(select(row.equal_to).where(row.chain_id == chain))
        first = 0 if equal_to is None else equal_to + 1
        try:
            last, evidence = history.differs(chain, first, _MOST_COMPARED)
        except LakeDamagedError as error:
            last, evidence = first - 1, str(error)
        if evidence is not None:
            log.error("store and lake differ", chain=chain, evidence=evidence)
        checked = {"equal_to": last if evidence is None else first - 1, "evidence": evidence, "checked_at": now}
        with store.engine.begin() as connection:
            connection.execute(delete(tables.lake_checks).where(row.chain_id == chain))
            connection.execute(insert(tables.lake_checks).values(chain_id=chain, **checked))


class Watch:
    """Checks every `verify_interval` seconds, from where the lanes were equal last: cheap."""

    def __init__(
        self,
        chains: Sequence[ChainConfig],
        settings: IndexSettings,
        *,
        store: Store,
        lake: Lake,
        clock: Callable[[], float],
    ) -> None:
        """Prepares; `clock` gives Unix seconds."""
        self._chains = chains
        self._settings = settings
        self._store = store
        self._lake = lake
        self._clock = clock
        self._checked_at = time.monotonic()

    def look_now_and_then(self) -> None:
        """Checks if it is time to; a chain that can't be asked is left for the next time."""
        if time.monotonic() - self._checked_at >= self._settings.verify_interval:
            self.look()

    def look(self) -> None:
        """Checks all lanes, and reads again what is wrong, or what the lake has lost."""
        readers = [ChainReader(chain, self._settings.limits) for chain in self._chains]
        try:
            restore(readers, self._store, self._lake)
            compare_with_lake(self._store, self._lake, self._clock())
            since = last_equal(self._store.engine)
            checks = verify(readers, History(self._store.engine, self._lake), since=since)
            for wrong in {
                (range_.chain_id, range_.first): range_ for check in checks for range_ in check.wrong
            }.values():
                correct(self._store, self._lake, wrong)
            # The base of a lane found different stays where it was equal last, until the corrected index is compared again.
            kept = [check for check in checks if check.verdict is not Verdict.DIFFERENT or not check.wrong]
            keep(self._store.engine, kept, self._clock())
            for check in checks:
                if check.verdict is Verdict.DIFFERENT:
                    log.error("lane differs", chain=check.chain_id, lane=check.other_chain, reason=check.reason)
        except IndexerError as error:
            log.warning("lanes can't be compared now", reason=str(error))
        finally:
            for reader in readers:
                reader.close()
            self._checked_at = time.monotonic()
