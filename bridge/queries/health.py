"""Whether all is well with a network, and what happened on it lately: the same for every face."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from bridge.domain.dead_letters import LetterStatus
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import gmp_label
from bridge.protocol.indexed import Index, MessageCount, MessageFilter, PausedThing, Tally, Traffic
from bridge.protocol.status import Status
from bridge.queries.lanes import FEW, chain_name, gmp_name, is_late, lane_name, percentiles
from bridge.relayer.breaker import BreakerSettings, BreakerState, breakers
from bridge.store import Store
from bridge.store.accusations import Accusation, AccusationState
from bridge.store.dead_letters import DeadLetterLog

SPANS: Final[Mapping[str, tuple[int, int]]] = {
    "1h": (150, 24),
    "24h": (3_600, 24),
    "7d": (6 * 3_600, 28),
    "30d": (24 * 3_600, 30),
}
"""How far back a history goes: the length of a stretch of time in seconds, and how many there are."""

_WAITS: Final[Mapping[Status, str]] = {
    Status.STALLED: "Messages whose quorum is late",
    Status.EXECUTION_FAILED: "Messages that their recipients refused",
    Status.UNKNOWN: "Messages of which too little is known, since the index is behind or does not know their creation",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """Something that is not as it should be.

    Attributes:
        is_bad: whether it needs a person now; else it is to be watched.
        text: what it is, in a sentence.
        path: the explorer's page about it.
        command: says more, or does something about it; None if the page does.
        who: should act, if it needs a person.
    """

    is_bad: bool
    text: str
    path: str
    command: str | None = None
    who: str = ""


_INDEX_OPERATOR: Final = "the index's operator"
_RELAYER_OPERATOR: Final = "the relayer's operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayerProgress:
    """How far the relayer has read one chain.

    Attributes:
        chain_id: which one.
        block: the last one that it has read.
        waiting: blocks that are final by what the index has read, and that the relayer has not read.
        unchanged_since: when it was first seen there, Unix seconds.
    """

    chain_id: int
    block: int
    waiting: int
    unchanged_since: float


class RelayerWatch:
    """Notes when the relayer was seen to move on: its store says where it is, and not since when."""

    def __init__(self) -> None:
        """Has seen nothing yet."""
        self._seen: dict[int, tuple[int, float]] = {}

    def look(
        self, deployment: Deployment, store: Store | None, index: Index | None, now: float
    ) -> list[RelayerProgress]:
        """How far it is on each chain; nothing if it has not run.

        Args:
            deployment: the network.
            store: the relayer's.
            index: of the network. Without one, nothing is known to wait for the relayer.
            now: Unix seconds.
        """
        final_blocks = {chain.chain_id: chain.final_block for chain in index.chains()} if index else {}
        found = []
        for deployed in deployment.chains if store else ():
            chain_id = deployed.chain_id
            cursor = store.observations.cursor(chain_id) if store else None
            if cursor is None:
                continue
            block = cursor.position.number
            if self._seen.get(chain_id, (None, now))[0] != block:
                self._seen[chain_id] = (block, now)
            found.append(
                RelayerProgress(
                    chain_id=chain_id,
                    block=block,
                    waiting=max(0, final_blocks.get(chain_id, block) - block),
                    unchanged_since=self._seen[chain_id][1],
                )
            )
        return found


def summary(counts: Mapping[Status, int], dead_letters: int) -> str:
    """All messages in a line, with zeros where zeros are good news.

    Args:
        counts: messages by state.
        dead_letters: that wait for a decision.
    """
    on_the_way = sum(counts.get(status, 0) for status in _ON_THE_WAY)
    shown = [
        (counts.get(Status.EXECUTED, 0), "executed"),
        (on_the_way, "on the way"),
        (counts.get(Status.STALLED, 0), "stalled"),
    ]
    others = (status for status in Status if status not in (*_ON_THE_WAY, Status.EXECUTED, Status.STALLED))
    shown += [(counts[one], one.replace("_", " ").lower()) for one in others if counts.get(one)]
    total = sum(counts.values())
    wait = "dead letter waits" if dead_letters == 1 else "dead letters wait"
    return (
        f"{_spaced(total)} {'message' if total == 1 else 'messages'}: "
        f"{', '.join(f'{_spaced(number)} {name}' for number, name in shown)}. {_spaced(dead_letters)} {wait} for a decision."
    )


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")


_ON_THE_WAY: Final = (Status.UNFUNDED, Status.ROUTED, Status.RECEIVED, Status.EXECUTION_DEFERRED)


def concerns(
    deployment: Deployment,
    index: Index | None,
    store: Store | None,
    dead_letters: DeadLetterLog | None,
    *,
    counts: Mapping[Status, int],
    contradictions: int,
    relayer: Sequence[RelayerProgress],
    breaker: BreakerSettings,
    max_lag: float,
    now: float,
) -> list[Concern]:
    """What is not well, the worst first; none is as it should be.

    Args:
        deployment: the network.
        index: None if none has run.
        store: the relayer's; None if none has run.
        dead_letters: the log of dead letters; None likewise.
        counts: messages by state.
        contradictions: facts that contradict one another.
        relayer: how far it is, by `RelayerWatch`.
        breaker: when breakers trip.
        max_lag: seconds of block time by which the index may be behind, and for which a relayer may stand still.
        now: Unix seconds.
    """
    found = [
        *_accused(deployment, store.accusations.all() if store else (), now),
        *_of_index(deployment, index, max_lag, now),
        *_standing(deployment, relayer, max_lag, now),
        *_of_relayer(deployment, store, dead_letters, breaker, now),
    ]
    if contradictions:
        text = f"Facts that contradict each other: {contradictions}"
        found.append(Concern(is_bad=True, text=text, path="/faults", who="the index's operator, by the evidence"))
    for status, text in _WAITS.items():
        if counts.get(status):
            found.append(
                Concern(is_bad=False, text=f"{text}: {counts[status]}", path=f"/messages?status={status.value}")
            )
    return sorted(found, key=lambda one: not one.is_bad)


def _accused(deployment: Deployment, accusations: Sequence[Accusation], now: float) -> list[Concern]:
    return [
        Concern(
            is_bad=True,
            text=f"The tripwire caught {gmp_label(one.gmp)} lying on {chain_name(deployment, one.chain_id)}"
            + ("" if one.state is AccusationState.PAUSED else ", and it is not paused"),
            path="/gmps",
            command=f"waybill message explain 0x{one.message_id.hex()}",
            who="the router's guardian or owner",
        )
        for one in accusations
        if one.state is not AccusationState.PAUSED or (one.paused_until or 0) > now
    ]


def _of_index(deployment: Deployment, index: Index | None, max_lag: float, now: float) -> list[Concern]:
    if index is None:
        text = "No index has run yet, so that nothing is known of the chains"
        return [Concern(is_bad=True, text=text, path="/lanes", command="waybill index run", who=_INDEX_OPERATOR)]
    found = []
    for chain in index.chains():
        name = chain_name(deployment, chain.chain_id)
        if chain.halted is not None:
            text = f"The index has halted on {name}: nothing newer is known of it"
            found.append(Concern(is_bad=True, text=text, path="/lanes", command="waybill status", who=_INDEX_OPERATOR))
        elif is_late(chain, max_lag):
            text = f"The index is {chain.lag_seconds} s behind {name}"
            found.append(Concern(is_bad=False, text=text, path="/lanes"))
    for deployed in deployment.chains:
        for pause in index.pauses(deployed.chain_id):
            if not pause.begins <= now < pause.ends or pause.thing is PausedThing.CLOCK:
                continue
            if pause.thing is PausedThing.GMP:
                text, path = f"{gmp_name(pause.number)} is paused on {deployed.name}", "/gmps"
            else:
                text = f"The lane between {deployed.name} and {chain_name(deployment, pause.number)} is paused on {deployed.name}"
                path = "/lanes"
            found.append(Concern(is_bad=False, text=text, path=path))
    return found


def _standing(deployment: Deployment, relayer: Sequence[RelayerProgress], max_lag: float, now: float) -> list[Concern]:
    found = []
    for one in relayer:
        if one.waiting and now - one.unchanged_since > max_lag:
            at = datetime.fromtimestamp(one.unchanged_since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            text = (
                f"The relayer has read nothing of {chain_name(deployment, one.chain_id)} since {at} or earlier; "
                f"final blocks that wait for it: {one.waiting}"
            )
            found.append(
                Concern(is_bad=True, text=text, path="/lanes", command="waybill relayer run", who=_RELAYER_OPERATOR)
            )
    return found


def _of_relayer(
    deployment: Deployment,
    store: Store | None,
    dead_letters: DeadLetterLog | None,
    breaker: BreakerSettings,
    now: float,
) -> list[Concern]:
    found = []
    waiting = dead_letters.counts().get(LetterStatus.PENDING_REVIEW, 0) if dead_letters else 0
    if waiting:
        text = f"Deliveries that were given up and wait for a decision: {waiting}"
        found.append(Concern(is_bad=True, text=text, path="/dead-letters?status=PENDING_REVIEW", who="an operator"))
    if store is None:
        return found
    for change in store.lanes.held():
        name = lane_name(deployment, change.lane.source_chain, change.lane.destination_chain)
        text = f"The relayer holds back {name}: {change.state.value.lower()}"
        found.append(
            Concern(
                is_bad=change.state.value == "HALTED",
                text=text,
                path="/lanes",
                command="waybill lane list",
                who=_RELAYER_OPERATOR,
            )
        )
    for (gmp, destination), one in sorted(breakers(store.figures.recent(now - breaker.memory), breaker).items()):
        if one.state(now) is not BreakerState.CLOSED:
            text = f"{gmp.label} fails towards {chain_name(deployment, destination)}: its circuit breaker is open"
            found.append(Concern(is_bad=False, text=text, path="/gmps"))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What happened lately, in stretches of time of the same length.

    Attributes:
        since: where the first stretch begins, Unix seconds.
        step: seconds of each.
        lanes: by source and destination chain, each stretch's figures; None where there was nothing.
        gmps: the same by GMP.
        whole: by lane and by GMP, all stretches together.
        retried: messages of this time that were sent again.
        refused: those that their recipients refused, also if they were executed later.
    """

    since: int
    step: int
    lanes: Mapping[tuple[int, int], Sequence[Traffic | None]]
    gmps: Mapping[int, Sequence[Traffic | None]]
    whole: Mapping[tuple[int, int] | int, Tally]
    retried: MessageCount
    refused: MessageCount

    @property
    def messages(self) -> int:
        """Created in this time, on all lanes that this is a history of."""
        return sum(self.whole[lane].messages for lane in self.lanes)

    def slowest(self) -> tuple[int, int, float, float] | None:
        """The GMP whose 95th percentile is the highest, its deliveries, and p50 and p95 in seconds; of few, nothing is said."""
        found = []
        for gmp in self.gmps:
            counted = self.whole[gmp].arrived
            deliveries, ranks = sum(number for _, number in counted), dict(percentiles(counted))
            if deliveries >= FEW:
                found.append((gmp, deliveries, ranks["p50"], ranks["p95"]))
        return max(found, key=lambda one: one[3], default=None)


