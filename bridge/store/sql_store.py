"""The relayer's store in a SQL database, SQLite by default."""

from __future__ import annotations

from sqlalchemy import Table

from bridge.protocol.errors import StoreError
from bridge.store.accusations import Accusations
from bridge.store.counters import Counters
from bridge.store.database import Database, parse_url, sqlite_file, table_names
from bridge.store.dead_letters import DeadLetterLog, HeadMemory
from bridge.store.figures import Figures
from bridge.store.finality_records import FinalityRecords
from bridge.store.jobs import Jobs
from bridge.store.lanes import Lanes
from bridge.store.observations import Observations
from bridge.store.outbox import Outbox
from bridge.store.spending import Spending
from bridge.store.streams import Streams
from bridge.store.tables import outbox, schema_version
from bridge.store.transactions import TransactionLedger


class Store:
    """The relayer's entire durable state, in one database."""

    def __init__(self, url: str) -> None:
        """Opens the store, creating it if necessary.

        Raises:
            StoreVersionError: A newer version of Waybill created the store.
            StoreError: There is no database at the URL.
        """
        self._database = Database(url)
        self.observations = Observations(self._database)
        self.outbox = Outbox(self._database)
        self.transactions = TransactionLedger(self._database)
        self.jobs = Jobs(self._database)
        self.lanes = Lanes(self._database)
        self.figures = Figures(self._database)
        self.counters = Counters(self._database)
        self.accusations = Accusations(self._database)
        self.letter_head = HeadMemory(self._database)
        self.finality_records = FinalityRecords(self._database)
        self.spending = Spending(self._database)
        self.streams = Streams(self._database)

    def close(self) -> None:
        """Closes all connections."""
        self._database.close()


def open_store(url: str) -> Store:
    """Opens the store at a SQLAlchemy URL such as ``sqlite:///bridge.db`` or ``postgresql://user@host/database``.

    Raises:
        StoreVersionError: A newer version of Waybill created the store.
        StoreError: There is no database at the URL.
        StoreBusyError: The database does not respond.
    """
    return Store(url)


def is_store(url: str, *, table: Table = outbox) -> bool:
    """Whether a store exists. Creates neither a file nor tables.

    Args:
        url: URL of the database.
        table: a table that must exist, to tell a store (or a dead-letter log) from an empty database.

    Raises:
        StoreError: the URL is invalid or in memory, or its database is not a store.
        StoreBusyError: the database does not respond.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite" and sqlite_file(parsed) is None:
        raise StoreError(f"store {url} is in memory and would be empty at every start: use a file")
    return {schema_version.name, table.name} <= table_names(parsed)


def open_dead_letters(url: str) -> DeadLetterLog:
    """Returns the dead-letter log at a SQLAlchemy URL, which may be the store's own.

    The database is opened on first use, so a relayer can start while its dead letters are unreachable.
    """
    return DeadLetterLog(url)
