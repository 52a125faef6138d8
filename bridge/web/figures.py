"""Lanes and GMPs in figures, from the newest messages."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from bridge.protocol.gmps import Gmp
from bridge.protocol.indexed import Carriage, ChainRecord, Index, Journey, LaneCheckRecord
from bridge.records.outbox import QueueCount
from bridge.web.plots import NARROW, Bar, bars, spread
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
class Lane:
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


def lanes(sources: Sources, index: Index, sizes: Mapping[Ends, int] | None) -> list[Lane]:
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
        journeys = index.journeys(*ends, sample)
        if journeys:
            found.append(_lane(sources, journeys, ends, index.carriages(sample, ends), checks))
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
    journeys: Sequence[Journey],
    ends: Ends,
    carried: Sequence[Carriage],
    checks: Sequence[LaneCheckRecord],
) -> Lane:
    source, destination = ends
    name = f"{sources.chain_name(source)} → {sources.chain_name(destination)}"
    totals = {(source, "sent", destination), (destination, "executed", source)}
    seconds = sorted(item.executed_time - item.source_time for item in journeys if item.executed_time is not None)
    marks = percentiles(seconds)
    return Lane(
        name=name,
        source_chain=source,
        destination_chain=destination,
        sample=len(journeys),
        executed=len(seconds),
        percentiles=marks,
        throughput=_throughput(name, journeys),
        latency=spread(f"Seconds from creation to execution, {name}", seconds, marks),
        deliveries=sum(item.seconds is not None for item in carried),
        late=sum(item.was_late for item in carried),
        repeated=sum(item.duplicates for item in carried),
        checks=tuple(one for one in checks if (one.chain_id, one.direction, one.other_chain) in totals),
    )


def _throughput(name: str, journeys: Sequence[Journey]) -> Markup:
    """Messages over time, those executed in another colour than those that are not."""
    if not journeys:
        return Markup("")
    first = min(item.source_time for item in journeys)
    last = max(item.source_time for item in journeys)
    step = max(1, math.ceil((last - first + 1) / _BARS))
    done, open_ = Counter[int](), Counter[int]()
    for item in journeys:
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
    carriages = index.carriages(SAMPLE)
    queue = _queue(sources)
    numbers = sorted({item.gmp for item in carriages} | {int(gmp) for gmp in _deployed(sources)})
    return [_health(number, [item for item in carriages if item.gmp == number], queue) for number in numbers]


def _deployed(sources: Sources) -> frozenset[Gmp]:
    return frozenset[Gmp]().union(*(chain.gmp_numbers for chain in sources.deployment.chains))


def _health(number: int, carried: Sequence[Carriage], queue: Sequence[QueueCount]) -> Health:
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