def history(index: Index, span: str, now: float, lane: tuple[int, int] | None = None) -> History:
    """Traffic and latency of each lane and each GMP.

    Args:
        index: of the network.
        span: one of `SPANS`.
        now: Unix seconds; the stretch that is under way is the last one.
        lane: source and destination chain, for the history of that lane alone.
    """
    step, slots = SPANS[span]
    since = (int(now) // step - slots + 1) * step
    lanes: dict[tuple[int, int], list[Traffic | None]] = {}
    gmps: dict[int, list[Traffic | None]] = {}
    for one in index.traffic(since, step, slots, lane):
        if one.lane is not None:
            lanes.setdefault(one.lane, [None] * slots)[one.slot] = one
        elif one.gmp is not None:
            gmps.setdefault(one.gmp, [None] * slots)[one.slot] = one
    tallies = index.tallies(since, step, slots, lane)
    whole = {key: one for one in tallies if (key := one.gmp if one.lane is None else one.lane) is not None}
    # Between the two a message may have come: what one of them does not know, the other leaves out.
    return History(
        since=since,
        step=step,
        lanes={key: found for key, found in sorted(lanes.items()) if key in whole},
        gmps={key: found for key, found in sorted(gmps.items()) if key in whole},
        whole=whole,
        retried=_counted(index, MessageFilter(retried=True, since=since), lane),
        refused=_counted(index, MessageFilter(refused=True, since=since), lane),
    )


def _counted(index: Index, wanted: MessageFilter, lane: tuple[int, int] | None) -> MessageCount:
    source, destination = lane or (None, None)
    return index.count(replace(wanted, source_chain=source, destination_chain=destination), contradicted=())
