"""Tables of the lake that are rebuilt from its events: Delta tables beside `events`, replaced whole by one commit."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from indexer.lake.files import explained, files_in
from indexer.lake.lake import Reach, added, fit_schema
from indexer.model.dictionary import described, description
from indexer.model.errors import IndexerError
from indexer.model.storage_location import StorageLocation

_MADE_OF: Final = "events_version"  # in a commit, the version of the table `events` that the rows were made of
_KEEP_HOURS: Final = 168  # for which versions that were replaced can still be read


class DerivedTable:
    """One such table. Readers see the rows of one commit, the one before or the one after."""

    def __init__(self, lake: StorageLocation, name: str, schema: pa.Schema) -> None:
        """Opens the table in the lake, and makes an empty one if it is not there.

        Attributes:
            folder: the table's.

        Raises:
            LakeUnreachableError: the lake's bucket is not there, refuses, or does not answer.
            LakeVersionError: a newer Waybill wrote it.
        """
        self.folder = lake / name
        self._schema = described(name)  # a commit replaces the comments too
        root, options = self.folder.root, self.folder.options
        if not self.folder.is_bucket:
            Path(root).mkdir(parents=True, exist_ok=True)
        with explained(self.folder):
            if not DeltaTable.is_deltatable(root, options):
                DeltaTable.create(
                    root,
                    schema=described(name),
                    mode="ignore",
                    name=name,
                    description=description(name),
                    storage_options=options,
                )
            fit_schema(self._table(), schema)

    def replace(self, manifests: Sequence[Mapping[str, Any]], events_version: int, reach: Reach) -> None:
        """Puts files in the place of all that the table has, in one commit, and deletes what was replaced long ago.

        Args:
            manifests: of the files, as `indexer.lake.bucketed_tables.write_table` returns them.
            events_version: of the table `events`, of which they were made.
            reach: of that version.

        Raises:
            IndexerError: somebody else has replaced the table meanwhile.
        """
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [added(manifest, now, data_change=True) for manifest in manifests]
        properties = CommitProperties(
            custom_metadata={_MADE_OF: str(events_version)}, app_transactions=reach.transactions()
        )
        with explained(self.folder):
            table = self._table()
            try:
                table.create_write_transaction(
                    actions, mode="overwrite", schema=self._schema, commit_properties=properties
                )
            except CommitFailedError as error:
                raise IndexerError(f"another process writes {self.folder} too; try again when it has ended") from error
            table.vacuum(_KEEP_HOURS, dry_run=False, full=True)

    def files(self) -> list[str]:
        """The files of the table's newest version."""
        return files_in(self._table(), self.folder)

    def _table(self) -> DeltaTable:
        return DeltaTable(self.folder.root, storage_options=self.folder.options)


def files_of_table(folder: StorageLocation) -> list[str]:
    """The files of such a table's newest version; none where there is no table."""
    with explained(folder):
        if not DeltaTable.is_deltatable(folder.root, folder.options):
            return []
        return files_in(DeltaTable(folder.root, storage_options=folder.options), folder)


def events_version_of_table(folder: StorageLocation) -> int | None:
    """The version of the table `events` of which such a table was made last; None where it was never made."""
    with explained(folder):
        if not DeltaTable.is_deltatable(folder.root, folder.options):
            return None
        history = DeltaTable(folder.root, storage_options=folder.options).history()
    return next((int(commit[_MADE_OF]) for commit in history if _MADE_OF in commit), None)


def reach_of_table(folder: StorageLocation, chains: Iterable[int]) -> Reach:
    """Of which events of these chains such a table was made; of none where there is no table."""
    with explained(folder):
        if not DeltaTable.is_deltatable(folder.root, folder.options):
            return Reach({}, 0)
        return Reach.of(DeltaTable(folder.root, storage_options=folder.options), chains)
