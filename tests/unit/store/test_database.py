"""What only a database can promise, or break."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import CheckConstraint, Connection, MetaData, Table, insert, inspect, make_url, select, text
from sqlalchemy.exc import IntegrityError

from bridge.domain.errors import StoreBusyError, StoreError, StoreVersionError
from bridge.domain.failures import Failure, FailureKind
from bridge.domain.outbox import TRANSITIONS, OutboxState, Retry
from bridge.domain.retries import RetryState
from bridge.domain.store import Store
from bridge.protocol.gmps import Gmp
from bridge.store import SqlStore, open_dead_letters, open_store
from bridge.store.database import Database
from bridge.store.dead_letters import DEAD_LETTER_TABLES
from tests.builders import BETA, message, observed_range, retry_request
from tests.postgresql import Server


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bridge.db"


def sqlite(path: Path) -> str:
    return f"sqlite:///{path}"


def pragma(database: Database, name: str) -> object:
    with database.reading() as connection:
        return connection.execute(text(f"PRAGMA {name}")).scalar()


@pytest.mark.requirement("OBX-70")
def test_every_commit_is_on_disk_before_it_returns(path: Path) -> None:
    database = Database(sqlite(path))
    assert pragma(database, "journal_mode") == "wal"
    assert pragma(database, "synchronous") == 2  # FULL
    assert pragma(database, "foreign_keys") == 1
    database.close()


def test_what_was_written_is_there_after_opening_again(url: str) -> None:
    first = SqlStore(url)
    first.observations.record(observed_range(message()))
    first.close()
    second = SqlStore(url)
    assert len(second.outbox.entries(message().id)) == 1
    second.close()


def test_a_store_of_a_newer_version_is_refused_by_name_and_version(url: str) -> None:
    Database(url, migrations=[lambda _: None] * 8).close()
    with pytest.raises(StoreVersionError, match=r"is of version 9.*reads up to version 8.*upgrade Waybill"):
        open_store(url)


def test_a_store_of_an_older_version_is_migrated_once(url: str) -> None:
    Database(url, migrations=[]).close()
    seen = []

    def migrate(connection: Connection) -> None:
        seen.append(connection.execute(text("SELECT count(*) FROM outbox")).scalar())

    for _ in range(2):
        Database(url, migrations=[migrate]).close()
    assert seen == [0]


ADDED = {"ix_outbox_ordering_key_sequence", "ix_outbox_never_claimed"}  # the outbox's later indexes


def test_a_store_of_the_first_version_gets_what_later_ones_added(url: str) -> None:
    database = Database(url, migrations=[])
    with database.transaction() as connection:
        for index in inspect(connection).get_indexes("outbox"):
            if index["name"] in ADDED:
                connection.execute(text(f"DROP INDEX {index['name']}"))
        connection.execute(text("ALTER TABLE outbox_failures DROP COLUMN delivery_snapshot"))
        connection.execute(text("ALTER TABLE outbox_failures DROP COLUMN letter"))
        connection.execute(text("ALTER TABLE retry_jobs DROP COLUMN letter"))
    database.close()
    database = Database(url)
    with database.reading() as connection:
        assert {one["name"] for one in inspect(connection).get_indexes("outbox")} >= ADDED
        assert {"delivery_snapshot", "letter"} <= {
            column["name"] for column in inspect(connection).get_columns("outbox_failures")
        }
        assert "letter" in {column["name"] for column in inspect(connection).get_columns("retry_jobs")}
    database.close()


def test_retries_of_an_older_store_are_kept_and_may_die_from_then_on(url: str) -> None:
    older = SqlStore(url)
    older.retries.copy([retry_request(1), retry_request(2, message(2))], 2, now=50)
    older.close()
    database = Database(url)
    with database.transaction() as connection:
        table = Table("retry_jobs", MetaData(), autoload_with=connection)
        kept = connection.execute(select(table)).mappings().all()
        table.drop(connection)
        table = table.to_metadata(MetaData())
        table._columns.remove(table.c.held_by)
        (states,) = (one for one in table.constraints if one.name == "ck_retry_jobs_state")
        table.constraints.remove(states)
        table.append_constraint(CheckConstraint("state IN ('OPEN', 'SENDING')", name="ck_retry_jobs_state"))
        table.create(connection)
        connection.execute(insert(table), [{key: row[key] for key in row if key != "held_by"} for row in kept])
        connection.execute(text("DROP INDEX ix_outbox_never_claimed"))  # a later version added it
        connection.execute(text("UPDATE schema_version SET version = 4"))
    database.close()
    with closing(SqlStore(url)) as store:
        first, second = store.retries.due(100, 10)
        assert [one.request.sequence for one in (first, second)] == [1, 2]
        assert store.retries.save(first.ended(RetryState.DEAD, "spent", 60), expected=RetryState.OPEN)
        assert store.retries.copy([retry_request(3, message(3))], 3, now=60) == 1


def test_dead_letters_in_a_database_of_their_own_are_brought_up_to_date_without_an_outbox(url: str) -> None:
    Database(url, migrations=[], tables=DEAD_LETTER_TABLES).close()
    with closing(open_dead_letters(url)) as dead_letters:
        assert dead_letters.dead_letters() == []


def test_a_migration_that_fails_changes_nothing(url: str) -> None:
    Database(url, migrations=[]).close()

    def broken(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE half_done (x INTEGER)"))
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        Database(url, migrations=[broken])
    database = Database(url, migrations=[])
    with database.reading() as connection:
        assert not inspect(connection).has_table("half_done")
    database.close()


def test_a_role_that_may_only_select_can_read_and_one_that_may_not_is_told_so(postgresql: Server) -> None:
    url = make_url(postgresql.new_url())
    SqlStore(url.render_as_string(hide_password=False)).close()
    with psycopg.connect(postgresql.conninfo, autocommit=True) as server:
        schema = sql.Identifier(str(url.query["options"]).partition("search_path=")[2])
        for role in ("looker", "stranger"):
            server.execute(sql.SQL("create role {} login").format(sql.Identifier(role)))
            server.execute(sql.SQL("grant usage on schema {} to {}").format(schema, sql.Identifier(role)))
        server.execute(sql.SQL("grant select on all tables in schema {} to looker").format(schema))
    with closing(SqlStore(url.set(username="looker").render_as_string(hide_password=False))) as store:
        assert store.outbox.counts() == []
        with pytest.raises(StoreError, match=r"permission denied.*grant it to the role"):
            store.observations.record(observed_range(message()))
    with pytest.raises(StoreError, match="permission denied for table schema_version"):
        SqlStore(url.set(username="stranger").render_as_string(hide_password=False))


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_text("this is not a database, and long enough to look like one" * 20)
    with pytest.raises(StoreError, match="not a SQLite database"):
        open_store(sqlite(path))


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(StoreError, match=r"sqlite:///bridge\.db"):
        open_store("bridge.db")


def test_a_database_that_can_keep_no_store_is_refused_and_no_password_is_shown() -> None:
    with pytest.raises(StoreError, match=r"'mysql'.*SQLite and PostgreSQL"):
        open_store("mysql://me:secret@host/db")
    with pytest.raises(StoreBusyError) as caught:
        open_store("postgresql://me:secret@/db?host=/nowhere")
    assert "secret" not in str(caught.value)


@pytest.mark.requirement("OBX-70")
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
    store.outbox.finish([Retry(entry.claim_held, failure, 201)], 200)
    assert store.outbox.failures(entry.event_id)[0].failure.message == r"nul \x00, half a pair \ud800, and 🙂"


def test_a_store_that_somebody_else_keeps_locked_is_a_transient_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.store.database._BUSY_SECONDS", 0)
    store = SqlStore(sqlite(path))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusyError, match="locked"):
        store.observations.record(observed_range(message()))
    assert store.outbox.counts() == []  # reading waits for no writer
    other.execute("ROLLBACK")
    assert len(store.observations.record(observed_range(message()))) == 1
    other.close()
    store.close()


@pytest.mark.requirement("OBXS-1", "OBX-43")
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
    store = SqlStore(url)
    store.observations.record(observed_range(message()))
    with store._database.transaction() as connection:
        for state in routes[before]:
            connection.execute(text(f"UPDATE outbox SET state='{state}', {fields[state]}"))
    allowed = before is after or (before, after) in TRANSITIONS
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


@pytest.mark.requirement("OBXS-6")
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
def test_the_database_itself_refuses_a_lease_without_a_claim_and_the_reverse(url: str, broken: str) -> None:
    store = SqlStore(url)
    store.observations.record(observed_range(message()))
    with pytest.raises(IntegrityError), store._database.transaction() as connection:
        connection.execute(text(f"UPDATE outbox SET {broken}"))
    store.close()


def test_an_entry_is_unique_by_message_gmp_and_attempt(url: str) -> None:
    store = SqlStore(url)
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


def test_two_stores_on_one_database_never_claim_the_same_entry(url: str) -> None:
    first, second = SqlStore(url), SqlStore(url)
    first.observations.record(observed_range(*(message(nonce) for nonce in range(1, 9))))
    claimed = []
    for _ in range(8):
        for store, worker in ((first, "a"), (second, "b")):
            claimed += store.outbox.claim(
                worker=worker, destination_chain=BETA, gmps=set(Gmp), limit=1, now=200, lease=10
            )
    assert len({entry.event_id for entry in claimed}) == len(claimed) == 8
    first.close()
    second.close()
