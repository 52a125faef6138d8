"""What the anvil tests send and deliver."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

from eth_account.signers.local import LocalAccount
from eth_utils.address import to_canonical_address

from bridge.client import Client, RouteRequest, Sent
from bridge.devnet.accounts import DAPP_KEY, RELAYER_KEY, account
from bridge.devnet.gmps import devnet_attesters
from bridge.evm.chain import EvmChain
from bridge.gmps.base_adapter import BaseAdapter
from bridge.gmps.registry import adapter_class
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Attester, Call, Dispatch, Log, Receipt
from tests.waiting import PATIENCE

DAPP = account(DAPP_KEY)
RELAYER = account(RELAYER_KEY)


async def transact(chain: EvmChain, sender: LocalAccount, call: Call, *, gas: int = 3_000_000) -> Receipt:
    """Sends a transaction with the call's gas, also one that reverts, and returns its receipt."""
    fees = await chain.fees()
    signed = sender.sign_transaction(
        {
            "type": 2,
            "chainId": chain.chain_id,
            "nonce": await chain.transaction_count(sender.address),
            "to": to_canonical_address(call.to),
            "value": call.value,
            "data": call.data,
            "gas": call.gas or gas,
            "maxFeePerGas": fees.max_fee,
            "maxPriorityFeePerGas": fees.priority_fee,
        }
    )
    await chain.broadcast(bytes(signed.raw_transaction))
    async with asyncio.timeout(PATIENCE):
        while (receipt := await chain.receipt(bytes(signed.hash))) is None:  # no event tells of a block
            await asyncio.sleep(0.005)
    return receipt


@dataclass(frozen=True, slots=True)
class World:
    """A deployment, its chains, and its GMPs' adapters with the devnet's attesters."""

    deployment: Deployment
    chains: Mapping[int, EvmChain]

    def adapter(self, gmp: Gmp, attester: Attester | None = None) -> BaseAdapter:
        """A GMP's adapter, with its own attester or another one."""
        attester = attester or devnet_attesters(self.deployment, self.chains)[gmp]
        return adapter_class(gmp)(self.deployment, self.chains, attester)

    async def send(
        self,
        *gmps: Gmp,
        payload: bytes = b"hello",
        gas_limit: int = 200_000,
        source: str = "alpha",
        destination: str = "beta",
        quorum: int | None = None,
        sender: LocalAccount = DAPP,
    ) -> Sent:
        """Routes a message to the destination's inbox."""
        recipient = self.deployment.chain(destination).examples["inbox"]
        request = RouteRequest(
            destination=destination,
            recipient=recipient,
            check_recipient=False,
            payload=payload,
            gmps=gmps,
            gas_limit=gas_limit,
            quorum=quorum,
        )
        return await Client(self.deployment, self.chains, sender).route(source, request)

    async def logs(self, gmp: Gmp, source: str = "alpha") -> list[Log]:
        """All of a GMP's logs on a chain."""
        chain = self.chains[self.deployment.chain(source).chain_id]
        watch = self.adapter(gmp).watch(chain.chain_id)
        return await chain.logs(0, (await chain.head()).number, watch.addresses, watch.topics)

    async def dispatches(self, gmp: Gmp, source: str = "alpha") -> list[Dispatch]:
        """All messages that a GMP took on a chain."""
        return self.adapter(gmp).dispatches(self.deployment.chain(source).chain_id, await self.logs(gmp, source))

    async def deliver(
        self, gmp: Gmp, dispatch: Dispatch, attester: Attester | None = None, *, sender: LocalAccount = RELAYER
    ) -> list[Receipt]:
        """Attests and delivers until the adapter says that it is done; the transactions' receipts."""
        adapter = self.adapter(gmp, attester)
        attestation = await adapter.attest(dispatch)
        receipts = []
        while (call := await adapter.next_call(dispatch, attestation)) is not None:
            receipts.append(await transact(self.chains[dispatch.destination_chain], sender, call))
            assert len(receipts) < 5, "the adapter does not come to an end"
        return receipts

    async def executed(self, dispatch: Dispatch) -> bool:
        """Whether the destination's router has executed the message."""
        destination = self.deployment.chain(dispatch.destination_chain)
        call = Call(to=destination.router, data=ROUTER.encode("receiptsOf", dispatch.message_id))
        answer = await self.chains[destination.chain_id].call(call)
        return bool(ROUTER.decode("receiptsOf", answer)[1] == 1)


def tampered(dispatch: Dispatch) -> Dispatch:
    """The dispatch with another last byte of its payload."""
    envelope = dispatch.envelope[:-1] + bytes([dispatch.envelope[-1] ^ 1])
    return replace(dispatch, envelope=envelope)
