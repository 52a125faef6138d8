"""The store in a SQL database: SQLite by default."""

from __future__ import annotations

from bridge.store.database import Database
from bridge.store.dead_letters import SqlHead
from bridge.store.executions import SqlExecutions
from bridge.store.figures import SqlFigures
from bridge.store.lanes import SqlLanes
from bridge.store.observations import SqlObservations
from bridge.store.outbox import SqlOutbox
from bridge.store.pending_sync import SqlPendingSyncs
from bridge.store.retries import SqlRetryJobs
from bridge.store.spending import SqlSpending
from bridge.store.transactions import SqlTransactionLedger


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
