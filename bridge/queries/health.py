"""Lists a network's current problems, and summarises the last 24 hours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp, gmp_label, gmp_title
from bridge.protocol.indexed import Index, MessageFilter, PausedThing, Tally
from bridge.protocol.numbers import counted, duration, percentile
from bridge.protocol.status import Status
from bridge.queries.lanes import chain_name, is_late, lane_name
from bridge.records.dead_letters import LetterStatus
from bridge.relayer.breaker import BREAKER, BreakerState, breakers
from bridge.store import Store
from bridge.store.accusations import Accusation, AccusationState
from bridge.store.dead_letters import DeadLetterLog

_WAITS: Final[Mapping[Status, str]] = {
    Status.EXECUTION_FAILED: "refused by the recipient",
    Status.UNKNOWN: "unexplained: the index is behind, or does not know the creation",
}
"""Descriptions of the states in which somebody must act."""

_HOUR: Final = 3_600  # seconds
_DAY: Final = 86_400  # seconds

_STALLED_ASKED: Final = 200
"""Maximum number of stalled messages whose missing GMPs are counted, newest first."""

_FAILING_SHARE: Final = 0.1
"""Share of retried or stalled messages above which a GMP is reported as a problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """A problem.

    Attributes:
        is_bad: whether someone must act now; if not, the problem only needs watching.
        text: a sentence that describes the problem.
        path: the explorer's page about the problem.
        command: a command that shows more or fixes it; None if the page suffices.
        who: the role that should act.
    """

    is_bad: bool
    text: str
    path: str
    command: str | None = None
    who: str = ""


_INDEX_OPERATOR: Final = "the index's operator"
_RELAYER_OPERATOR: Final = "the relayer's operator"


def concerns(
    deployment: Deployment,
    index: Index | None,
    store: Store | None,
    dead_letters: DeadLetterLog | None,
    *,
    counts: Mapping[Status, int],
    contradictions: int,
    max_lag: float,
    now: float,
) -> list[Concern]:
    """Returns the network's problems, worst first.

    Args:
        deployment: the network.
        index: the index; None if there is none.
        store: the relayer's store; None if there is none.
        dead_letters: the log of dead letters; None if there is none.
        counts: messages by state.
        contradictions: the number of divergences.
        max_lag: seconds of block time that the index may lag.
        now: Unix seconds.
    """
    found = [
        *_accused(deployment, store.accusations.all() if store else (), now),
        *_of_index(deployment, index, max_lag, now),
        *_of_relayer(deployment, store, dead_letters, now),
    ]
    if contradictions:
        text = f"{counted(contradictions, 'contradiction')} between the chains or in the index"
        found.append(Concern(is_bad=True, text=text, path="/faults", who="the index's operator, by the evidence"))
    if index is not None:
        found += _of_gmps(index, counts.get(Status.STALLED, 0), now)
    found += _waiting(counts)
    return sorted(found, key=lambda one: not one.is_bad)


def _accused(deployment: Deployment, accusations: Sequence[Accusation], now: float) -> list[Concern]:
    return [
        Concern(
            is_bad=True,
            text=f"The tripwire caught {gmp_label(one.gmp)} lying on {chain_name(deployment, one.chain_id)}"
            + ("" if one.state is AccusationState.PAUSED else ", and it is not paused"),
            path="/gmps",
            command=f"waybill message show 0x{one.message_id.hex()}",
            who="the router's guardian or owner",
        )
        for one in accusations
        if one.state is not AccusationState.PAUSED or (one.paused_until or 0) > now
    ]


def _of_index(deployment: Deployment, index: Index | None, max_lag: float, now: float) -> list[Concern]:
    if index is None:
        text = "No index has run yet, so nothing is known of the chains"
        return [Concern(is_bad=True, text=text, path="/status", command="waybill index run", who=_INDEX_OPERATOR)]
    found = []
    for chain in index.chains():
        name = chain_name(deployment, chain.chain_id)
        if chain.halted is not None:
            text = f"The index has halted on {name}: nothing newer is known of it"
            found.append(Concern(is_bad=True, text=text, path="/status", command="waybill status", who=_INDEX_OPERATOR))
        elif is_late(chain, max_lag):
            text = f"The index is {duration(chain.lag_seconds)} behind {name}"
            found.append(Concern(is_bad=False, text=text, path="/status"))
    for deployed in deployment.chains:
        for pause in index.pauses(deployed.chain_id):
            if not pause.begins <= now < pause.ends:
                continue
            if pause.thing is PausedThing.GMP:
                text = f"{gmp_title(pause.number)} is paused on {deployed.name}"
                path = "/gmps"
            else:
                text = f"The lane between {deployed.name} and {chain_name(deployment, pause.number)} is paused on {deployed.name}"
                path = "/lanes"
            found.append(Concern(is_bad=False, text=text, path=path))
    return found


