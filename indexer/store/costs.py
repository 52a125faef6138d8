"""What redundancy was paid for, from the receipts of the transactions that the chains have: gas, and fees sent along."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bridge.protocol.indexed import FeePaid, GmpCost
from indexer.store.analytics import GmpReceipt, Lane, percentile


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCost:
    """What one transaction cost.

    Attributes:
        gas: units used.
        gas_paid: wei paid for them.
        value: wei sent along, which for a route are the fees of its GMPs; what was refunded in the same transaction is in it.
        deliveries: that the chain's router recorded in it.
        payer: the address of the account that sent it, which paid all of this.
    """

    gas: int
    gas_paid: int
    value: int
    deliveries: int = 0
    payer: str = ""


Costs = Mapping[tuple[int, bytes], TransactionCost]
"""By chain and transaction."""


def transactions_of(deliveries: Sequence[GmpReceipt]) -> dict[int, list[bytes]]:
    """The transactions whose costs are wanted, by chain: of routes on the source and of deliveries on the destination."""
    wanted: dict[int, dict[bytes, None]] = defaultdict(dict)
    for one in deliveries:
        wanted[one.lane[0]][one.source_transaction] = None
        wanted[one.lane[1]][one.transaction] = None
    return {chain: list(hashes) for chain, hashes in wanted.items()}


def paid_for(deliveries: Sequence[GmpReceipt], costs: Costs) -> dict[tuple[bytes, int], tuple[int, int]]:
    """Gas units and wei of each delivery, by message and GMP: of a transaction with several, each has an equal share.

    Not all that share a transaction need be among `deliveries`, which are only the newest: its receipt says how many there are.
    """
    together = Counter((one.lane[1], one.transaction) for one in deliveries)
    found = {}
    for one in deliveries:
        key = one.lane[1], one.transaction
        if (cost := costs.get(key)) is not None:
            sharing = max(cost.deliveries, together[key])
            found[one.message_id, one.gmp] = (cost.gas // sharing, cost.gas_paid // sharing)
    return found


def gmp_costs(deliveries: Sequence[GmpReceipt], costs: Costs) -> list[GmpCost]:
    """What each GMP's deliveries cost, by lane and GMP."""
    paid = paid_for(deliveries, costs)
    known: dict[tuple[Lane, int], list[GmpReceipt]] = defaultdict(list)
    for one in deliveries:
        if (one.message_id, one.gmp) in paid:
            known[one.lane, one.gmp].append(one)
    return [
        GmpCost(
            lane=lane,
            gmp=gmp,
            deliveries=len(found),
            late=sum(one.was_late for one in found),
            gas_p50=percentile(sorted(paid[one.message_id, gmp][0] for one in found), 0.5),
            gas_paid=sum(paid[one.message_id, gmp][1] for one in found),
            late_gas_paid=sum(paid[one.message_id, gmp][1] for one in found if one.was_late),
        )
        for (lane, gmp), found in sorted(known.items(), key=lambda item: item[0])
    ]


def fees_paid(deliveries: Sequence[GmpReceipt], costs: Costs) -> list[FeePaid]:
    """What senders paid, by lane and set of GMPs that took the message; of a transaction with several, an equal share.

    A message that was retried is left out: its later attempts have paid fees of their own.
    """
    messages = {one.message_id: one for one in deliveries if not one.retried}
    together = Counter((one.lane[0], one.source_transaction) for one in messages.values())
    found: dict[tuple[Lane, tuple[int, ...]], list[int]] = defaultdict(list)
    for one in messages.values():
        key = one.lane[0], one.source_transaction
        if (cost := costs.get(key)) is not None:
            found[one.lane, tuple(sorted(one.dispatched))].append(cost.value // together[key])
    return [
        FeePaid(lane=lane, gmps=gmps, messages=len(fees), fees_p50=percentile(sorted(fees), 0.5), fees=sum(fees))
        for (lane, gmps), fees in sorted(found.items())
    ]
