"""The costs of messages' transactions, read from the chains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Final

from bridge.evm.ttl_cache import Cached
from bridge.protocol.indexed import Payment
from bridge.web.timeline import Transaction

Payments = Mapping[Transaction, Payment]
"""Costs by transaction, except those that their chain lacks or does not report."""

_LASTS: Final = 30.0  # seconds
_MAX_MESSAGES: Final = 500  # whose costs are kept, so that reloading a page does not ask the chains again


class Costs:
    """Reads the costs of messages' transactions in the background, and caches them."""

    def __init__(self, ask: Callable[[Sequence[Transaction]], Payments], clock: Callable[[], float]) -> None:
        """Creates an empty cache.

        Args:
            ask: Reads costs from the chains.
            clock: Current Unix time in seconds.
        """

        @lru_cache(_MAX_MESSAGES)
        def cached(transactions: tuple[Transaction, ...]) -> Cached[Payments]:
            return Cached(partial(ask, transactions), lasts=_LASTS, clock=clock)

        self._cached = cached

    def of(self, transactions: tuple[Transaction, ...], patience: float) -> Payments | None:
        """Returns the costs of transactions, or None if the chains have not responded within `patience` seconds."""
        dated = self._cached(transactions).look(patience)
        return None if dated is None else dated.value
