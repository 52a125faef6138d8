"""The explorer and the JSON API. Both read the stores, and write operators' requests to the relayer's store."""

from bridge.web.app import create_app
from bridge.web.explorer import ExplorerSettings
from bridge.web.sources import Sources

__all__ = ["ExplorerSettings", "Sources", "create_app"]
