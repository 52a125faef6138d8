"""The lake: final events, once each, whatever is repeated or cut off on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from indexer.jobs import promotion
from indexer.jobs.promotion import promote
from indexer.model import schemas
from indexer.model.errors import LakeVersionError, RangeGapError
from indexer.pipeline.bronze import Lake
from indexer.store.store import Store
from tests.unit.indexer.lakes import chain_with_events, final
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import apply, new_world, received, routed, sent_message

STARTS = {ALPHA: 0, BETA: 0}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(f"sqlite:///{tmp_path / 'index.db'}")
    yield opened
    opened.close()


def test_what_was_appended_is_read_back_unchanged(lake: Lake) -> None:
    chain = chain_with_events(5)
    lake.append(chain.events(0, 3), final(chain, 0, 3))
    lake.append(chain.events(4, 5), final(chain, 4, 5))
    assert lake.events(ALPHA, 0, 5) == chain.events(0, 5)
    assert lake.events(ALPHA, 2, 4) == chain.events(2, 4)
    assert (lake.last_block(ALPHA), lake.last_known(ALPHA)) == (5, (5, chain.blocks[5].hash))


def test_blocks_without_events_count_as_read(lake: Lake) -> None:
    chain, _ = new_world()
    chain.mine()
    lake.append(chain.events(0, 1), final(chain, 0, 1))
    assert (lake.last_block(ALPHA), len(lake.events(ALPHA, 0, 1))) == (1, 0)


def test_the_same_blocks_again_are_refused_and_add_nothing(lake: Lake) -> None:
    chain = chain_with_events(3)
    lake.append(chain.events(0, 3), final(chain, 0, 3))
    for first, last in ((0, 3), (2, 3)):
        with pytest.raises(RangeGapError, match="ends at block 3"):
            lake.append(chain.events(first, last), final(chain, first, last))
    assert lake.events(ALPHA, 0, 9) == chain.events(0, 3)


def test_blocks_that_leave_a_gap_are_refused(lake: Lake) -> None:
    chain = chain_with_events(5)
    lake.append(chain.events(0, 3), final(chain, 0, 3))
    with pytest.raises(RangeGapError, match="begin at block 5"):
        lake.append(chain.events(5, 5), final(chain, 5, 5))


def test_last_block_of_a_chain_that_was_long_silent_is_known(lake: Lake) -> None:
    """Its hash is in none of the recent commits, which are all of another chain."""
    chain = chain_with_events(3)
    _, beta = new_world()
    lake.append(chain.events(0, 3), final(chain, 0, 3))
    for number in range(1, 26):
        beta.mine()
        lake.append(beta.events(number, number), final(beta, number, number))
    assert lake.last_known(ALPHA) == (3, chain.blocks[3].hash)


def test_lake_with_other_columns_is_refused(tmp_path: Path) -> None:
    newer = schemas.LOGS.append(pa.field("from_the_future", pa.int64()))
    DeltaTable.create(tmp_path / "lake" / "bronze" / "logs", schema=newer)
    with pytest.raises(LakeVersionError, match="the columns of the table"):
        Lake(tmp_path / "lake")


def test_only_what_is_final_goes_to_the_lake(store: Store, lake: Lake) -> None:
    chain = chain_with_events(6)
    apply(store, chain, last=4, final=2)
    assert promote(store, lake, STARTS) == {ALPHA: 2}
    assert lake.events(ALPHA, 0, 99) == chain.events(0, 2)
    assert promote(store, lake, STARTS) == {}
    apply(store, chain, first=5, final=5)
    assert promote(store, lake, STARTS) == {ALPHA: 5}
    assert lake.events(ALPHA, 0, 99) == chain.events(0, 5)


def test_both_chains_go_in_one_commit(store: Store, lake: Lake) -> None:
    alpha, beta = new_world()
    sent = sent_message()
    alpha.mine(routed(sent))
    beta.mine(received(sent, 1))
    for chain in (alpha, beta):
        apply(store, chain, final=1)
    before = lake._table().version()
    promote(store, lake, STARTS)
    assert lake._table().version() == before + 1
    everything = pa.concat_tables([lake.events(chain.chain_id, 0, 9) for chain in (alpha, beta)])
    assert everything == pa.concat_tables([alpha.events(0, 1), beta.events(0, 1)])


@pytest.mark.parametrize("crash", ["before the Delta commit", "after the Delta commit"])
def test_a_crash_while_promoting_loses_and_doubles_nothing(
    store: Store, lake: Lake, monkeypatch: pytest.MonkeyPatch, crash: str
) -> None:
    chain = chain_with_events(6)
    apply(store, chain, final=4)

    def cut(*_: object, **__: object) -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as patched:
        if crash == "before the Delta commit":
            patched.setattr(Lake, "append", cut)
        else:
            patched.setattr(Store, "note_lake", cut)
        with pytest.raises(RuntimeError, match="power cut"):
            promotion.promote(store, lake, STARTS)
    promote(store, lake, STARTS)
    assert lake.events(ALPHA, 0, 99) == chain.events(0, 4)
    assert lake.last_block(ALPHA) == 4


def test_a_lake_that_was_deleted_is_filled_again_from_the_store(store: Store, lake: Lake, tmp_path: Path) -> None:
    chain = chain_with_events(6)
    apply(store, chain, final=5)
    promote(store, lake, STARTS)
    again = Lake(tmp_path / "again")
    promote(store, again, STARTS)
    assert again.events(ALPHA, 0, 99) == lake.events(ALPHA, 0, 99) == chain.events(0, 5)
