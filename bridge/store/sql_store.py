"""The store in a SQL database: SQLite by default."""

from __future__ import annotations

from sqlalchemy import Table

from bridge.domain.errors import StoreError
from bridge.domain.streams import Sink
from bridge.store.counters import Counters
from bridge.store.database import Database, parse_url, sqlite_file, table_names
from bridge.store.dead_letters import DeadLetterLog, HeadMemory
from bridge.store.figures import Figures
from bridge.store.finality_records import FinalityRecords
from bridge.store.jobs import Jobs
from bridge.store.lanes import Lanes
from bridge.store.observations import Observations
from bridge.store.outbox import Outbox
from bridge.store.payments import Payments
from bridge.store.retries import Retries
from bridge.store.spending import Spending
from bridge.store.streams import Streams
from bridge.store.tables import outbox, schema_version
from bridge.store.transactions import TransactionLedger
from bridge.store.webhooks import Webhooks


class Store:
    """All that the bridge remembers, in one database.

    All that the bridge remembers, in one database. See `bridge.domain.store.Store`.
    """

    def __init__(self, url: str) -> None:
        """Opens the store, and makes it if it is new.

        Raises:
            StoreVersionError: a newer version of Waybill made it.
            StoreError: there is no database behind that URL.
        """
        self._database = Database(url)
        self.observations = Observations(self._database)
        self.outbox = Outbox(self._database)
        self.transactions = TransactionLedger(self._database)
        self.jobs = Jobs(self._database)
        self.retries = Retries(self._database)
        self.lanes = Lanes(self._database)
        self.figures = Figures(self._database)
        self.counters = Counters(self._database)
        self.letter_head = HeadMemory(self._database)
        self.finality_records = FinalityRecords(self._database)
        self.spending = Spending(self._database)
        self.payments = Payments(self._database)
        self.streams = Streams(self._database, Sink.KAFKA)
        self.webhook_records = Streams(self._database, Sink.WEBHOOKS)
        self.webhooks = Webhooks(self._database)

    def close(self) -> None:
        """Closes its connections."""
        self._database.close()


def open_store(url: str) -> Store:
    """The store at a SQLAlchemy URL such as ``sqlite:///bridge.db`` or ``postgresql://user@host/database``.

    Raises:
        StoreVersionError: a newer version of Waybill made it.
        StoreError: there is no database behind that URL.
        StoreBusyError: the database does not answer.
    """
    return Store(url)


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
    return DeadLetterLog(url)
