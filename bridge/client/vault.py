"""What payers, the operator and the oracle do with the vault of one chain, each as one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from eth_account.signers.base import BaseAccount
from web3.types import TxReceipt

from bridge.client.client import RefusedError, transact
from bridge.domain.payments import RATE_UNIT, Charge
from bridge.domain.ports import Call, CallRevertedError, Chain, read_view
from bridge.domain.spending import GWEI
from bridge.evm.signing import Signer
from bridge.protocol.contracts import contract, explain_revert
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.vault import VAULT

_GAS: Final = contract("deliveryGas(uint256,uint64) returns (uint256)")
_LEAST_GAS: Final = 21_000  # what the vault takes no payment for less than
_STEP: Final = 2  # by which an oracle may change a value at once


@dataclass(frozen=True, slots=True)
class Price:
    """What the vault says deliveries to a chain cost; units as in `contracts/interfaces/IRelayerVault.sol`."""

    gas_price: int
    data_fee: int
    rate: int
    overhead: int
    max_age: int
    updated_at: int

    @property
    def least(self) -> int:
        """Wei of the source that a payment comes to at least."""
        return self.here(_LEAST_GAS * self.gas_price)

    def here(self, wei: int) -> int:
        """What wei of the destination are worth on the source, rounded up."""
        return -(-wei * self.rate // RATE_UNIT)


class VaultClient:
    """The vault of one chain, and an account that acts on it.

    Methods raise `RefusedError` if the vault refuses, and `NotIncludedError` if no block includes the transaction in time.
    """

    def __init__(self, deployed: ChainDeployment, chain: Chain, account: BaseAccount | Signer | None = None) -> None:
        """Without an account it only reads.

        Raises:
            RefusedError: the chain has no vault.
        """
        if deployed.vault is None:
            raise RefusedError(f"chain {deployed.name!r} has no vault: nothing can be paid for there")
        self.address = deployed.vault
        self._deployed = deployed
        self._chain = chain
        self._account = account

    async def price(self, destination: int) -> Price:
        """What deliveries to a chain cost, by its id.

        Raises:
            RefusedError: the vault has no price for it.
        """
        price = Price(*await read_view(self._chain, VAULT, self.address, "priceOf", destination))
        if price.updated_at == 0:
            raise RefusedError(f"the vault has no price for chain {destination}: its owner sets the first one")
        return price

    async def earned(self) -> int:
        """What was charged and not withdrawn, in wei."""
        return int(await read_view(self._chain, VAULT, self.address, "earned"))

    async def quote(self, message: Message, gmp: Gmp) -> int:
        """What the delivery of a message by a GMP costs now, in wei.

        Raises:
            RefusedError: there is no price, or it is too old.
        """
        length = len(message.encode())
        adapter, destination = self._deployed.adapter(gmp), message.destination_chain
        try:
            gas = await read_view(self._chain, _GAS, adapter, "deliveryGas", length, message.gas_limit)
            return int(await read_view(self._chain, VAULT, self.address, "quote", destination, gas, length))
        except CallRevertedError as error:
            raise RefusedError(f"the vault refused: {explain_revert(error.data)}") from error

    async def missing(self, destination: int, wei: int) -> int:
        """What pays for so many wei of the destination (a chain id), in wei; at least what the vault takes.

        Raises:
            RefusedError: there is no price.
        """
        price = await self.price(destination)
        return max(price.here(wei), price.least)

    async def pay(self, message_id: bytes, gmp: int, destination: int, wei: int) -> TxReceipt:
        """Pays for a message's delivery by a GMP; the account gets back what is not spent."""
        return await self._transact("pay", message_id, gmp, destination, self._sender, value=wei)

    async def refund(self, message_id: bytes, gmp: int, payer: str) -> TxReceipt:
        """Has what is left of a payment sent to its payer."""
        return await self._transact("refund", message_id, gmp, payer)

    async def collect(self, charges: Sequence[Charge]) -> TxReceipt:
        """Charges payments, as the operator."""
        rows = [
            (one.account.message_id, one.account.gmp, one.account.payer, one.gwei * GWEI, one.ended) for one in charges
        ]
        return await self._transact("collect", rows)

    async def withdraw(self, to: str, wei: int) -> TxReceipt:
        """Sends earnings to an account, as the operator."""
        return await self._transact("withdraw", to, wei)

    async def set_price(self, destination: int, gas_price: int, data_fee: int, rate: int) -> TxReceipt:
        """Updates a price, as the oracle or the owner."""
        return await self._transact("setPrice", destination, gas_price, data_fee, rate)

    async def within_step(self, destination: int, wanted: tuple[int, int, int]) -> tuple[int, int, int]:
        """Gas price, data fee and rate as near to those wanted as the oracle may go now."""
        price = await self.price(destination)
        limits = await read_view(self._chain, VAULT, self.address, "priceLimitsOf", destination)
        most_gas, most_data, least_rate, most_rate, *_ = limits
        gas_price, data_fee, rate = (
            min(max(value, -(-known // _STEP)), known * _STEP)
            for value, known in zip(wanted, (price.gas_price, price.data_fee, price.rate), strict=True)
        )
        return min(gas_price, most_gas), min(data_fee, most_data), min(max(rate, least_rate), most_rate)

    @property
    def _sender(self) -> str:
        if self._account is None:
            raise RefusedError("no key was given to act with")
        return str(self._account.address)

    async def _transact(self, function: str, *arguments: object, value: int = 0) -> TxReceipt:
        if self._account is None:
            raise RefusedError("no key was given to act with")
        return await transact(
            self._chain, self._account, Call(to=self.address, data=VAULT.encode(function, *arguments), value=value)
        )
