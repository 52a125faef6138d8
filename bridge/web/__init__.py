"""The explorer: what happened to every message, for people. Reads the durable stores and writes to none of them."""

from bridge.web.app import ExplorerSettings, create_app
from bridge.web.sources import Sources

__all__ = ["ExplorerSettings", "Sources", "create_app"]
