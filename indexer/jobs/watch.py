"""Compares, while the stream runs, what has become final with the routers' own totals; what is wrong is read again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import structlog

from bridge.evm.rpc_answers import RpcError
from indexer.jobs.verify import Verdict, correct, keep, last_equal, verify
from indexer.lake.history import ID_DIFFERS, History
from indexer.lake.lake import Lake
from indexer.model.errors import IndexerError
from indexer.model.settings import IndexSettings
from indexer.sources.chain import ChainConfig, ChainReader
from indexer.store.store import Store

log = structlog.get_logger(__name__)

_MOST_COMPARED: Final = 200_000  # blocks of a chain in one look: a long history takes several


def check_ids(store: Store, lake: Lake, now: float) -> None:
    """Marks final messages whose ids are not the hashes of their envelopes, from where the last check ended; `now` in Unix seconds.

    Apart from decoding, which it would make several times slower.
    """
    history = History(store.engine, lake)
    for chain, position in history.positions().items():
        first = history.ids_checked(chain) + 1
        last = min(position.final_block, first + _MOST_COMPARED - 1)
        if not position.final_hash or last < first:
            continue
        wrong = history.wrong_ids(chain, first, last)
        if wrong:
            store.mark(chain, ID_DIFFERS, wrong, now)
            log.error("message ids are not the hashes of their envelopes", chain=chain, messages=len(wrong))
        store.note_ids_checked(chain, last)


class Watch:
    """Checks from where the lanes were equal last, so it is cheap."""

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

    def look(self) -> None:
        """Checks all lanes, and reads again what is wrong; a chain that can't be asked is left for the next time."""
        readers = [ChainReader(chain, self._settings.limits) for chain in self._chains]
        try:
            check_ids(self._store, self._lake, self._clock())
            since = last_equal(self._store.engine)
            checks = verify(readers, History(self._store.engine, self._lake), since=since)
            for wrong in {
                (range_.chain_id, range_.first): range_ for check in checks for range_ in check.wrong
            }.values():
                correct(self._store, self._lake, wrong)
            # A lane that differs keeps its starting point until the corrected index matches.
            kept = [check for check in checks if check.verdict is not Verdict.DIFFERENT or not check.wrong]
            keep(self._store.engine, kept, self._clock())
            for check in checks:
                if check.verdict is Verdict.DIFFERENT:
                    log.error("lane differs", chain=check.chain_id, lane=check.other_chain, reason=check.reason)
        except (IndexerError, RpcError) as error:
            log.warning("lanes can't be compared now", reason=str(error))
        finally:
            for reader in readers:
                reader.close()
