"""Whether all messages of a source chain were found: the router's own count of them against what was read."""

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
    """Compares, now and then, how many messages the router of a source chain has counted with how many were found there.

    The router counts the messages of each lane (`sentTo`); nonces make each of them another one, so that equal counts mean
    that none is missing.
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
        """Compares the lanes from one chain.

        Args:
            chain: the source.
            router: its router.
            destinations: chain ids.
            observations: what was found.
            clock: time.
            every: seconds between two comparisons.
        """
        self._chain = chain
        self._router = router
        self._destinations = sorted(destinations)
        self._observations = observations
        self._clock = clock
        self._every = every
        self._in_vain = 0  # comparisons in a row after which messages were lacking
        self._due = 0.0
        self._unverified: set[int] = set()  # destinations whose lanes could not be compared the last time

    async def is_missing_any(self, position: BlockRef) -> bool:
        """Whether, up to a block, fewer messages were found than the router had counted there; False if it is not due.

        Raises:
            TransientError: the chain did not answer.
        """
        now = self._clock.now()
        if now < self._due:
            return False
        lanes = await asyncio.gather(*(self._lacking(destination, position) for destination in self._destinations))
        lacking = [lane for lane in lanes if lane is not None]
        self._due = now + backoff(self._every, self._in_vain, cap=_LONGEST_WAIT * self._every)
        self._in_vain = self._in_vain + 1 if lacking else 0
        for text in lacking:
            _log.warning(
                "messages missing, reading again", chain=self._chain.chain_id, block=position.number, lane=text
            )
        return bool(lacking)

    async def _lacking(self, destination: int, position: BlockRef) -> str | None:
        try:
            (counted, _), block = await asyncio.gather(
                read_view(self._chain, ROUTER, self._router, "sentTo", destination, block=position.number),
                self._chain.block(position.number),
            )
        except (CallRevertedError, TransientError) as error:  # mostly: the nodes keep no state of a block that old
            self._note_unverified(destination, position, error)
            return None
        if destination in self._unverified:
            self._unverified.remove(destination)
            _log.info("completeness verified again", chain=self._chain.chain_id, destination=destination)
        found = self._observations.created_on(self._chain.chain_id, destination)
        if found >= counted or block is None or block.hash != position.hash:
            return None
        return f"to {destination}: {counted} created, {found} found"

    def _note_unverified(self, destination: int, position: BlockRef, error: Exception) -> None:
        """Logs once that a lane can't be compared, until it can be again."""
        if destination in self._unverified:
            return
        self._unverified.add(destination)
        _log.warning(
            "completeness unverified: no endpoint has the state of that block; an archive node has",
            chain=self._chain.chain_id,
            destination=destination,
            block=position.number,
            error=str(error),
        )
