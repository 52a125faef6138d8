"""What the tripwire remembers: nothing twice, nothing lost, and a log that shows who changed it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from bridge.domain.errors import StoreError
from bridge.domain.observations import BlockRef
from bridge.tripwire.journal import Deed, violations
from bridge.tripwire.judgement import Judgement
from bridge.tripwire.store import Reading, TripwireStore

SIGNER = Account.from_key("0x" + "66" * 32)
HERE, THERE = 10, 20
ID = b"m" * 32


def block(number: int, branch: bytes = b"a") -> BlockRef:
    return BlockRef(number, branch * 32)


def creation(number: int, branch: bytes = b"a") -> dict[str, Any]:
    place = {"chain_id": HERE, "block": number, "block_hash": branch * 32, "message_id": ID, "log_index": 0}
    return place | {"router": "0xr", "destination": THERE, "payload_hash": b"p" * 32}


def receipt(number: int = 5, gmp: int = 2) -> dict[str, Any]:
    return {
        "chain_id": THERE,
        "message_id": ID,
        "gmp": gmp,
        "source_chain": HERE,
        "payload_hash": b"p" * 32,
        "block": number,
        "block_hash": b"b" * 32,
        "block_time": 1_000,
        "transaction": b"t" * 32,
        "log_index": gmp,
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tripwire.db"


def opened(file: Path) -> closing[TripwireStore]:
    return closing(TripwireStore(file, SIGNER))


def accuse(store: TripwireStore, gmp: int = 2) -> str:
    store.apply(Reading(chain_id=THERE, tips=[block(5)], receipts=[receipt(gmp=gmp)]))
    (seen,) = store.waiting()
    return store.accuse(seen, Judgement.RECEIPT_WITHOUT_CREATION, {"kind": "x"}, 1.0, lambda _: [])


def test_what_is_read_twice_is_kept_once_and_a_ruling_stays(file: Path) -> None:
    with opened(file) as store:
        accuse(store)
        store.apply(Reading(chain_id=THERE, tips=[block(5)], receipts=[receipt()]))
        assert store.waiting() == []
        assert [one.deed for one in store.records()] == [Deed.EVIDENCE]


def test_what_falls_is_kept_as_orphaned_and_stands_again_when_it_comes_back(file: Path) -> None:
    with opened(file) as store:
        store.know(HERE, ["0xr"])
        store.apply(Reading(chain_id=HERE, tips=[block(7)], creations=[creation(6)]))
        assert store.count_created(HERE, "0xr", THERE, 7) == 1
        store.rewind(HERE, 5)
        assert [one.is_orphaned for one in store.creations(HERE, ID)] == [True]
        assert store.count_created(HERE, "0xr", THERE, 7) == 0
        store.apply(Reading(chain_id=HERE, tips=[block(8, b"c")], creations=[creation(6, b"c")]))
        assert sorted(one.is_orphaned for one in store.creations(HERE, ID)) == [False, True]
        store.apply(Reading(chain_id=HERE, tips=[block(7)], creations=[creation(6)]))
        assert [one.is_orphaned for one in store.creations(HERE, ID)] == [False, False]


def test_a_pause_whose_block_falls_is_to_be_made_again(file: Path) -> None:
    with opened(file) as store:
        accuse(store)
        (incident,) = store.incidents()
        store.settle(incident, Deed.PAUSED, {}, 2.0, until=5_000, block=9)
        assert [one.state for one in store.incidents()] == ["PAUSED"]
        store.rewind(THERE, 9)
        assert [one.state for one in store.incidents()] == ["PAUSED"], "its own block stands"
        store.rewind(THERE, 8)
        assert [one.state for one in store.incidents()] == ["OPEN"]
        assert [one.deed for one in store.records()] == [Deed.EVIDENCE, Deed.PAUSED, Deed.UNDONE]


def test_what_is_to_be_done_survives_the_process(file: Path) -> None:
    with opened(file) as store:
        name = accuse(store)
    with opened(file) as store:
        assert [(one.id, one.state) for one in store.incidents()] == [(name, "OPEN")]
        assert list(violations(store.records(), frozenset({SIGNER.address}))) == []


@pytest.mark.parametrize(
    "change",
    [
        'update log set document = \'{"kind": "y"}\' where sequence = 1',
        "delete from log where sequence = 1",
        "update log set signature = zeroblob(65) where sequence = 2",
        "update log set incident = 'another' where sequence = 2",
    ],
)
def test_a_log_that_was_changed_shows_it(file: Path, change: str) -> None:
    with opened(file) as store:
        accuse(store)
        (incident,) = store.incidents()
        store.settle(incident, Deed.PAUSED, {}, 2.0, until=5_000, block=9)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(change)
        connection.commit()
    with opened(file) as store:
        assert list(violations(store.records()))


def test_a_log_signed_by_a_stranger_shows_it(file: Path) -> None:
    with opened(file) as store:
        accuse(store)
        records = store.records()
    assert list(violations(records, frozenset({"0x" + "00" * 20})))
    assert list(violations([replace(records[0], signature=b"")]))


def test_a_file_of_something_else_is_refused(file: Path) -> None:
    file.write_bytes(b"no database at all, but long enough to be taken for one" * 20)
    with pytest.raises(StoreError, match="can't be used"):
        TripwireStore(file, SIGNER)
    with pytest.raises(StoreError, match="no tripwire's store"):
        TripwireStore(":memory:")
