"""What only a database can promise, or break."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url, text
from sqlalchemy.exc import IntegrityError

from bridge.protocol.errors import StoreBusyError, StoreError, StoreVersionError
from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.records.outbox import OutboxState, TryAgain
from bridge.store import Store, open_store
from bridge.store.database import Database
from tests.builders import BETA, message, observed_range
from tests.postgresql import Server


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bridge.db"


def sqlite(path: Path) -> str:
    return f"sqlite:///{path}"


def pragma(database: Database, name: str) -> object:
    with database.reading() as connection:
        return connection.execute(text(f"PRAGMA {name}")).scalar()


def test_store_opens_after_a_kill_with_a_rollback_journal(path: Path) -> None:
    """SQLite has such a journal while it makes a new file and turns on its write-ahead log."""
    living = path.with_name("living.db")
    Store(sqlite(living)).close()
    with closing(sqlite3.connect(living, isolation_level=None)) as writer:
        for statement in (
            "PRAGMA journal_mode = DELETE",
            "PRAGMA cache_size = 1",
            "BEGIN",
            "CREATE TABLE half (written)",
        ):
            writer.execute(statement)
        writer.executemany("INSERT INTO half VALUES (zeroblob(4096))", [()] * 100)
        for suffix in ("", "-journal"):  # as a kill leaves them
            path.with_name(path.name + suffix).write_bytes(living.with_name(living.name + suffix).read_bytes())
    store = Store(sqlite(path))
    store.observations.record(observed_range(message()))
    assert len(store.outbox.entries(message().id)) == 1
    store.close()
    with closing(sqlite3.connect(path)) as file:
        assert not file.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall()


def test_every_commit_is_on_disk_before_it_returns(path: Path) -> None:
    database = Database(sqlite(path))
    assert pragma(database, "journal_mode") == "wal"
    assert pragma(database, "synchronous") == 2  # FULL
    assert pragma(database, "foreign_keys") == 1
    database.close()


def test_newer_store_is_refused_by_name_and_version(url: str) -> None:
    database = Database(url)
    with database.transaction() as connection:
        connection.execute(text("UPDATE schema_version SET version = 2"))
    database.close()
    with pytest.raises(StoreVersionError, match=r"has schema version 2.*reads versions up to 1.*upgrade Waybill"):
        open_store(url)


def test_select_role_can_read_and_others_are_told(postgresql: Server) -> None:
    url = make_url(postgresql.new_url())
    Store(url.render_as_string(hide_password=False)).close()
    with psycopg.connect(postgresql.conninfo, autocommit=True) as server:
        schema = sql.Identifier(str(url.query["options"]).partition("search_path=")[2])
        for role in ("looker", "stranger"):
            server.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
            server.execute(sql.SQL("grant usage on schema {} to {}").format(schema, sql.Identifier(role)))
        server.execute(sql.SQL("grant select on all tables in schema {} to looker").format(schema))
    with closing(Store(url.set(username="looker").render_as_string(hide_password=False))) as store:
        assert store.outbox.counts() == []
        with pytest.raises(StoreError, match=r"permission denied.*grant the permission to the database role"):
            store.observations.record(observed_range(message()))
    with pytest.raises(StoreError, match="permission denied for table schema_version"):
        Store(url.set(username="stranger").render_as_string(hide_password=False))


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_text("this is not a database, and long enough to look like one" * 20)
    with pytest.raises(StoreError, match="not a SQLite database"):
        open_store(sqlite(path))


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(StoreError, match=r"sqlite:///bridge\.db"):
        open_store("bridge.db")


def test_unusable_database_is_refused_without_its_password() -> None:
    with pytest.raises(StoreError, match=r"'mysql'.*SQLite and PostgreSQL"):
        open_store("mysql://me:secret@host/db")
    with pytest.raises(StoreBusyError) as caught:
        open_store("postgresql://me:secret@/db?host=/nowhere")
    assert "secret" not in str(caught.value)


def test_a_commit_in_postgresql_waits_for_its_log(postgresql: Server) -> None:
    database = Database(postgresql.new_url())
    with database.reading() as connection:
        assert connection.execute(text("SHOW synchronous_commit")).scalar() == "on"
        assert connection.execute(text("SHOW transaction_isolation")).scalar() == "repeatable read"
    database.close()


def test_what_strangers_say_can_be_kept_whatever_its_bytes(store: Store) -> None:
    store.observations.record(observed_range(message()))
    (entry,) = store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=200, lease=10)
    failure = Failure(at=200, kind=FailureKind.UNKNOWN, code="X", message="nul \0, half a pair \ud800, and 🙂")
    store.outbox.finish([TryAgain(entry.current_claim, failure, 201)], 200)
    assert store.outbox.failures(entry.event_id)[0].failure.message == r"nul \x00, half a pair \ud800, and 🙂"


def test_locked_store_is_a_transient_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.store.database._BUSY_SECONDS", 0)
    store = Store(sqlite(path))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusyError, match="locked"):
        store.observations.record(observed_range(message()))
    assert store.outbox.counts() == []  # reading waits for no writer
    other.execute("ROLLBACK")
    assert len(store.observations.record(observed_range(message()))) == 1
    other.close()
    store.close()


_ALLOWED = {
    (OutboxState.PENDING, OutboxState.CLAIMED),
    (OutboxState.CLAIMED, OutboxState.DELIVERED),
    (OutboxState.CLAIMED, OutboxState.PENDING),
    (OutboxState.CLAIMED, OutboxState.DEAD),
    (OutboxState.DELIVERED, OutboxState.PENDING),
    (OutboxState.DEAD, OutboxState.PENDING),
}
"""As the specification has them."""


@pytest.mark.parametrize("before", OutboxState)
@pytest.mark.parametrize("after", OutboxState)
def test_the_database_itself_refuses_every_other_transition(url: str, before: OutboxState, after: OutboxState) -> None:
    fields = {
        OutboxState.PENDING: "claimed_at=NULL, claimed_by=NULL, lease_until=NULL, delivered_at=NULL",
        OutboxState.CLAIMED: "claimed_at=1, claimed_by='w', lease_until=2, delivered_at=NULL",
        OutboxState.DELIVERED: "claimed_at=NULL, claimed_by=NULL, lease_until=NULL, delivered_at=1",
        OutboxState.DEAD: "claimed_at=NULL, claimed_by=NULL, lease_until=NULL, delivered_at=NULL",
    }
    routes = {
        OutboxState.PENDING: [],
        OutboxState.CLAIMED: [OutboxState.CLAIMED],
        OutboxState.DELIVERED: [OutboxState.CLAIMED, OutboxState.DELIVERED],
        OutboxState.DEAD: [OutboxState.CLAIMED, OutboxState.DEAD],
    }
    store = Store(url)
    store.observations.record(observed_range(message()))
    with store._database.transaction() as connection:
        for state in routes[before]:
            connection.execute(text(f"UPDATE outbox SET state='{state}', {fields[state]}"))
    allowed = before is after or (before, after) in _ALLOWED
    change = text(f"UPDATE outbox SET state='{after}', {fields[after]}")
    if allowed:
        with store._database.transaction() as connection:
            connection.execute(change)
    else:
        with (
            pytest.raises(IntegrityError, match="forbidden outbox transition"),
            store._database.transaction() as connection,
        ):
            connection.execute(change)
    (entry,) = store.outbox.entries(message().id)
    assert entry.state is (after if allowed else before)
    store.close()


@pytest.mark.parametrize(
    "broken",
    [
        "state='CLAIMED'",
        "state='CLAIMED', claimed_at=1, claimed_by='w'",
        "claimed_at=1",
        "claimed_by='w'",
        "lease_until=1",
        "delivered_at=1",
        "state='PUBLISHED'",
    ],
)
def test_database_couples_leases_and_claims(url: str, broken: str) -> None:
    store = Store(url)
    store.observations.record(observed_range(message()))
    with pytest.raises(IntegrityError), store._database.transaction() as connection:
        connection.execute(text(f"UPDATE outbox SET {broken}"))
    store.close()


def test_an_entry_is_unique_by_message_gmp_and_attempt(url: str) -> None:
    store = Store(url)
    store.observations.record(observed_range(message()))
    copy = text(f"INSERT INTO outbox (sequence, event_id, {_COLUMNS}) SELECT 99, 'another id', {_COLUMNS} FROM outbox")
    with pytest.raises(IntegrityError, match=r"(?i)unique"), store._database.transaction() as connection:
        connection.execute(copy)
    store.close()


_COLUMNS = (
    "message_id, gmp, attempt_number, kind, source_chain, destination_chain, ordering_key, created_at, transport_id,"
    " block_number, block_hash, transaction_hash, log_index, evidence, state, available_at, failed_tries, last_error, fence,"
    " claimed_at, claimed_by, lease_until, delivered_at, delivery_block_number, delivery_block_hash,"
    " delivery_transaction_hash, confirmed_at, orphaned_at, setbacks"
)
