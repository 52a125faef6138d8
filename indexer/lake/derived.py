"""Tables of the lake that are rebuilt from its events: Delta tables beside `events`, replaced whole by one commit."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from indexer.lake.files import explained, files_in
from indexer.lake.lake import Reach, added, ensure_table
from indexer.model.dictionary import described
from indexer.model.errors import IndexerError
from indexer.model.storage_location import StorageLocation

_MADE_OF: Final = "events_version"  # in a commit, the version of the table `events` that the rows were made of
_MADE_WITH: Final = "made_with"  # in a commit, the texts that made them
_KEEP_HOURS: Final = 168  # for which versions that were replaced can still be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A version of such a table, and what it was made of.

    Attributes:
        version: of the table.
        folder: the table's.
        files: of that version.
        events_version: of the table `events`.
        reach: of that version of `events`.
        made_with: stands for the texts that made it; see `indexer.lake.increment.made_with`.
    """

    version: int
    folder: StorageLocation
    files: tuple[str, ...]
    events_version: int
    reach: Reach
    made_with: str


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
        if not self.folder.is_bucket:
            Path(self.folder.root).mkdir(parents=True, exist_ok=True)
        with explained(self.folder):
            ensure_table(self.folder, name, schema)

    def replace(
        self,
        manifests: Sequence[Mapping[str, Any]],
        events_version: int,
        reach: Reach,
        made_with: str = "",
        kept: tuple[Made, Sequence[str]] | None = None,
    ) -> None:
        """Puts files in the place of all that the table has, in one commit, and deletes what was replaced long ago.

        Args:
            manifests: of the files, as `indexer.lake.bucketed_tables.write_table` returns them.
            events_version: of the table `events`, of which they were made.
            reach: of that version.
            made_with: stands for the texts that made them.
            kept: the table's version that they are added to, and which of its files stay. None: none does.

        Raises:
            IndexerError: somebody else has replaced the table meanwhile.
        """
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [added(manifest, now, data_change=True) for manifest in manifests]
        properties = CommitProperties(
            custom_metadata={_MADE_OF: str(events_version), _MADE_WITH: made_with},
            app_transactions=reach.transactions(),
        )
        mode: Literal["append", "overwrite"] = "overwrite" if kept is None else "append"
        with explained(self.folder):
            table = self._table(None if kept is None else kept[0].version)
            if kept is not None:
                names = {PurePosixPath(path).name for path in kept[1]}
                there = pa.table(table.get_add_actions())
                actions += [
                    RemoveAction(path=name, data_change=True, deletion_timestamp=now, size=size)
                    for name, size in zip(there["path"].to_pylist(), there["size_bytes"].to_pylist(), strict=True)
                    if name not in names
                ]
            try:
                # What another process has committed since that version conflicts: both say how far their events reach.
                table.create_write_transaction(actions, mode=mode, schema=self._schema, commit_properties=properties)
            except CommitFailedError as error:
                raise IndexerError(f"another process writes {self.folder} too; try again when it has ended") from error
            table.vacuum(_KEEP_HOURS, dry_run=False, full=True)

    def files(self) -> list[str]:
        """The files of the table's newest version."""
        return files_in(self._table(), self.folder)

    def rows(self) -> int:
        """How many rows the newest version has."""
        return sum(pa.table(self._table().get_add_actions())["num_records"].to_pylist())

    def made(self, chains: Iterable[int]) -> Made | None:
        """The newest version, and of which events of these chains it was made; None if it never was."""
        with explained(self.folder):
            table = self._table()
            last = next((commit for commit in table.history() if _MADE_OF in commit), None)
            if last is None:
                return None
            return Made(
                version=table.version(),
                folder=self.folder,
                files=tuple(files_in(table, self.folder)),
                events_version=int(last[_MADE_OF]),
                reach=Reach.of(table, chains),
                made_with=last.get(_MADE_WITH, ""),
            )

    def _table(self, version: int | None = None) -> DeltaTable:
        return DeltaTable(self.folder.root, version=version, storage_options=self.folder.options)


def files_of_table(folder: StorageLocation) -> list[str]:
    """The files of such a table's newest version; none where there is no table."""
    with explained(folder):
        if not DeltaTable.is_deltatable(folder.root, folder.options):
            return []
        return files_in(DeltaTable(folder.root, storage_options=folder.options), folder)


def events_version_of_table(folder: StorageLocation, made_with: str | None = None) -> int | None:
    """The version of the table `events` of which such a table was made last; None where it was never made.

    Args:
        folder: the table's.
        made_with: also None if other texts made it.
    """
    with explained(folder):
        if not DeltaTable.is_deltatable(folder.root, folder.options):
            return None
        history = DeltaTable(folder.root, storage_options=folder.options).history()
    last = next((commit for commit in history if _MADE_OF in commit), None)
    if last is None or made_with not in (None, last.get(_MADE_WITH)):
        return None
    return int(last[_MADE_OF])


def reach_of_table(folder: StorageLocation, chains: Iterable[int]) -> Reach:
    """Of which events of these chains such a table was made; of none where there is no table."""
    with explained(folder):
        if not DeltaTable.is_deltatable(folder.root, folder.options):
            return Reach({}, 0)
        return Reach.of(DeltaTable(folder.root, storage_options=folder.options), chains)
