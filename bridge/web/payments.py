"""What the transactions of a message cost, who paid them, and what that comes to on each chain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.protocol.indexed import Index, MessageFilter, Payment
from bridge.web.timeline import Transaction

Payments = Mapping[int, Mapping[bytes, Payment] | None]
"""By chain and transaction, what it cost; None for a chain that gives no answer. A transaction it does not have is left out."""

NOT_READ: Final = "not read yet"
NO_ANSWER: Final = "no answer"
NOT_THERE: Final = "not on the chain"
SENDER: Final = "sender"

_MESSAGES: Final = 50
"""Messages of an account whose costs are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidTransaction:
    """A transaction, and what is known of its cost."""

    transaction: Transaction
    payment: Payment | None
    unknown: str  # why there is no payment
    payer: str  # whose account that is, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainTotal:
    """What a chain's transactions cost together, in its own currency."""

    chain_id: int
    known: int  # transactions that are counted in
    transactions: int
    gas_paid: int  # wei
    value: int  # wei


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountCosts:
    """What the newest messages that an account sent have cost so far: what the account and others paid."""

    messages: int
    is_all: bool  # whether the account has sent no others
    totals: tuple[ChainTotal, ...]
    own: tuple[ChainTotal, ...]  # of these, the transactions that the account itself paid for


def account_costs(
    index: Index, account: bytes, address: str, ask: Callable[[Mapping[int, Sequence[bytes]]], Payments]
) -> AccountCosts:
    """Adds up all transactions of the newest messages of an account, each once: one can deliver several messages.

    Args:
        index: of the network.
        account: 32 bytes.
        address: the same as an address.
        ask: what transactions cost, by chain.
    """
    page = index.page(MessageFilter(account=account), limit=_MESSAGES)
    sent = [one for one in page.messages if one.sender == account]
    events = [event for one in sent for event in index.events(one.message_id)]
    transactions = [
        Transaction(chain, digest, ())
        for chain, digest in dict.fromkeys((event.chain_id, event.transaction_hash) for event in events)
    ]
    wanted: dict[int, list[bytes]] = {}
    for one in transactions:
        wanted.setdefault(one.chain_id, []).append(one.hash)
    found = paid_transactions(transactions, ask(wanted) if wanted else {}, address, ())
    return AccountCosts(
        messages=len(sent),
        is_all=page.next is None,
        totals=tuple(totals(found)),
        own=tuple(totals(one for one in found if one.payer == SENDER)),
    )


def paid_transactions(
    transactions: Sequence[Transaction], payments: Payments | None, sender: str, own: Collection[bytes]
) -> list[PaidTransaction]:
    """Each transaction with its cost.

    Args:
        transactions: of one message.
        payments: as the chains say; None if they have not answered yet.
        sender: the message's, as an address.
        own: hashes of transactions that the relayer is known to have sent.
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
    return SENDER if paid.payer.lower() == sender.lower() else "another account"


def totals(found: Iterable[PaidTransaction]) -> list[ChainTotal]:
    """What they come to, by chain: each chain has a currency of its own."""
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
