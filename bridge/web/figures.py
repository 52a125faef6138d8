"""Lanes and GMPs in figures: latency and throughput of the newest messages, and what redundancy cost."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from bridge.domain.outbox import QueueCount
from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import (
    ChainRecord,
    FeePaid,
    GmpCost,
    GmpDelivery,
    Index,
    LaneCheckRecord,
    MessageLatency,
    Spending,
)
from bridge.web.plots import NARROW, Bar, Row, bars, rows, spread
from bridge.web.rendering import amount
from bridge.web.sources import Sources
from bridge.web.timeline import gmp_name

SAMPLE: Final = 500
"""Newest messages that the figures are of: at most, per lane, and of all lanes together on the page of GMPs."""

_LANES_TOGETHER: Final = 1_000
"""Newest messages that the page of lanes looks at, spread over the lanes."""

_BARS: Final = 48

LATE_BLOCKS: Final = 100
LATE_SECONDS: Final = 300
"""More blocks or seconds than these behind a chain, and pages say so in their heads. A chain that has no blocks looks the same."""

Ends = tuple[int, int]
"""Source and destination chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFigures:
    """One lane in figures."""

    name: str
    source_chain: int
    destination_chain: int
    sample: int  # messages that the figures are of
    executed: int  # of the sample
    percentiles: tuple[tuple[str, float], ...]  # seconds of block time, from creation to execution
    throughput: Markup
    latency: Markup
    deliveries: int  # by GMPs, of the sample
    late: int  # of these, how many came when the message had been executed: what redundancy cost
    repeated: int  # deliveries that changed nothing at all
    checks: tuple[LaneCheckRecord, ...]  # of its totals on the source and on the destination
    waiting: int = 0  # deliveries of the lane that the relayer has not finished
    size: int | None = None  # messages that the index knows; None while they are being counted

    @property
    def ends(self) -> Ends:
        """Source and destination chain."""
        return self.source_chain, self.destination_chain


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One GMP in figures."""

    number: int
    name: str
    taken: int
    refused: int
    delivered: int
    late: int  # delivered when the message had been executed already: what redundancy cost
    repeated: int
    percentiles: tuple[tuple[str, float], ...]  # seconds of block time, from creation to receipt
    latency: Markup
    queue: tuple[QueueCount, ...]

    @property
    def share(self) -> float:
        """Of the messages it took, the share it has delivered."""
        return self.delivered / self.taken if self.taken else 0.0


def lane_sizes(sources: Sources) -> dict[Ends, int]:
    """How many messages the index knows of each lane. Takes as long as there are messages."""
    index = sources.index()
    return {ends: index.lane_size(*ends) for ends in _lanes_of(sources)} if index else {}


def lanes(sources: Sources, index: Index, sizes: Mapping[Ends, int] | None) -> list[LaneFigures]:
    """Every lane that has had a message.

    Args:
        sources: where to look.
        index: the index there.
        sizes: messages by lane, None while they are being counted.
    """
    queue, checks = _queue(sources), index.lane_checks()
    found = []
    every = list(_lanes_of(sources))
    sample = min(SAMPLE, _LANES_TOGETHER // max(1, len(every)))
    for ends in every:
        message_latencies = index.message_latencies(*ends, sample)
        if message_latencies:
            found.append(_lane(sources, message_latencies, ends, index.gmp_deliveries(sample, ends), checks))
    waiting = Counter[Ends]()
    for count in queue:
        if count.state in ("PENDING", "CLAIMED"):
            waiting[count.source_chain, count.destination_chain] += count.count
    return [
        replace(lane, waiting=waiting[lane.ends], size=None if sizes is None else sizes.get(lane.ends))
        for lane in found
    ]


def _lanes_of(sources: Sources) -> Iterator[Ends]:
    return itertools.permutations((chain.chain_id for chain in sources.deployment.chains), 2)


def _lane(
    sources: Sources,
    message_latencies: Sequence[MessageLatency],
    ends: Ends,
    carried: Sequence[GmpDelivery],
    checks: Sequence[LaneCheckRecord],
) -> LaneFigures:
    source, destination = ends
    name = f"{sources.chain_name(source)} → {sources.chain_name(destination)}"
    totals = {(source, "sent", destination), (destination, "executed", source)}
    seconds = sorted(
        item.executed_time - item.source_time for item in message_latencies if item.executed_time is not None
    )
    marks = percentiles(seconds)
    return LaneFigures(
        name=name,
        source_chain=source,
        destination_chain=destination,
        sample=len(message_latencies),
        executed=len(seconds),
        percentiles=marks,
        throughput=_throughput(name, message_latencies),
        latency=spread(f"Seconds from creation to execution, {name}", seconds, marks),
        deliveries=sum(item.seconds is not None for item in carried),
        late=sum(item.was_late for item in carried),
        repeated=sum(item.duplicates for item in carried),
        checks=tuple(one for one in checks if (one.chain_id, one.direction, one.other_chain) in totals),
    )


def _throughput(name: str, message_latencies: Sequence[MessageLatency]) -> Markup:
    """Messages over time, those executed in another colour than those that are not."""
    if not message_latencies:
        return Markup("")
    first = min(item.source_time for item in message_latencies)
    last = max(item.source_time for item in message_latencies)
    step = max(1, math.ceil((last - first + 1) / _BARS))
    done, open_ = Counter[int](), Counter[int]()
    for item in message_latencies:
        (done if item.executed_time is not None else open_)[(item.source_time - first) // step] += 1
    values = [
        Bar(
            time.strftime("%m-%d %H:%M:%S", time.gmtime(first + number * step)),
            (("bar-a", done[number]), ("bar-b", open_[number])),
        )
        for number in range((last - first) // step + 1)
    ]
    return bars(f"Messages created on {name}, one bar for {step} s", values, f"messages in {step} s")


def gmps(sources: Sources, index: Index) -> list[Health]:
    """Every GMP that has carried one of the newest messages."""
    gmp_deliveries = index.gmp_deliveries(SAMPLE)
    queue = _queue(sources)
    numbers = sorted({item.gmp for item in gmp_deliveries} | {int(gmp) for gmp in _deployed(sources)})
    return [_health(number, [item for item in gmp_deliveries if item.gmp == number], queue) for number in numbers]


def _deployed(sources: Sources) -> frozenset[Gmp]:
    return frozenset[Gmp]().union(*(chain.gmp_numbers for chain in sources.deployment.chains))


def _health(number: int, carried: Sequence[GmpDelivery], queue: Sequence[QueueCount]) -> Health:
    seconds = sorted(item.seconds for item in carried if item.seconds is not None)
    marks = percentiles(seconds)
    name = gmp_name(number)
    return Health(
        number=number,
        name=name,
        taken=sum(item.dispatches > 0 for item in carried),
        refused=sum(item.dispatch_failures for item in carried),
        delivered=len(seconds),
        late=sum(item.was_late for item in carried),
        repeated=sum(item.duplicates for item in carried),
        percentiles=marks,
        latency=spread(f"Seconds from creation to receipt, {name}", seconds, marks, NARROW),
        queue=tuple(count for count in queue if count.gmp == number and count.state != "DELIVERED"),
    )


def _queue(sources: Sources) -> list[QueueCount]:
    store = sources.store()
    return store.outbox.counts() if store else []


def percentiles(ascending: Sequence[int]) -> tuple[tuple[str, float], ...]:
    """p50, p95 and p99 by nearest rank."""
    if not ascending:
        return ()
    return tuple(
        (name, float(ascending[math.ceil(share * len(ascending)) - 1]))
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    )


def behind(chain: ChainRecord) -> int:
    """Blocks that the index has still to read."""
    return max(0, chain.head_block - chain.block)


def is_late(chain: ChainRecord) -> bool:
    """Whether the index is so far behind a chain that its pages may mislead."""
    return chain.halted is not None or behind(chain) > LATE_BLOCKS or chain.lag_seconds > LATE_SECONDS


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
