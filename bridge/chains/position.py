"""How far we have gone by one endpoint's answers, and whether another one can be gone over to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

_log = structlog.get_logger(__name__)


class Position:
    """The highest block that we were told of, by number and hash.

    An endpoint without that very block would look like a reorg to whoever reads the chain. If none has it for a while, there
    was one.
    """

    def __init__(self, chain_id: int, patience: float) -> None:
        """Knows no block yet; `patience` is for how many seconds another branch is refused."""
        self._chain_id = chain_id
        self._patience = patience
        self._number: int | None = None
        self._hash: Any = None
        # On the event loop's clock: since when nobody but another branch answers.
        self._refused_since: float | None = None

    @property
    def number(self) -> int | None:
        """The block that another endpoint has to know, or None if any will do."""
        return self._number

    def remember(self, block: Mapping[str, Any]) -> None:
        """Notes a block that the endpoint whose answers we go by has told us of."""
        try:
            number = int(block["number"], 16)
        except (KeyError, TypeError, ValueError):
            return  # whoever asked finds the form unusable
        if self._number is None or number >= self._number:
            self._number, self._hash = number, block.get("hash")

    def answered(self) -> None:
        """An endpoint on our branch has answered."""
        self._refused_since = None

    def objection_to(self, block: Any) -> str | None:
        """Why an endpoint that answers so when asked for our block is not to be gone over to; None if it may."""
        if not isinstance(block, dict):
            return f"it is behind: it does not know block {self._number} yet"
        if block.get("hash") == self._hash:
            return None
        now = asyncio.get_running_loop().time()
        if self._refused_since is None:
            self._refused_since = now
        if now - self._refused_since < self._patience:
            return f"it is on another branch: its block {self._number} is {block.get('hash')}, and ours {self._hash}"
        _log.warning(
            "no endpoint knows our block any more: gone over to another branch",
            chain=self._chain_id,
            block=self._number,
        )
        self._number = self._hash = None
        return None
