"""The policy of each message: the row of its kind, the operator's overrides, and the sender's on-chain choice."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bridge.protocol.addresses import AddressError, from_bytes32
from bridge.protocol.contracts import PROFILES, ROUTER
from bridge.protocol.deployment import Deployment
from bridge.protocol.guarantee import IdempotencyStrategy, MessagePolicy, OperatorPolicies, SenderChoice, policy_of
from bridge.protocol.message import Message
from bridge.protocol.ports import CallRevertedError, Chain, read_view

_MILLISECONDS = 1000
_STRATEGIES = tuple(IdempotencyStrategy)  # in the contract's order


class Policies:
    """Finds the policies of messages.

    Senders' choices are read from the source's `Profiles` contract only after a failure.
    """

    def __init__(self, deployment: Deployment, chains: Mapping[int, Chain], operator: OperatorPolicies) -> None:
        """Stores the dependencies.

        Args:
            deployment: The network.
            chains: Chains of the network by id.
            operator: The operator's table and bounds.
        """
        self.operator = operator
        self._deployment = deployment
        self._chains = chains
        self._profiles: dict[int, str] = {}  # by source chain

    async def of(self, message: Message, guards: Collection[IdempotencyStrategy] = ()) -> MessagePolicy:
        """Returns the policy of a message; for `guards`, see `bridge.protocol.guarantee.policy_of`.

        Raises:
            TransientError: The source chain does not respond.
        """
        choice = await self._choice(message) if self.operator.lets_choose(message.kind) else None
        return policy_of(message, self.operator, choice, guards=guards)

    async def _choice(self, message: Message) -> SenderChoice | None:
        try:
            sender = from_bytes32(message.sender)
            answer = await self._ask(message, sender)
        except (AddressError, CallRevertedError):
            return None  # not an account of this chain, or a router of another version
        chosen, _, idempotency, max_retries, base, cap, dead_letter = answer
        if not chosen:
            return None
        return SenderChoice(
            max_retries=max_retries,
            base=base / _MILLISECONDS,
            cap=cap / _MILLISECONDS,
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
