"""Checks that every message of a source chain was observed, by comparing the store with the router's own counters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from bridge.protocol.backoff import backoff
from bridge.protocol.contracts import ROUTER
from bridge.protocol.ports import CallRevertedError, Chain, Clock, TransientError, read_view
from bridge.records.observations import BlockRef
from bridge.store.observations import Observations

_log = structlog.get_logger(__name__)

_LONGEST_WAIT: Final = (
    64  # intervals; each comparison that finds nothing new lengthens the wait for the next, up to this
)


class Completeness:
    """Periodically compares a source router's message counters with the number of messages observed on that chain.

    The router counts the messages of each lane (`sentTo`). Each message has its own nonce, so equal counts mean
    that no message is missing.
    """

    def __init__(
        self,
        chain: Chain,
        router: str,
        destinations: Iterable[int],
        observations: Observations,
        clock: Clock,
        *,
        every: float,
    ) -> None:
        """Creates the check of the lanes that start on one chain.

        Args:
            chain: Source chain.
            router: Address of its router.
            destinations: Destination chain ids.
            observations: Messages observed so far.
            clock: Source of time.
            every: Seconds between comparisons.
        """
        self._chain = chain
        self._router = router
        self._destinations = sorted(destinations)
        self._observations = observations
        self._clock = clock
        self._every = every
        self._consecutive_misses = 0  # consecutive comparisons that found messages missing
        self._due = 0.0
        self._unverified: set[int] = set()  # destinations whose last comparison failed

    async def is_missing_any(self, position: BlockRef) -> bool:
        """Whether fewer messages were observed up to a block than the router had counted at that block.

        Returns False if no check is due.

        Raises:
            TransientError: The chain did not respond.
        """
        now = self._clock.now()
        if now < self._due:
            return False
        lanes = await asyncio.gather(
            *(self._missing_on_lane(destination, position) for destination in self._destinations)
        )
        lacking = [lane for lane in lanes if lane is not None]
        self._due = now + backoff(self._every, self._consecutive_misses, cap=_LONGEST_WAIT * self._every)
        self._consecutive_misses = self._consecutive_misses + 1 if lacking else 0
        for text in lacking:
            _log.warning(
                "messages missing, rereading the chain", chain=self._chain.chain_id, block=position.number, lane=text
            )
        return bool(lacking)

    async def _missing_on_lane(self, destination: int, position: BlockRef) -> str | None:
        try:
            (counted, _), block = await asyncio.gather(
                read_view(self._chain, ROUTER, self._router, "sentTo", destination, block=position.number),
                self._chain.block(position.number),
            )
        except (CallRevertedError, TransientError) as error:  # usually: the nodes have pruned the state of that block
            self._note_unverified(destination, position, error)
            return None
        if destination in self._unverified:
            self._unverified.remove(destination)
            _log.info("lane completeness verified again", chain=self._chain.chain_id, destination=destination)
        found = self._observations.created_on(self._chain.chain_id, destination)
        if found >= counted or block is None or block.hash != position.hash:
            return None
        return f"to {destination}: {counted} created, {found} observed"

    def _note_unverified(self, destination: int, position: BlockRef, error: Exception) -> None:
        """Logs that a lane can't be compared: once, until the comparison works again."""
        if destination in self._unverified:
            return
        self._unverified.add(destination)
        _log.warning(
            "lane completeness unverified: state at that block is pruned; add an archive endpoint",
            chain=self._chain.chain_id,
            destination=destination,
            block=position.number,
            error=str(error),
        )
