"""The store in a SQL database: SQLite by default."""

from __future__ import annotations

from sqlalchemy import Table

from bridge.domain.dead_letters import DeadLetterLog
from bridge.domain.errors import StoreError
from bridge.domain.streams import Sink
from bridge.store.counters import SqlCounters
from bridge.store.database import Database, parse_url, sqlite_file, table_names
from bridge.store.dead_letters import SqlDeadLetterLog, SqlHead
from bridge.store.figures import SqlFigures
from bridge.store.finality_records import SqlFinalityRecords
from bridge.store.jobs import SqlJobs
from bridge.store.lanes import SqlLanes
from bridge.store.observations import SqlObservations
from bridge.store.outbox import SqlOutbox
from bridge.store.payments import SqlPayments
from bridge.store.retries import SqlRetries
from bridge.store.spending import SqlSpending
from bridge.store.streams import SqlStreams
from bridge.store.tables import outbox, schema_version
from bridge.store.transactions import SqlTransactionLedger
from bridge.store.webhooks import SqlWebhooks


class SqlStore:
    """All that the bridge remembers, in one database. See `bridge.domain.store.Store`."""

    def __init__(self, url: str) -> None:
        """Opens the store, and makes it if it is new.

        Raises:
            StoreVersionError: a newer version of Waybill made it.
            StoreError: there is no database behind that URL.
        """
        self._database = Database(url)
        self.observations = SqlObservations(self._database)
        self.outbox = SqlOutbox(self._database)
        self.transactions = SqlTransactionLedger(self._database)
        self.jobs = SqlJobs(self._database)
        self.retries = SqlRetries(self._database)
        self.lanes = SqlLanes(self._database)
        self.figures = SqlFigures(self._database)
        self.counters = SqlCounters(self._database)
        self.letter_head = SqlHead(self._database)
        self.finality_records = SqlFinalityRecords(self._database)
        self.spending = SqlSpending(self._database)
        self.payments = SqlPayments(self._database)
        self.streams = SqlStreams(self._database, Sink.KAFKA)
        self.webhook_records = SqlStreams(self._database, Sink.WEBHOOKS)
        self.webhooks = SqlWebhooks(self._database)

    def close(self) -> None:
        """Closes its connections."""
        self._database.close()


def open_store(url: str) -> SqlStore:
    """The store at a SQLAlchemy URL such as ``sqlite:///bridge.db`` or ``postgresql://user@host/database``.

    Raises:
        StoreVersionError: a newer version of Waybill made it.
        StoreError: there is no database behind that URL.
        StoreBusyError: the database does not answer.
    """
    return SqlStore(url)


def is_store(url: str, *, table: Table = outbox) -> bool:
    """Whether there is a store: reading must not make one, nor make tables in what is none.

    Args:
        url: of the database.
        table: one that tells a relayer's store, or its dead letters, from an empty database.

    Raises:
        StoreError: the URL is none, or it leads into memory or to something else.
        StoreBusyError: the database does not answer.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite" and sqlite_file(parsed) is None:
        raise StoreError(f"store {url} is in memory, and would be empty at every start: name a file")
    return {schema_version.name, table.name} <= table_names(parsed)


def open_dead_letters(url: str) -> DeadLetterLog:
    """The dead letters at a SQLAlchemy URL, the store's own or another one's.

    The database is opened when it is first needed: a relayer whose dead letters are away for now can start.
    """
    return SqlDeadLetterLog(url)