def _of_relayer(
    deployment: Deployment,
    store: Store | None,
    dead_letters: DeadLetterLog | None,
    now: float,
) -> list[Concern]:
    found = []
    waiting = dead_letters.counts().get(LetterStatus.PENDING_REVIEW, 0) if dead_letters else 0
    if waiting:
        text = f"{counted(waiting, 'dead letter')} {'waits' if waiting == 1 else 'wait'} for a decision"
        found.append(Concern(is_bad=True, text=text, path="/dead-letters?status=PENDING_REVIEW", who="an operator"))
    if store is None:
        return found
    for change in store.lanes.held():
        name = lane_name(deployment, change.lane.source_chain, change.lane.destination_chain)
        text = f"The lane {name} is {change.state.value.lower()} by {change.by}"
        found.append(
            Concern(
                is_bad=change.state.value == "HALTED",
                text=text,
                path="/status",
                command="waybill lane list",
                who=_RELAYER_OPERATOR,
            )
        )
    for (gmp, destination), one in sorted(breakers(store.figures.recent(now - BREAKER.memory)).items()):
        if one.state(now) is not BreakerState.CLOSED:
            text = f"{gmp.title} fails towards {chain_name(deployment, destination)}: its circuit breaker is open"
            found.append(Concern(is_bad=False, text=text, path="/gmps"))
    return found


def _of_gmps(index: Index, stalled: int, now: float) -> list[Concern]:
    """Returns the GMPs with many stalled or retried messages, and the number of stalled messages.

    Args:
        index: the network's index.
        stalled: the number of stalled messages.
        now: Unix seconds.
    """
    page = index.page(MessageFilter(status=Status.STALLED), limit=_STALLED_ASKED).messages if stalled else ()
    awaited = Counter(gmp for one in page for gmp in one.dispatched - one.received)
    found = []
    for tally in index.tallies(int(now) - _HOUR, int(now) + 1):
        if tally.gmp not in tuple(Gmp):
            continue
        if awaited[Gmp(tally.gmp)] + tally.overtaken > _FAILING_SHARE * tally.messages:
            text = f"{gmp_title(tally.gmp)} has delivered {len(tally.arrived)} of {tally.messages} messages in the last hour"
            found.append(Concern(is_bad=False, text=text, path=f"/messages?gmp={gmp_label(tally.gmp)}"))
    if stalled:
        names = " and ".join(gmp.title for gmp, _ in awaited.most_common())
        text = f"{counted(stalled, 'message')} stalled{f', waiting for {names}' if names else ''}"
        found.append(Concern(is_bad=False, text=text, path=f"/messages?status={Status.STALLED.value}"))
    return found


def _waiting(counts: Mapping[Status, int]) -> list[Concern]:
    """Returns the numbers of messages that wait for someone to act."""
    return [
        Concern(
            is_bad=False,
            text=f"{counted(counts[status], 'message')} {words}",
            path=f"/messages?status={status.value}",
        )
        for status, words in _WAITS.items()
        if counts.get(status)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The messages of the last 24 hours.

    Attributes:
        lanes: tallies by source and destination chain; `arrived` means executed.
        gmps: tallies by GMP number; `arrived` means delivered.
    """

    lanes: Mapping[tuple[int, int], Tally]
    gmps: Mapping[int, Tally]

    @property
    def messages(self) -> int:
        """Returns the number of messages created."""
        return sum(one.messages for one in self.lanes.values())

    @property
    def executed(self) -> int:
        """Returns how many of those messages have been executed by now."""
        return sum(len(one.arrived) for one in self.lanes.values())

    @property
    def median(self) -> int | None:
        """Returns the median number of seconds from creation to execution."""
        together = sorted(seconds for lane in self.lanes.values() for seconds in lane.arrived)
        return percentile(together, 0.5) if together else None


def day(index: Index, now: float) -> Day:
    """Summarises the 24 hours before `now`, in Unix seconds."""
    found = index.tallies(int(now) - _DAY, int(now) + 1)
    return Day(
        lanes={one.lane: one for one in found if one.lane is not None},
        gmps={one.gmp: one for one in found if one.lane is None and one.gmp is not None},
    )
