"""What redundancy cost in money: by lane and by GMP, from what the chains say of the newest deliveries."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from bridge.protocol.indexed import FeePaid, GmpCost, Spending
from bridge.web.plots import Row, rows
from bridge.web.rendering import amount
from bridge.web.timeline import gmp_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """What deliveries were paid for; amounts in wei."""

    deliveries: int  # whose cost is known
    gas_paid: int
    late_gas_paid: int  # of it, for deliveries that came when the message had been executed already
    gas: Markup | None = None  # drawn, by GMP
    fees: Markup | None = None  # drawn, by set of GMPs

    @property
    def late_share(self) -> float:
        """Of what was paid for gas, the share that redundancy took."""
        return self.late_gas_paid / self.gas_paid if self.gas_paid else 0.0


def paid_on_lane(spending: Spending, lane: tuple[int, int], name: str) -> Paid | None:
    """What was paid on one lane, drawn; None if nothing is known of it.

    Args:
        spending: of all lanes.
        lane: source and destination chain.
        name: of the lane, for those who can't see the plots.
    """
    costs = [cost for cost in spending.gmps if cost.lane == lane]
    if not costs:
        return None
    fees = [fee for fee in spending.fees if fee.lane == lane]
    return Paid(
        deliveries=sum(cost.deliveries for cost in costs),
        gas_paid=sum(cost.gas_paid for cost in costs),
        late_gas_paid=sum(cost.late_gas_paid for cost in costs),
        gas=rows(f"Paid for the gas of deliveries on {name}", [_gas_row(cost) for cost in costs]),
        fees=rows(f"Paid to GMPs per message on {name}", [_fee_row(fee) for fee in fees]) if fees else None,
    )


def paid_for_gmp(spending: Spending, gmp: int) -> Paid | None:
    """What was paid for one GMP's deliveries on all lanes; None if nothing is known of it."""
    costs = [cost for cost in spending.gmps if cost.gmp == gmp]
    if not costs:
        return None
    return Paid(
        deliveries=sum(cost.deliveries for cost in costs),
        gas_paid=sum(cost.gas_paid for cost in costs),
        late_gas_paid=sum(cost.late_gas_paid for cost in costs),
    )


def _gas_row(cost: GmpCost) -> Row:
    counted = cost.gas_paid - cost.late_gas_paid
    return Row(gmp_name(cost.gmp), (("bar-a", counted), ("bar-b", cost.late_gas_paid)), amount(cost.gas_paid))


def _fee_row(fee: FeePaid) -> Row:
    names = " + ".join(gmp_name(gmp) for gmp in fee.gmps)
    return Row(names, (("bar-a", fee.fees_p50),), amount(fee.fees_p50))
