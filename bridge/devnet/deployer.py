"""Many transactions of one account at once: addresses are known before anything is sent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from eth_account.signers.local import LocalAccount
from eth_utils import keccak
from web3.types import Nonce
from web3.utils.address import get_create_address

from bridge.devnet.artifacts import Artifact
from bridge.devnet.errors import DevnetError
from bridge.protocol.ports import Chain, Fees, Receipt, TransientError

# A devnet's gas costs nothing: a limit that always suffices spares an estimate, which could not see what is still queued.
_CREATION_GAS = 6_000_000
_CALL_GAS = 1_000_000
_INCLUSION_SECONDS = 120.0
_AGAIN_AFTER = 3.0  # seconds; now and then anvil takes a transaction and forgets it
_FEE_RISE = 1.125  # by which the same transaction is sent again: with the same bytes, anvil may say that it has it


@dataclass(frozen=True, slots=True)
class _Queued:
    """A transaction, with all the versions of it that were sent; the chain includes one of them."""

    step: str
    fields: dict[str, Any]
    versions: list[bytes]


class Deployer:
    """Queues creations and calls, and sends them together. Create it with `on`."""

    def __init__(self, chain: Chain, account: LocalAccount, nonce: int, fees: Fees) -> None:
        self.chain = chain
        self.address: str = account.address
        self._account = account
        self._nonce = nonce
        self._fees = fees
        self._queue: list[_Queued] = []

    @classmethod
    async def on(cls, chain: Chain, account: LocalAccount) -> Deployer:
        """A deployer that begins at the account's next nonce."""
        return cls(chain, account, await chain.transaction_count(account.address), await chain.fees())

    def create(self, artifact: Artifact, *arguments: Any) -> str:
        """Queues the creation of a contract and returns the address it will have."""
        address: str = get_create_address(self._account.address, Nonce(self._nonce))
        self._enqueue(f"creating {artifact.name}", {"data": artifact.creation_code(*arguments), "gas": _CREATION_GAS})
        return address

    def call(self, artifact: Artifact, address: str, function: str, *arguments: Any) -> None:
        """Queues a call of a contract's function."""
        data = artifact.contract.encode(function, *arguments)
        self._enqueue(f"{artifact.name}.{function}", {"to": address, "data": data, "gas": _CALL_GAS})

    def fund(self, address: str, amount: int) -> None:
        """Queues a payment, in wei."""
        self._enqueue(f"funding {address}", {"to": address, "value": amount, "gas": 21_000})

    def skip_nonces(self, count: int) -> None:
        """Queues transactions that do nothing: later contracts get other addresses."""
        for _ in range(count):
            self._enqueue("an empty transaction", {"to": self.address, "gas": 21_000})

    async def send(self) -> None:
        """Sends what is queued and waits until all of it is included.

        Raises:
            DevnetError: a transaction failed; the text names its step.
        """
        queue, self._queue = self._queue, []
        # In the order of their nonces: what comes before its turn, anvil may keep until something else comes.
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
        deadline, again_at, refusal = now() + _INCLUSION_SECONDS, now() + _AGAIN_AFTER, ""
        while (receipt := await self._receipt(queued)) is None:
            if now() > deadline:
                raise DevnetError(
                    f"{queued.step} is not included on chain {self.chain.chain_id} after {_INCLUSION_SECONDS:.0f} s{refusal}"
                )
            if now() > again_at:
                again_at = now() + _AGAIN_AFTER
                try:
                    await self.chain.broadcast(self._sign(queued))
                except TransientError as error:  # it may have got into a block just now
                    refusal = f": {error}"
            await asyncio.sleep(0.02)
        if not receipt.succeeded:
            raise DevnetError(f"{queued.step} failed on chain {self.chain.chain_id}")

    async def _receipt(self, queued: _Queued) -> Receipt | None:
        for raw in reversed(queued.versions):
            if (receipt := await self.chain.receipt(keccak(raw))) is not None:
                return receipt
        return None
