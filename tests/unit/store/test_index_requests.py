"""The index's requests are read from its own database, which may be busy, new, or not there yet."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
from pathlib import Path

import pytest

from bridge.protocol.errors import StoreBusyError
from bridge.store.index_requests import IndexRequests
from tests.asking_index import asking_index
from tests.builders import message, retry_request


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "index.db"


async def test_requests_come_in_order_after_the_cursor(path: Path) -> None:
    requests = [retry_request(sequence, message(sequence)) for sequence in (1, 2, 5)]
    writer = asking_index(path, *reversed(requests))
    source = IndexRequests(f"sqlite:///{path}")
    assert await source.requests_after(0, 10) == requests
    assert await source.requests_after(1, 1) == [requests[1]]
    assert await source.requests_after(5, 10) == []
    assert await source.highest_sequence() == 5
    writer.close()


async def test_an_index_that_is_not_there_yet_has_no_requests(path: Path) -> None:
    source = IndexRequests(f"sqlite:///{path}")
    assert await source.requests_after(0, 10) == []
    assert await source.highest_sequence() == 0
    assert list(path.parent.iterdir()) == []  # looking does not make one


async def test_an_index_without_the_table_has_no_requests(path: Path) -> None:
    with sqlite3.connect(path) as writer:
        writer.execute("CREATE TABLE other (id)")
    assert await IndexRequests(f"sqlite:///{path}").requests_after(0, 10) == []


async def test_an_index_that_was_made_anew_is_read_anew(path: Path) -> None:
    asking_index(path, retry_request(7)).close()
    source = IndexRequests(f"sqlite:///{path}")
    assert await source.highest_sequence() == 7
    for file in path.parent.glob("index.db*"):
        file.unlink()
    asking_index(path, retry_request(1)).close()
    assert await source.highest_sequence() == 1


async def test_reading_neither_waits_for_the_writer_nor_can_it_write(path: Path) -> None:
    writer = asking_index(path, retry_request(1))
    writer.execute("BEGIN IMMEDIATE")
    source = IndexRequests(f"sqlite:///{path}")
    assert await source.highest_sequence() == 1
    with source._engine.connect() as connection, pytest.raises(Exception, match="readonly"):
        connection.exec_driver_sql("DELETE FROM retry_requests")
    writer.close()


async def test_a_file_that_can_not_be_read_now_is_a_transient_error(path: Path) -> None:
    writer = asking_index(path, retry_request(1))
    writer.execute("PRAGMA journal_mode = DELETE")
    writer.execute("BEGIN EXCLUSIVE")
    source = IndexRequests(f"sqlite:///{path}?timeout=0")
    with pytest.raises(StoreBusyError):
        await source.requests_after(0, 10)
    writer.close()


async def test_silent_database_is_given_up_and_holds_up_nothing_else() -> None:
    """The listener accepts connections by its backlog, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        source = IndexRequests(f"postgresql://user@127.0.0.1:{port}/index", answer_seconds=0.2)
        reading = asyncio.create_task(source.highest_sequence())
        await asyncio.sleep(0)  # the read starts, and must not keep this task from going on
        assert not reading.done()
        with pytest.raises(StoreBusyError):
            await reading
