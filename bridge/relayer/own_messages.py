"""Messages that the relayer sends of its own accord, such as notifications of governance. All are paid within a ceiling."""

from __future__ import annotations

from collections.abc import Mapping

from eth_utils import keccak

from bridge.client import Client, RefusedError, RouteRequest
from bridge.evm.sender import Sender
from bridge.protocol.deployment import Deployment
from bridge.protocol.lanes import Lane
from bridge.protocol.ports import CallRevertedError, Clock, TransientError
from bridge.records.spending import SpentFor
from bridge.store.transactions import TransactionLedger


class OwnMessages:
    """Sends them from the first account of each chain, through the ledger of its nonces."""

    def __init__(
        self,
        *,
        deployment: Deployment,
        client: Client,
        senders: Mapping[int, Sender],
        ledger: TransactionLedger,
        clock: Clock,
    ) -> None:
        """Shared by all that sends of its own accord.

        Args:
            deployment: the network.
            client: makes the calls; it needs no account.
            senders: the account that sends, by chain.
            ledger: what was sent.
            clock: time.
        """
        self._deployment = deployment
        self._client = client
        self._senders = senders
        self._ledger = ledger
        self._clock = clock

    async def send(self, key: str, source: int, request: RouteRequest, *, budget: str, wei_per_day: int) -> None:
        """Sends a message once, however often this is called with its key.

        Args:
            key: what it is for: unique, and the same after a crash.
            source: the chain that it leaves from.
            request: the message.
            budget: what pays for it; calls with the same name share it.
            wei_per_day: what the budget may pay on that chain per day (UTC), gas and fees together.

        Raises:
            SpendBlockedError: the budget is spent until tomorrow.
            TransientError: a chain does not answer, or refuses; or no block included the transaction in time.
        """
        transaction_key, sender = f"own/{key}", self._senders[source]
        await sender.outcome(transaction_key)  # what is under way ends first, and then the ledger says how
        for slot in self._ledger.slots_for(transaction_key):
            if slot.included is not None and slot.included.succeeded and not slot.ended_as_noop:
                return  # already sent, maybe before a crash
        who = self._paid_for(transaction_key, budget, source, request, wei_per_day)
        try:
            call = await self._client.route_call(source, request, sender.address)
            receipt = await sender.send(transaction_key, call, spent_for=who)
        except (RefusedError, CallRevertedError) as error:
            raise TransientError(f"{key} was not sent: {error}") from error
        if not receipt.succeeded:
            raise TransientError(f"{key} was not sent: transaction 0x{receipt.transaction_hash.hex()} reverted")

    def _paid_for(
        self, transaction_key: str, budget: str, source: int, request: RouteRequest, wei_per_day: int
    ) -> SpentFor:
        """The transaction key takes the place of the message id, which is not known before it is sent."""
        lane = Lane(source, self._deployment.chain(request.destination).chain_id)
        return SpentFor(keccak(text=transaction_key), keccak(text=f"own {budget}"), lane, sender_per_day=wei_per_day)
