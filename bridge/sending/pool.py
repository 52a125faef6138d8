"""Several accounts on one chain that send as one: a nonce that is stuck holds up only its own account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bridge.ports import Call, Receipt
from bridge.records.outbox import Claim
from bridge.records.spending import SpentFor
from bridge.sending.sender import Sender


class Sending(Protocol):
    """What sends: one account, or several."""

    async def send(
        self,
        purpose: str,
        call: Call,
        claim: Claim | None = None,
        *,
        may_share: bool = False,
        spent_for: SpentFor | None = None,
    ) -> Receipt:
        """See `Sender.send`."""

    async def outcome(self, purpose: str) -> Receipt | None:
        """See `Sender.outcome`."""

    async def can_pay(self) -> bool:
        """See `Sender.can_pay`."""


class SenderPool:
    """See `Sending`. Which account sent for a purpose is in the ledger, and stays with it until that ends."""

    def __init__(self, senders: Sequence[Sender]) -> None:
        """`senders` are of one chain, at least one."""
        self._senders = tuple(senders)

    async def send(
        self,
        purpose: str,
        call: Call,
        claim: Claim | None = None,
        *,
        may_share: bool = False,
        spent_for: SpentFor | None = None,
    ) -> Receipt:
        """See `Sender.send`: by the account that is at it already, else by the one with the least to do that can pay."""
        if len(self._senders) == 1:
            return await self._senders[0].send(purpose, call, claim, may_share=may_share, spent_for=spent_for)
        for sender in self._senders:
            if sender.is_sending(purpose):
                return await sender.send(purpose, call, claim, may_share=may_share, spent_for=spent_for)
        solvent = [sender for sender in self._senders if await sender.can_pay()]
        chosen = min(solvent or self._senders, key=lambda sender: sender.under_way)
        return await chosen.send(purpose, call, claim, may_share=may_share, spent_for=spent_for)

    async def outcome(self, purpose: str) -> Receipt | None:
        """See `Sender.outcome`: of the account that is at it."""
        for sender in self._senders:
            if sender.is_sending(purpose):
                return await sender.outcome(purpose)
        return None

    async def can_pay(self) -> bool:
        """Whether any of them can."""
        return any([await sender.can_pay() for sender in self._senders])
