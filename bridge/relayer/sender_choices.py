"""What senders chose on chain for their messages, within this relayer's bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bridge.protocol.addresses import AddressError, from_bytes32
from bridge.protocol.contracts import PROFILES, ROUTER
from bridge.protocol.deployment import Deployment
from bridge.protocol.guarantee import IdempotencyStrategy, SenderChoice
from bridge.protocol.message import Kind, Message
from bridge.protocol.ports import CallRevertedError, Chain, read_view

_MILLISECONDS = 1000
_STRATEGIES = tuple(IdempotencyStrategy)  # in the contract's order


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceBounds:
    """What a sender may choose; times in seconds."""

    enabled: bool = True
    max_retries: int = 20
    least_base: float = 0.1
    longest_cap: float = 600.0


class SenderChoices:
    """Reads them from the `Profiles` contract of a message's source, when they count: after a failure."""

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        bounds: ChoiceBounds,
        settled: Mapping[bytes, SenderChoice],
    ) -> None:
        """Asks nothing yet.

        Args:
            deployment: the network.
            chains: by id.
            bounds: what may be chosen.
            settled: what the settings say, by message id or sender: of those nobody is asked.
        """
        self._deployment = deployment
        self._chains = chains
        self._bounds = bounds
        self._settled = settled
        self._profiles: dict[int, str] = {}  # by source

    async def of(self, message: Message) -> Mapping[bytes, SenderChoice]:
        """What counts for a message, as `bridge.protocol.guarantee.guarantee_of` takes it.

        Raises:
            TransientError: the source does not answer.
        """
        is_settled = message.id in self._settled or message.sender in self._settled
        if is_settled or not self._bounds.enabled or message.kind is Kind.REGULATORY_ACTION_CRITICAL:
            return self._settled
        chosen = await self._chosen(message)
        return {message.id: chosen} if chosen else self._settled

    async def _chosen(self, message: Message) -> SenderChoice | None:
        try:
            sender = from_bytes32(message.sender)
            answer = await self._ask(message, sender)
        except (AddressError, CallRevertedError):
            return None  # no account of this chain, or a router of another version
        chosen, _, idempotency, max_retries, base, cap, dead_letter = answer
        if not chosen:
            return None
        bounds = self._bounds
        longest = min(cap / _MILLISECONDS, bounds.longest_cap)
        return SenderChoice(
            max_retries=min(max_retries, bounds.max_retries),
            base=min(max(base / _MILLISECONDS, bounds.least_base), longest),
            cap=longest,
            dead_letter=dead_letter,
            idempotency=_STRATEGIES[idempotency],
        )

    async def _ask(self, message: Message, sender: str) -> tuple[bool, int, int, int, int, int, bool]:
        source = self._deployment.chain(message.source_chain)
        chain = self._chains[source.chain_id]
        if source.chain_id not in self._profiles:
            self._profiles[source.chain_id] = await read_view(chain, ROUTER, source.router, "profiles")
        profiles = self._profiles[source.chain_id]
        found: tuple[bool, int, int, int, int, int, bool] = await read_view(
            chain, PROFILES, profiles, "deliveryOf", sender, message.id
        )
        return found
