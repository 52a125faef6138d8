"""The settings of all programs: relayer, index and their tools."""

from __future__ import annotations

from pydantic import Field

from bridge.service.settings import Settings
from indexer.model.settings import IndexTable


class WaybillSettings(Settings):
    """All settings of `waybill.toml`."""

    index: IndexTable = Field(default=IndexTable(), description="settings of the index, see below")

    def chain_names(self) -> dict[str, frozenset[str] | set[str]]:
        """See `Settings.chain_names`."""
        return {**super().chain_names(), "index": {name for lane in self.index.lanes for name in lane.chain_names}}
