"""What the transactions of a message cost and who paid, as the chains say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.protocol.indexed import Payment
from bridge.web.timeline import Transaction

Payments = Mapping[int, Mapping[bytes, Payment] | None]
"""By chain and transaction, its cost; None for a chain that does not answer. Transactions that a chain lacks are left out."""

NOT_READ: Final = "not read yet"
NO_ANSWER: Final = "no answer"
NOT_THERE: Final = "not on the chain"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidTransaction:
    """A transaction and its cost."""

    transaction: Transaction
    payment: Payment | None
    unknown: str  # why there is no payment
    payer: str  # sender, relayer or another account


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainTotal:
    """The cost of a chain's transactions together, in its own currency."""

    chain_id: int
    known: int  # transactions that are counted in
    transactions: int
    gas_paid: int  # wei
    value: int  # wei


def paid_transactions(
    transactions: Sequence[Transaction], payments: Payments | None, sender: str, own: Collection[bytes]
) -> list[PaidTransaction]:
    """Each transaction with its cost.

    Args:
        transactions: of one message.
        payments: what the chains say; None if they have not answered yet.
        sender: the message's, as an address.
        own: hashes of the relayer's transactions.
    """
    asked = payments or {}
    found = {one.hash: (asked.get(one.chain_id) or {}).get(one.hash) for one in transactions}
    relayers = {paid.payer.lower() for one, paid in found.items() if one in own and paid is not None}
    return [
        PaidTransaction(
            transaction=one,
            payment=found[one.hash],
            unknown=_unknown(one, payments),
            payer=_payer(found[one.hash], sender, relayers),
        )
        for one in transactions
    ]


def _unknown(one: Transaction, payments: Payments | None) -> str:
    if payments is None:
        return NOT_READ
    return NO_ANSWER if payments.get(one.chain_id) is None else NOT_THERE


def _payer(paid: Payment | None, sender: str, relayers: Collection[str]) -> str:
    if paid is None:
        return ""
    if paid.payer.lower() in relayers:
        return "relayer"
    return "sender" if paid.payer.lower() == sender.lower() else "another account"


def totals(found: Iterable[PaidTransaction]) -> list[ChainTotal]:
    """The sums by chain: each chain has its own currency."""
    by_chain: dict[int, list[PaidTransaction]] = {}
    for one in found:
        by_chain.setdefault(one.transaction.chain_id, []).append(one)
    return [
        ChainTotal(
            chain_id=chain_id,
            known=sum(one.payment is not None for one in together),
            transactions=len(together),
            gas_paid=sum(one.payment.gas_paid for one in together if one.payment is not None),
            value=sum(one.payment.value for one in together if one.payment is not None),
        )
        for chain_id, together in by_chain.items()
    ]
