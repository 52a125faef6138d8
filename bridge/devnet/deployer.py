"""Sends many transactions of one account at once. Contract addresses are computed in advance."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import rlp
from eth_account.signers.local import LocalAccount
from eth_utils import keccak
from eth_utils.address import to_canonical_address, to_checksum_address

from bridge.devnet.artifacts import Artifact
from bridge.devnet.errors import DevnetError
from bridge.protocol.ports import Chain, Fees, Receipt, TransientError

# Gas is free on a devnet. A generous limit avoids estimates, which would not see the queued transactions.
_CREATION_GAS = 6_000_000
_CALL_GAS = 1_000_000
_INCLUSION_SECONDS = 120.0
_RESEND_AFTER = 3.0  # seconds; anvil sometimes accepts a transaction and drops it
_FEE_RISE = 1.125  # per replacement; anvil may reject identical bytes as already known


@dataclass(frozen=True, slots=True)
class _Queued:
    """A queued transaction, with all versions of it that were sent. The chain includes one of them."""

    step: str
    fields: dict[str, Any]
    versions: list[bytes]


class Deployer:
    """Queues contract creations and calls, and sends them together. Create it with `on`."""

    def __init__(self, chain: Chain, account: LocalAccount, nonce: int, fees: Fees) -> None:
        self.chain = chain
        self.address: str = account.address
        self._account = account
        self._nonce = nonce
        self._fees = fees
        self._queue: list[_Queued] = []

    @classmethod
    async def on(cls, chain: Chain, account: LocalAccount) -> Deployer:
        """Creates a deployer that starts at the account's next nonce."""
        return cls(chain, account, await chain.transaction_count(account.address), await chain.fees())

    def create(self, artifact: Artifact, *arguments: Any) -> str:
        """Queues the creation of a contract and returns its future address."""
        address = keccak(rlp.encode([to_canonical_address(self.address), self._nonce]))[-20:]
        self._enqueue(f"creating {artifact.name}", {"data": artifact.creation_code(*arguments), "gas": _CREATION_GAS})
        return to_checksum_address(address)

    def call(self, artifact: Artifact, address: str, function: str, *arguments: Any) -> None:
        """Queues a function call."""
        data = artifact.contract.encode(function, *arguments)
        self._enqueue(f"{artifact.name}.{function}", {"to": address, "data": data, "gas": _CALL_GAS})

    def fund(self, address: str, amount: int) -> None:
        """Queues a payment of `amount` wei."""
        self._enqueue(f"funding {address}", {"to": address, "value": amount, "gas": 21_000})

    def skip_nonces(self, count: int) -> None:
        """Queues empty transactions, which shifts the addresses of later contracts."""
        for _ in range(count):
            self._enqueue("an empty transaction", {"to": self.address, "gas": 21_000})

    async def send(self) -> None:
        """Sends the queue and waits until all transactions are included.

        Raises:
            DevnetError: a transaction failed. The message states which one.
        """
        queue, self._queue = self._queue, []
        # In nonce order, because anvil may hold back a transaction that arrives early.
        for queued in queue:
            await self.chain.broadcast(self._sign(queued))
        await asyncio.gather(*(self._included(queued) for queued in queue))

    def _enqueue(self, step: str, fields: dict[str, Any]) -> None:
        transaction = {"type": 2, "chainId": self.chain.chain_id, "nonce": self._nonce, "value": 0, **fields}
        self._queue.append(_Queued(step, transaction, []))
        self._nonce += 1

    def _sign(self, queued: _Queued) -> bytes:
        rise = _FEE_RISE ** len(queued.versions)
        fees = {
            "maxFeePerGas": int(self._fees.max_fee * rise),
            "maxPriorityFeePerGas": int(self._fees.priority_fee * rise),
        }
        queued.versions.append(bytes(self._account.sign_transaction(queued.fields | fees).raw_transaction))
        return queued.versions[-1]

    async def _included(self, queued: _Queued) -> None:
        now = asyncio.get_running_loop().time
        deadline, resend_at, problem = now() + _INCLUSION_SECONDS, now() + _RESEND_AFTER, ""
        while (receipt := await self._receipt(queued)) is None:
            if now() > deadline:
                raise DevnetError(
                    f"{queued.step} was not included on chain {self.chain.chain_id} within {_INCLUSION_SECONDS:.0f} s{problem}"
                )
            if now() > resend_at:
                resend_at = now() + _RESEND_AFTER
                try:
                    await self.chain.broadcast(self._sign(queued))
                except TransientError as error:  # it may just have been included
                    problem = f": {error}"
            await asyncio.sleep(0.02)
        if not receipt.succeeded:
            raise DevnetError(f"{queued.step} failed on chain {self.chain.chain_id}")

    async def _receipt(self, queued: _Queued) -> Receipt | None:
        for raw in reversed(queued.versions):
            if (receipt := await self.chain.receipt(keccak(raw))) is not None:
                return receipt
        return None
