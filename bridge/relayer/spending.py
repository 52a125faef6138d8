"""The spending gate: asked before anything is paid for, on every path that pays.

It asks whether the filters allow the message, whether it is paid for, and whether the bounds have room. The sender asks the
last two once more, with the exact cost, in the transaction of the store that reserves the nonce: so no restart and no second
worker spends beyond them. A delivery costs its declared gas at the highest price. Simulated gas is not trusted: a recipient may
behave differently in a simulation.
What is refused waits, and is looked at again; nothing is lost.
"""

from __future__ import annotations

from typing import Final

import structlog

from bridge.protocol.message import Message
from bridge.protocol.ports import Clock
from bridge.records.relay_policy import EVERYTHING, RelayPolicy
from bridge.records.spending import (
    NOTHING,
    UNBOUNDED,
    Blocked,
    Bound,
    Refusal,
    SpendBlockedError,
    SpendBounds,
    SpentFor,
    TotalKeys,
)
from bridge.store.spending import Spending

_log = structlog.get_logger(__name__)

_SHORTEST: Final = 5.0  # seconds until what waits is looked at again; longer the longer it has waited
_LONGEST: Final = 300.0
_WHY_FILTERED: Final = (
    "the settings have this relayer leave messages of its sender or lane alone"
    " (allow_senders, deny_senders, allow_chains, deny_chains)"
)


class SpendGate:
    """Says what may be paid for, and keeps a list of what waits because of it."""

    def __init__(
        self,
        spending: Spending,
        clock: Clock,
        *,
        accepts: RelayPolicy = EVERYTHING,
        bounds: SpendBounds = UNBOUNDED,
    ) -> None:
        """Shared by all that spend.

        Args:
            spending: what was spent.
            clock: time.
            accepts: whose messages to pay for.
            bounds: what they may cost.
        """
        self._spending = spending
        self._clock = clock
        self._accepts = accepts
        self._bounds = bounds

    def refusal(self, message: Message, chain_id: int, *, executes: bool = False) -> Refusal | None:
        """Why nothing more is paid for a message on a chain now; None if there is room left.

        Args:
            message: which one.
            chain_id: where it would be paid.
            executes: whether it is an execution, for which executions that failed before count.
        """
        if not self._accepts.allows(message):
            return Refusal(Bound.FILTERS, _WHY_FILTERED)
        if self._bounds == UNBOUNDED:
            return None
        now, who = self._clock.now(), SpentFor.of(message)
        keys = TotalKeys.of(chain_id, who, now)
        totals = self._spending.totals(keys.all)
        refusal = self._bounds.refusal(who, keys, totals, wei=0, now=now, executes=executes)
        has_failed = keys.message is not None and totals.get(keys.message, NOTHING).failures > 0
        if refusal is None and not executes and has_failed:
            # Its recipient has refused it: each further delivery executes it once more. It needs none, and the last failure
            # is left for an execution that costs nothing until a call succeeds.
            return self._bounds.failed(keys, totals, now=now, spared=1)
        return refusal

    def admit(self, message: Message, chain_id: int) -> None:
        """Refuses what there is no room for; see `refusal`.

        Raises:
            SpendBlockedError: nothing more is paid for it now.
        """
        refusal = self.refusal(message, chain_id)
        if refusal is not None:
            raise SpendBlockedError(refusal)

    def failures(self, message: Message) -> int:
        """How many executions of a message have failed in a transaction."""
        key = TotalKeys.of(message.destination_chain, SpentFor.of(message), self._clock.now()).message
        return 0 if key is None else self._spending.totals([key]).get(key, NOTHING).failures

    def note_blocked(self, subject: str, message: Message, refusal: Refusal) -> float:
        """Notes that something waits; returns when to look at it again (Unix seconds).

        Args:
            subject: an outbox entry's id, or the name of what would be sent.
            message: the message that it is for.
            refusal: why.
        """
        now, who = self._clock.now(), SpentFor.of(message)
        blocked = Blocked(subject, who.message_id, who.lane, refusal.bound, refusal.why, now, now)
        since = self._spending.note_blocked(blocked)
        if since == now:
            _log.warning("not paid for now", subject=subject, bound=refusal.bound.value, reason=refusal.why)
        wait = min(max(now - since, _SHORTEST), _LONGEST)
        return now + wait if refusal.room_from is None else min(now + wait, max(refusal.room_from, now + _SHORTEST))

    def release(self, subject: str) -> None:
        """Notes that it waits no more."""
        self._spending.release(subject)
