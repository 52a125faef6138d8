"""The figures of lanes and GMPs, drawn."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from bridge.protocol.indexed import Traffic
from bridge.queries.health import History
from bridge.queries.lanes import GmpFigures, LaneFigures, Paid, gmp_name
from bridge.web.plots import NARROW, Bar, Row, bars, rows, spread
from bridge.web.rendering import amount, duration

_BARS = 48


def throughput(lane: LaneFigures) -> Markup:
    """Messages over time, those executed in another colour than those that are not."""
    first = min(item.source_time for item in lane.newest)
    last = max(item.source_time for item in lane.newest)
    step = max(1, math.ceil((last - first + 1) / _BARS))
    done, open_ = Counter[int](), Counter[int]()
    for item in lane.newest:
        (done if item.executed_time is not None else open_)[(item.source_time - first) // step] += 1
    values = [
        Bar(
            time.strftime("%m-%d %H:%M:%S", time.gmtime(first + number * step)),
            (("bar-a", done[number]), ("bar-b", open_[number])),
        )
        for number in range((last - first) // step + 1)
    ]
    return bars(f"Messages created on {lane.name}, one bar for {step} s", values, f"messages in {step} s")


def traffic(name: str, history: History, slots: Sequence[Traffic | None]) -> Markup:
    """Messages over time, those that arrived in another colour than those that did not."""
    values = [
        Bar(label, (("bar-a", one.arrived), ("bar-b", one.messages - one.arrived)) if one else ())
        for label, one in zip(_labels(history), slots, strict=True)
    ]
    return bars(f"Messages over time, {name}, one bar for {duration(history.step)}", values, "messages", NARROW)


def latency_over_time(
    name: str, history: History, slots: Sequence[Traffic | None], beside: Iterable[Sequence[Traffic | None]] = ()
) -> Markup:
    """Seconds until arrival over time: the median, and above it the 95th percentile; as high as those it is compared with."""
    values = [
        Bar(label, (("bar-a", one.p50 or 0), ("bar-c", (one.p95 or 0) - (one.p50 or 0))) if one else ())
        for label, one in zip(_labels(history), slots, strict=True)
    ]
    longest = max((one.p95 or 0 for row in beside for one in row if one), default=0)
    title = f"95th percentile of seconds to arrival over time, {name}"
    return bars(title, values, "seconds", NARROW, at_least=longest)


def _labels(history: History) -> list[str]:
    form = "%m-%d" if history.step >= 24 * 3600 else "%m-%d %H:%M"
    return [
        time.strftime(form, time.gmtime(history.since + number * history.step))
        for number in range(len(next(iter([*history.lanes.values(), *history.gmps.values()]), ())))
    ]


def lane_latency(lane: LaneFigures) -> Markup:
    """How long messages took to their execution."""
    counted = [(seconds, 1) for seconds in lane.seconds]
    return spread(f"Seconds from creation to execution, {lane.name}", counted, lane.percentiles)


def gmp_latency(gmp: GmpFigures) -> Markup:
    """How long a GMP took to its receipts."""
    title = f"Seconds from when {gmp.name} first took the message to its receipt"
    return spread(title, gmp.arrived, gmp.percentiles, NARROW)


def gas(paid: Paid, name: str) -> Markup:
    """What the gas of deliveries cost, by GMP; `name` of the lane is for those who can't see the plot."""
    found = [
        Row(
            gmp_name(cost.gmp),
            (("bar-a", cost.gas_paid - cost.late_gas_paid), ("bar-b", cost.late_gas_paid)),
            amount(cost.gas_paid),
        )
        for cost in paid.costs
    ]
    return rows(f"Paid for the gas of deliveries on {name}", found)


def fees(paid: Paid, name: str) -> Markup:
    """What GMPs were paid per message, by set of GMPs."""
    found = [
        Row(" + ".join(gmp_name(gmp) for gmp in fee.gmps), (("bar-a", fee.fees_p50),), amount(fee.fees_p50))
        for fee in paid.fees
    ]
    return rows(f"Paid to GMPs per message on {name}", found)
