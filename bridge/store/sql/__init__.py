"""The store in a SQL database: SQLite by default."""

from __future__ import annotations

from bridge.store.sql.database import Database
from bridge.store.sql.dead_letters import SqlHead
from bridge.store.sql.executions import SqlExecutions
from bridge.store.sql.figures import SqlFigures
from bridge.store.sql.lanes import SqlLanes
from bridge.store.sql.observations import SqlObservations
from bridge.store.sql.outbox import SqlOutbox
from bridge.store.sql.pending_sync import SqlPendingSyncs
from bridge.store.sql.retries import SqlRetryJobs
from bridge.store.sql.spending import SqlSpending
from bridge.store.sql.transactions import SqlTransactionLedger


class SqlStore:
    """All that the bridge remembers, in one database. See `bridge.records.Store`."""

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
        self.executions = SqlExecutions(self._database)
        self.retries = SqlRetryJobs(self._database)
        self.lanes = SqlLanes(self._database)
        self.figures = SqlFigures(self._database)
        self.letter_head = SqlHead(self._database)
        self.pending_sync = SqlPendingSyncs(self._database)
        self.spending = SqlSpending(self._database)

    def close(self) -> None:
        """Closes its connections."""
        self._database.close()
