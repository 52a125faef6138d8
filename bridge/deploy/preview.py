"""What a deployment would send and cost, by simulating all of it on top of each chain's newest block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.deploy.transactions import ChainWork, DeployError, Transaction, why_refused
from bridge.evm.chain import EvmChain
from bridge.protocol.ports import Call, TransientError


@dataclass(frozen=True, slots=True)
class Estimate:
    """A transaction, and what it uses."""

    transaction: Transaction
    gas: int


@dataclass(frozen=True, slots=True)
class ChainPreview:
    """What would be sent to one chain."""

    name: str
    estimates: tuple[Estimate, ...]
    price: int  # wei per gas, as the chain asks for now

    @property
    def gas(self) -> int:
        """All transactions' together."""
        return sum(estimate.gas for estimate in self.estimates)

    @property
    def cost(self) -> int:
        """Wei for all transactions."""
        return sum(map(self.cost_of, self.estimates))

    def cost_of(self, estimate: Estimate) -> int:
        """Wei for the gas of one transaction; a rollup's fee for data comes on top."""
        return estimate.gas * self.price


async def preview_chain(work: ChainWork, chain: EvmChain) -> ChainPreview:
    """Simulates what one chain lacks, as the owner.

    Args:
        work: what is missing.
        chain: where.

    Raises:
        DeployError: a transaction would be refused, or the endpoint can't simulate.
    """
    estimates = await simulated(work.planned.name, chain, work.owner, work.missing)
    return ChainPreview(work.planned.name, estimates, await gas_price(chain))


async def gas_price(chain: EvmChain) -> int:
    """Wei per gas, as the chain asks for now."""
    fees = await chain.fees()  # offers twice the base fee and the priority fee
    return (fees.max_fee - fees.priority_fee) // 2 + fees.priority_fee


async def simulated(
    name: str, chain: EvmChain, owner: str, transactions: Sequence[Transaction]
) -> tuple[Estimate, ...]:
    """The gas of transactions that follow each other.

    Raises:
        DeployError: one would be refused, or the endpoint can't simulate.
    """
    if not transactions:
        return ()
    try:
        results = await chain.simulate([Call(to=one.to, data=one.data) for one in transactions], owner)
    except TransientError as error:
        raise DeployError(
            f"chain {name!r}: the endpoint can't simulate the deployment ({error}); name one first that knows eth_simulateV1,"
            " such as geth from 1.14.9 on, or deploy without --dry-run"
        ) from error
    for transaction, result in zip(transactions, results, strict=True):
        if not result.succeeded:
            reason = await why_refused(chain, transaction, owner, result.returned)
            raise DeployError(f"chain {name!r} would refuse {transaction.name!r} ({transaction.to}): {reason}")
    return tuple(Estimate(one, result.gas) for one, result in zip(transactions, results, strict=True))
