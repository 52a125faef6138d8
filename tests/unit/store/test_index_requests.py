"""The index's requests are read from its own database, which may be busy, new, or not there yet."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from bridge.domain.errors import StoreBusyError
from bridge.protocol.gmps import Gmp
from bridge.store.index_requests import IndexRequests
from tests.asking_index import asking_index
from tests.builders import message, retry_request


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


def test_requests_come_in_order_after_the_cursor_and_at_most_as_many_as_asked_for(path: Path) -> None:
    requests = [retry_request(sequence, message(sequence)) for sequence in (1, 2, 5)]
    writer = asking_index(path, *reversed(requests))
    source = IndexRequests(f"sqlite:///{path}")
    assert source.requests_after(0, 10) == requests
    assert source.requests_after(1, 1) == [requests[1]]
    assert source.requests_after(5, 10) == []
    assert source.highest_sequence() == 5
    writer.close()


def test_an_index_that_is_not_there_yet_has_no_requests(path: Path) -> None:
    source = IndexRequests(f"sqlite:///{path}")
    assert source.requests_after(0, 10) == []
    assert source.highest_sequence() == 0
    assert not path.exists()  # looking does not make one


def test_an_index_without_the_table_has_no_requests(path: Path) -> None:
    sqlite3.connect(path).close()
    path.touch()
    assert IndexRequests(f"sqlite:///{path}").requests_after(0, 10) == []


def test_a_ranking_comes_best_first_without_gmps_of_a_later_waybill_and_an_index_without_any_has_none(
    path: Path,
) -> None:
    source = IndexRequests(f"sqlite:///{path}")
    assert source.ranking(1) == ()  # no index yet
    writer = asking_index(path, retry_request())
    assert source.ranking(1) == ()  # one that ranks nothing
    writer.execute("CREATE TABLE retry_gmps (sequence, rank, gmp)")
    writer.executemany("INSERT INTO retry_gmps VALUES (?, ?, ?)", [(1, 2, 1), (1, 0, 3), (1, 1, 16), (2, 0, 2)])
    assert source.ranking(1) == (Gmp.WORMHOLE, Gmp.HYPERLANE)
    assert source.ranking(3) == ()
    writer.close()


def test_an_index_that_was_made_anew_is_read_anew(path: Path) -> None:
    asking_index(path, retry_request(7)).close()
    source = IndexRequests(f"sqlite:///{path}")
    assert source.highest_sequence() == 7
    for file in path.parent.glob("index.db*"):
        file.unlink()
    asking_index(path, retry_request(1)).close()
    assert source.highest_sequence() == 1


def test_reading_neither_waits_for_the_writer_nor_can_it_write(path: Path) -> None:
    writer = asking_index(path, retry_request(1))
    writer.execute("BEGIN IMMEDIATE")
    source = IndexRequests(f"sqlite:///{path}")
    assert source.highest_sequence() == 1
    with source._engine.connect() as connection, pytest.raises(Exception, match="readonly"):
        connection.exec_driver_sql("DELETE FROM retry_requests")
    writer.close()


def test_a_file_that_can_not_be_read_now_is_a_transient_error(path: Path) -> None:
    writer = asking_index(path, retry_request(1))
    writer.execute("PRAGMA journal_mode = DELETE")
    writer.execute("BEGIN EXCLUSIVE")
    source = IndexRequests(f"sqlite:///{path}?timeout=0")
    with pytest.raises(StoreBusyError):
        source.requests_after(0, 10)
    writer.close()
