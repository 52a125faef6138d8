"""Compares, while the stream runs, what has become final with the routers' own totals; what is wrong is read again.

It also compares the events of store and lake. Where they differ, it asks the chain, and corrects the one that is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import structlog
from sqlalchemy import delete, insert, select

from bridge.rpc.answers import RpcError
from indexer.jobs.restore import restore
from indexer.jobs.verify import Verdict, correct, keep, last_equal, verify
from indexer.lake.history import ID_DIFFERS, History, RowCheck
from indexer.lake.lake import Lake
from indexer.model import schemas
from indexer.model.errors import IndexerError, LakeDamagedError
from indexer.model.settings import IndexSettings
from indexer.sources.chain import ChainConfig, ChainReader
from indexer.store import tables
from indexer.store.store import Store

log = structlog.get_logger(__name__)

_MOST_COMPARED: Final = 200_000  # blocks of a chain in one look: a long history takes several
_CLOSE: Final = 50  # blocks: what differs within so many is read again together


def compare_with_lake(
    store: Store, lake: Lake, readers: Sequence[ChainReader], now: float, *, whole: bool = False
) -> None:
    """Compares the events of store and lake from where they were equal last, and corrects what differs.

    What can't be corrected is noted, for `waybill index divergence` and the alerts.

    Args:
        store: open for writing.
        lake: the lake.
        readers: of the chains, which are asked where the two differ.
        now: Unix seconds.
        whole: compare from the first block on, and to the last.

    Raises:
        RpcError: a chain can't be read.
    """
    history = History(store.engine, lake)
    known = history.positions()
    row = tables.lake_checks.c
    for reader in readers:
        chain = reader.config.chain_id
        if chain not in known:
            continue
        with store.engine.connect() as connection:
            equal_to = connection.scalar(select(row.equal_to).where(row.chain_id == chain))
        first, most = (0, None) if whole else (0 if equal_to is None else equal_to + 1, _MOST_COMPARED)
        try:
            check = history.compare(chain, first, most)
            if check.differences and _correct(store, lake, reader, check):
                check = history.compare(chain, first, most)
            last, evidence = check.last, check.evidence
        except LakeDamagedError as error:
            last, evidence = first - 1, str(error)
        if evidence is not None:
            log.error("store and lake differ", chain=chain, evidence=evidence)
        checked = {"equal_to": last if evidence is None else first - 1, "evidence": evidence, "checked_at": now}
        with store.engine.begin() as connection:
            connection.execute(delete(tables.lake_checks).where(row.chain_id == chain))
            connection.execute(insert(tables.lake_checks).values(chain_id=chain, **checked))


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


def _correct(store: Store, lake: Lake, reader: ChainReader, check: RowCheck) -> bool:
    """Reads the blocks that differ from the chain again; the one of the two that the chain contradicts is corrected.

    An endpoint alone is not believed: where neither store nor lake has what it says, nothing is changed. The lake never loses
    events to an endpoint that gives fewer: `waybill index verify --repair` asks the routers first.

    Returns:
        Whether anything was corrected.
    """
    chain, done = check.chain_id, False
    for first, last in _ranges({one.block_number for one in check.differences}):
        read = pa.concat_tables([schemas.EVENTS.empty_table(), *reader.read_final(first, last)])
        lasting = lake.events(chain, first, last)
        if read.equals(lasting):
            store.correct(chain, first, last, read)
        elif len(read) >= len(lasting) and read.equals(store.events_between(chain, first, last)):
            lake.replace(chain, first, last, read, f"blocks {first}…{last} differed from store and chain")
        else:
            log.error("neither store nor lake has what the chain says", chain=chain, first=first, last=last)
            continue
        log.warning("read again and corrected", chain=chain, first=first, last=last)
        done = True
    return done


def _ranges(blocks: set[int]) -> list[tuple[int, int]]:
    """Ranges that hold the blocks, each block alone or with close ones."""
    ranges: list[tuple[int, int]] = []
    for block in sorted(blocks):
        if ranges and block - ranges[-1][1] <= _CLOSE:
            ranges[-1] = ranges[-1][0], block
        else:
            ranges.append((block, block))
    return ranges


class Watch:
    """Checks every `verify_interval` seconds, from where the lanes were equal last, so it is cheap."""

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
            compare_with_lake(self._store, self._lake, readers, self._clock())
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
            self._checked_at = time.monotonic()
