"""Sends the relayer's own messages, such as notifications to governance, within a daily bound."""

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
    """Sends the relayer's own messages through the nonce ledger, from the first account of each chain."""

    def __init__(
        self,
        *,
        deployment: Deployment,
        client: Client,
        senders: Mapping[int, Sender],
        ledger: TransactionLedger,
        clock: Clock,
    ) -> None:
        """Creates the sender that all components share.

        Args:
            deployment: The network.
            client: Builds the calls; needs no account.
            senders: Sending account by chain.
            ledger: The nonce ledger.
            clock: Source of time.
        """
        self._deployment = deployment
        self._client = client
        self._senders = senders
        self._ledger = ledger
        self._clock = clock

    async def send(self, key: str, source: int, request: RouteRequest, *, budget: str, wei_per_day: int) -> None:
        """Sends a message once per key; repeated calls send nothing.

        Args:
            key: Unique purpose of the message, the same after a crash.
            source: Chain on which it is sent.
            request: The message.
            budget: Name of the budget that pays; calls with the same name share it.
            wei_per_day: Daily bound of the budget on that chain (UTC day), gas and fees together.

        Raises:
            SpendBlockedError: The budget is exhausted until tomorrow.
            TransientError: A chain does not respond or rejects the transaction, or the transaction was not
                included before the timeout.
        """
        transaction_key, sender = f"own/{key}", self._senders[source]
        await sender.outcome(transaction_key)  # wait for a pending transaction; the ledger then has its outcome
        for slot in self._ledger.slots_for(transaction_key):
            if slot.included is not None and slot.included.succeeded and not slot.ended_as_noop:
                return  # already sent, perhaps before a crash
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
        """Attributes the payment to the transaction key, since the message id is not known before it is sent."""
        lane = Lane(source, self._deployment.chain(request.destination).chain_id)
        return SpentFor(keccak(text=transaction_key), keccak(text=f"own {budget}"), lane, sender_per_day=wei_per_day)
