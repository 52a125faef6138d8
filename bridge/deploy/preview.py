"""Previews a deployment and its cost by simulating its transactions on each chain's newest block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.deploy.transactions import ChainWork, DeployError, Transaction, why_refused
from bridge.evm.chain import EvmChain
from bridge.protocol.ports import Call, TransientError


@dataclass(frozen=True, slots=True)
class Estimate:
    """A transaction and the gas that it uses."""

    transaction: Transaction
    gas: int


@dataclass(frozen=True, slots=True)
class ChainPreview:
    """The transactions that would be sent to one chain."""

    name: str
    estimates: tuple[Estimate, ...]
    price: int  # current, in wei per gas

    @property
    def gas(self) -> int:
        """Returns the total estimated gas of all transactions."""
        return sum(estimate.gas for estimate in self.estimates)

    @property
    def cost(self) -> int:
        """Returns the total estimated cost of all transactions in wei."""
        return sum(map(self.cost_of, self.estimates))

    def cost_of(self, estimate: Estimate) -> int:
        """Returns the cost of one transaction in wei, excluding a rollup's data fee."""
        return estimate.gas * self.price


async def preview_chain(work: ChainWork) -> ChainPreview:
    """Simulates one chain's missing transactions as the owner.

    Raises:
        DeployError: a transaction would revert, or the endpoint can't simulate transactions.
    """
    estimates = await simulated(work.name, work.chain, work.owner, work.missing)
    return ChainPreview(work.name, estimates, await gas_price(work.chain))


async def gas_price(chain: EvmChain) -> int:
    """Returns the current gas price in wei per gas."""
    fees = await chain.fees()  # max_fee is twice the base fee plus the priority fee
    return (fees.max_fee - fees.priority_fee) // 2 + fees.priority_fee


async def simulated(
    name: str, chain: EvmChain, owner: str, transactions: Sequence[Transaction]
) -> tuple[Estimate, ...]:
    """Returns the estimates of transactions that are sent in sequence.

    Raises:
        DeployError: a transaction would revert, or the endpoint can't simulate transactions.
    """
    if not transactions:
        return ()
    try:
        results = await chain.simulate(
            [Call(to=transaction.to, data=transaction.data) for transaction in transactions], owner
        )
    except TransientError as error:
        raise DeployError(
            f"chain {name!r}: the endpoint cannot simulate the deployment ({error}); put an endpoint with eth_simulateV1"
            " first, such as geth 1.14.9 or newer, or deploy without --dry-run"
        ) from error
    for transaction, result in zip(transactions, results, strict=True):
        if not result.succeeded:
            reason = await why_refused(chain, transaction, owner, result.returned)
            raise DeployError(f"chain {name!r}: {transaction.name!r} ({transaction.to}) would revert: {reason}")
    return tuple(Estimate(transaction, result.gas) for transaction, result in zip(transactions, results, strict=True))
