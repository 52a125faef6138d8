"""The sink's steps, Parquet → Delta commit → store transaction, each deleted, rewound and advanced: nothing is lost or doubled.

The fourth step, Spark's checkpoint, is in `tests/spark/test_index_checkpoint.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from indexer.jobs import backfill
from indexer.jobs.backfill import fill_store
from indexer.jobs.history import History
from indexer.jobs.promotion import promote
from indexer.jobs.stream import delete_checkpoint
from indexer.model.errors import IndexerError, LakeDamagedError
from indexer.model.settings import IndexFolder, IndexSettings, SourceLimits
from indexer.pipeline.bronze import Lake
from indexer.sources.chain import ChainConfig, ChainReader
from indexer.store.store import Store
from tests import seeds
from tests.unit.indexer.endpoint import Endpoint, reader_of
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.sink_sweep import story
from tests.unit.indexer.world import apply, contents

pytestmark = pytest.mark.long

CHAINS = {chain.chain_id: chain for chain in story()}
STARTS = {ALPHA: 0, BETA: 0}
HEADS = {"earlier": 5, "now": 9, "later": 12}
DEPTH = 2  # blocks behind the head that are final

PARQUET, COMMITS, STORE = "lake/bronze/logs/*.parquet", "lake/bronze/logs/_delta_log", "index.db*"


@pytest.fixture(autouse=True)
def _chains_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill, "ChainReader", _reader)


def _reader(config: ChainConfig, limits: SourceLimits) -> ChainReader:
    return reader_of(Endpoint(CHAINS[config.chain_id]), limits)


def run(folder: Path, head: int) -> None:
    """What a start of the index does, in its order, and then the stream up to a head."""
    lake = Lake(folder / "lake")
    store = Store(f"sqlite:///{folder / 'index.db'}")
    readers = [reader_of(Endpoint(chain), SourceLimits()) for chain in CHAINS.values()]
    try:
        promote(store, lake, STARTS)
        fill_store([reader.config for reader in readers], IndexSettings(folder=IndexFolder(path=folder)), store, lake)
        for chain in CHAINS.values():
            position = store.positions().get(chain.chain_id)
            first = 0 if position is None else position.block + 1
            if first <= head:
                apply(store, chain, first, head, final=head - DEPTH)
        promote(store, lake, STARTS)
    finally:
        for reader in readers:
            reader.close()
        store.close()


@dataclass(frozen=True)
class Made:
    """An index in the folder `now`, and copies of it as it was `earlier` and as it will be `later`."""

    folder: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    found = Made(tmp_path_factory.mktemp("index"))
    work = found.folder / "work"
    work.mkdir()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(backfill, "ChainReader", _reader)
        for name, head in HEADS.items():
            run(work, head)
            shutil.copytree(work, found.folder / name)
            assert is_right(work, head)
    return found


def is_right(folder: Path, head: int) -> bool:
    """Whether lake and store have what the chains have, once."""
    lake = Lake(folder / "lake")
    store, fresh = Store(f"sqlite:///{folder / 'index.db'}"), Store("sqlite://")
    try:
        for chain in CHAINS.values():
            apply(fresh, chain, last=head)
            assert lake.last_block(chain.chain_id) == head - DEPTH
            assert lake.events(chain.chain_id, 0, 99) == chain.events(0, head - DEPTH)
            assert History(store.engine, lake).events(chain.chain_id, 0, 99) == chain.events(0, head)
            assert store.positions()[chain.chain_id].block == head
        assert contents(store) == contents(fresh)
    finally:
        store.close()
        fresh.close()
    return True


def _remove(folder: Path, parts: Iterable[str]) -> None:
    for found in [path for part in parts for path in folder.glob(part)]:
        shutil.rmtree(found) if found.is_dir() else found.unlink()


def _put(source: Path, folder: Path, parts: Iterable[str]) -> None:
    _remove(folder, parts)
    for found in [path for part in parts for path in source.glob(part)]:
        place = folder / found.relative_to(source)
        shutil.copytree(found, place) if found.is_dir() else shutil.copy2(found, place)


CELLS: dict[str, dict[str, Any]] = {
    "Parquet deleted": {"remove": [PARQUET]},
    "Parquet rewound": {"put": [PARQUET], "of": "earlier"},
    "Parquet advanced": {"put": [PARQUET], "of": "later"},
    "Delta commit deleted": {"remove": [COMMITS]},
    "Delta commit rewound": {"put": [COMMITS], "of": "earlier"},
    "Delta commit advanced": {"put": [COMMITS, PARQUET], "of": "later"},  # no commit is made before its files
    "store transaction deleted": {"remove": [STORE]},
    "store transaction rewound": {"put": [STORE], "of": "earlier"},
    "store transaction advanced": {"put": [STORE], "of": "later"},
}
FILES_ARE_MISSING = {"Parquet deleted", "Parquet rewound"}


SAMPLE = seeds.dice("step of the sink").sample(sorted(CELLS), 4)


@pytest.mark.parametrize(
    "cell", [pytest.param(cell, marks=[] if cell in SAMPLE else pytest.mark.long) for cell in CELLS]
)
def test_lost_or_advanced_step_loses_nothing(tmp_path: Path, made: Made, cell: str) -> None:
    folder, what = tmp_path / "index", CELLS[cell]
    shutil.copytree(made.folder / "now", folder)
    if "of" in what:
        _put(made.folder / what["of"], folder, what["put"])
    else:
        _remove(folder, what["remove"])
    if cell in FILES_ARE_MISSING:
        with pytest.raises(LakeDamagedError, match=r"Put the file back.*`waybill index run`"):
            is_right(folder, HEADS["now"])
        shutil.rmtree(folder / "lake")  # as the error says
    run(folder, HEADS["later"])
    assert is_right(folder, HEADS["later"])


def test_unforgettable_checkpoint_is_refused(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    delete_checkpoint(checkpoint)
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").write_text("v1")
    delete_checkpoint(checkpoint)
    assert not checkpoint.exists()
    checkpoint.symlink_to(tmp_path)  # of a link, `rmtree` deletes neither the folder nor the link
    with pytest.raises(IndexerError, match=r"checkpoint can't be deleted: delete it by hand"):
        delete_checkpoint(checkpoint)
