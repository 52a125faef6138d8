"""The spending gate, consulted before every payment.

It checks that the filters allow the message and that no bound would be exceeded. The sender checks the bounds
again with the exact cost, in the store transaction that reserves the nonce, so that neither a restart nor a
second worker exceeds them. A delivery is charged its declared gas at the highest price: simulated gas is not
trusted, because a recipient may behave differently in a simulation. Blocked work waits and is checked again;
nothing is lost.
"""

from __future__ import annotations

from typing import Final

import structlog

from bridge.protocol.message import Message
from bridge.protocol.ports import Clock
from bridge.records.relay_policy import EVERYTHING, RelayPolicy
from bridge.records.spending import (
    UNBOUNDED,
    Blocked,
    Bound,
    Refusal,
    SpendBlockedError,
    SpendBounds,
    SpentFor,
    total_keys,
)
from bridge.store.spending import Spending

_log = structlog.get_logger(__name__)

_SHORTEST: Final = 5.0  # minimum seconds before blocked work is checked again; grows with the wait
_LONGEST: Final = 300.0
_WHY_FILTERED: Final = (
    "the settings exclude messages of this sender or lane (allow_senders, deny_senders, allow_chains, deny_chains)"
)


class SpendGate:
    """Admits or refuses payments, and lists the blocked work."""

    def __init__(
        self,
        spending: Spending,
        clock: Clock,
        *,
        accepts: RelayPolicy = EVERYTHING,
        bounds: SpendBounds = UNBOUNDED,
    ) -> None:
        """Creates the gate that all components share.

        Args:
            spending: Stored amounts spent.
            clock: Source of time.
            accepts: Filter for messages to pay for.
            bounds: Cost bounds by chain.
        """
        self._spending = spending
        self._clock = clock
        self._accepts = accepts
        self._bounds = bounds

    def refusal(self, message: Message, chain_id: int) -> Refusal | None:
        """Returns the reason why a message may not be paid for on a chain now, or None if it may.

        Args:
            message: The message.
            chain_id: Chain on which the payment would be made.
        """
        if not self._accepts.allows(message):
            return Refusal(Bound.FILTERS, _WHY_FILTERED)
        if self._bounds == UNBOUNDED:
            return None
        now, who = self._clock.now(), SpentFor.of(message)
        keys = total_keys(chain_id, who, now)
        return self._bounds.refusal(who, keys, self._spending.totals(list(keys.values())), wei=0, now=now)

    def admit(self, message: Message, chain_id: int) -> None:
        """Raises if no payment is allowed; see `refusal`.

        Raises:
            SpendBlockedError: The message may not be paid for now.
        """
        refusal = self.refusal(message, chain_id)
        if refusal is not None:
            raise SpendBlockedError(refusal)

    def note_blocked(self, subject: str, message: Message, refusal: Refusal) -> float:
        """Records blocked work; returns the Unix seconds when to check again.

        Args:
            subject: An outbox entry's id, or the name of what would be sent.
            message: The message that the work is for.
            refusal: The reason.
        """
        now, who = self._clock.now(), SpentFor.of(message)
        blocked = Blocked(subject, who.message_id, who.lane, refusal.bound, refusal.why, now, now)
        since = self._spending.note_blocked(blocked)
        if since == now:
            _log.warning("payment refused", subject=subject, bound=refusal.bound.value, reason=refusal.why)
        wait = min(max(now - since, _SHORTEST), _LONGEST)
        return now + wait if refusal.room_from is None else min(now + wait, max(refusal.room_from, now + _SHORTEST))

    def release(self, subject: str) -> None:
        """Records that the work is no longer blocked."""
        self._spending.release(subject)
