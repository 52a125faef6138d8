"""What a task does that keeps messages in Spark's state: the messages of one bucket, and when each is due.

A timer is a time by the destination's clock: when a block has passed it, the message is judged, with the SQL by which the store
would. Each task imports this module, so it imports neither the lake nor what plans the stream.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from indexer.model import schemas
from indexer.model.settings import StallPolicy
from indexer.store.judge import Judge, JudgedMessage

ENDED: Final = ("EXECUTED", "EXPIRED", "CANCELLED")
LOOK_AGAIN: Final = 60
"""Seconds by the destination's clock until an ended message is looked at again: is its end final?"""

INPUT: Final = (*schemas.EVENTS.names, "range_first", "final_block", "now")
"""Columns of a row that a bucket takes: an event, or with `range_first` how far a chain was read."""


def slot_of(message_id: bytes) -> int:
    """Of 256, the slot of a bucket in which a message is kept."""
    return message_id[-1]


@dataclass(slots=True)
class Clock:
    """How far a chain was read."""

    block: int
    time: int
    final: int


@dataclass(slots=True)
class Shared:
    """What a bucket knows of chains and routers, and which of its messages are due.

    Attributes:
        clocks: by chain.
        about_routers: events without a message.
        passed: messages of which the timer has passed; they are looked at with each batch.
        next_due: by chain, a time before which no other timer is due.
        judged: whether any message was looked at since the start.
    """

    clocks: dict[int, Clock] = field(default_factory=dict[int, Clock])
    about_routers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    passed: set[bytes] = field(default_factory=set[bytes])
    next_due: dict[int, int] = field(default_factory=dict[int, int])
    judged: bool = False


class _Slots:
    """A map by message in Spark's state, read and written by the slot: each access is a round trip to another process."""

    def __init__(self, state: MapState) -> None:
        self._state = state
        self._loaded: dict[int, dict[bytes, Any]] = {}
        self._changed: set[int] = set()

    def get(self, message_id: bytes, otherwise: Any = None) -> Any:
        return self._slot(message_id).get(message_id, otherwise)

    def put(self, message_id: bytes, value: Any) -> None:
        slot = self._slot(message_id)
        if slot.get(message_id) != value:
            slot[message_id] = value
            self._changed.add(slot_of(message_id))

    def remove(self, message_id: bytes) -> None:
        if self._slot(message_id).pop(message_id, None) is not None:
            self._changed.add(slot_of(message_id))

    def all(self) -> dict[bytes, Any]:
        for (slot,), (kept,) in self._state.iterator():
            if slot not in self._loaded:
                self._loaded[slot] = _loaded(kept)
        return {message_id: value for slot in self._loaded.values() for message_id, value in slot.items()}

    def write(self) -> None:
        for slot in self._changed:
            if self._loaded[slot]:
                self._state.updateValue((slot,), (pickle.dumps(self._loaded[slot]),))
            else:
                self._state.removeKey((slot,))

    def _slot(self, message_id: bytes) -> dict[bytes, Any]:
        slot = slot_of(message_id)
        if slot not in self._loaded:
            kept = self._state.getValue((slot,))
            self._loaded[slot] = {} if kept is None else _loaded(kept[0])
        return self._loaded[slot]


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a bucket keeps: what its messages share, their events, and for each that waits its chain and when it is due."""

    shared: Shared
    events: _Slots
    timers: _Slots

    def take_back(self, ranges: Sequence[Mapping[str, Any]]) -> bool:
        """Forgets what ranges replace; whether they replace anything, and so any message may have another deadline."""
        clocks = self.shared.clocks
        first = {
            row["chain_id"]: row["range_first"]
            for row in ranges
            if row["chain_id"] in clocks and row["range_first"] <= clocks[row["chain_id"]].block
        }
        if not first:
            return False

        def stays(event: Mapping[str, Any]) -> bool:
            return bool(event["block_number"] < first.get(event["chain_id"], event["block_number"] + 1))

        self.shared.about_routers = [event for event in self.shared.about_routers if stays(event)]
        for message_id, events in self.events.all().items():
            if left := [event for event in events if stays(event)]:
                self.events.put(message_id, left)
            else:
                self._forget(message_id)
        return True

    def note_due(self) -> None:
        """Notes which timers have passed, if any can have: only then are all of them read."""
        shared = self.shared
        now = {chain: clock.time for chain, clock in shared.clocks.items()}
        if all(now[chain] < due for chain, due in shared.next_due.items() if chain in now):
            return
        shared.next_due = {}
        for message_id, (chain, due) in self.timers.all().items():
            self._note(message_id, chain, due)

    def follow(self, judged: JudgedMessage) -> None:
        """Sets a message's timer, or forgets the message if it has ended for good."""
        chain, due, clocks = judged.destination_chain, judged.deadline, self.shared.clocks
        if judged.status in ENDED:
            events = self.events.get(judged.message_id)
            if all(event["block_number"] <= clocks[event["chain_id"]].final for event in events):
                self._forget(judged.message_id)
                return
            due = clocks[chain].time + LOOK_AGAIN if chain is not None and chain in clocks else None
        elif not judged.retriable or judged.effective_status == "EXPIRED":
            due = None
        self.shared.passed.discard(judged.message_id)
        if chain is None or due is None:
            self.timers.remove(judged.message_id)
        else:
            self.timers.put(judged.message_id, (chain, due))
            self._note(judged.message_id, chain, due)

    def _note(self, message_id: bytes, chain: int, due: int) -> None:
        shared = self.shared
        if chain in shared.clocks and shared.clocks[chain].time >= due:
            shared.passed.add(message_id)
        else:
            shared.next_due[chain] = min(due, shared.next_due.get(chain, due))

    def _forget(self, message_id: bytes) -> None:
        self.events.remove(message_id)
        self.timers.remove(message_id)
        self.shared.passed.discard(message_id)


class Overdue(StatefulProcessor):
    """The state of one bucket. Gives `schemas.OVERDUE`, again with each batch as long as a message is overdue."""

    def __init__(self, policy: StallPolicy) -> None:
        """Judges by `policy`."""
        self._policy = policy

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declares what is kept."""
        self._events = handle.getMapState("events", "slot int", "kept binary")
        self._timers = handle.getMapState("timers", "slot int", "kept binary")
        self._kept = handle.getValueState("shared", "kept binary")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: TimerValues) -> None:  # noqa: ARG002, N802, N803  Spark's interface
        """Takes a row of `indexer.jobs.stateful.known_state`."""
        if (slot := initialState["slot"]) is None:
            self._kept.update((initialState["kept"],))
        else:
            self._events.updateValue((slot,), (initialState["kept"],))

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Row]:  # noqa: ARG002, N802, N803  Spark's interface
        """Takes a batch, and judges what it touched and what is due."""
        batch, shared = [_values(row) for row in rows], self._shared()
        ranges = [row for row in batch if row["range_first"] is not None]
        events = [_event(row) for row in batch if row["range_first"] is None]
        about_routers = [event for event in events if event["message_id"] is None]
        touched = {event["message_id"]: list[dict[str, Any]]() for event in events if event["message_id"] is not None}
        for event in events:
            if event["message_id"] is not None:
                touched[event["message_id"]].append(event)

        kept = _Kept(shared, _Slots(self._events), _Slots(self._timers))
        all_again = kept.take_back(ranges) or bool(about_routers) or not shared.judged
        shared.about_routers += about_routers
        shared.clocks |= {row["chain_id"]: _clock(row) for row in ranges}
        shared.judged = True
        for message_id, new in touched.items():
            kept.events.put(message_id, [*kept.events.get(message_id, []), *new])
        kept.note_due()
        chosen = kept.events.all() if all_again else [*touched, *shared.passed]
        yield from self._judge(set(chosen), kept, int(batch[0]["now"]))
        kept.events.write()
        kept.timers.write()
        self._kept.update((pickle.dumps(shared),))

    def _judge(self, chosen: set[bytes], kept: _Kept, now: int) -> Iterator[Row]:
        if not chosen:
            return
        clocks = {chain: clock.time for chain, clock in kept.shared.clocks.items()}
        rows = [event for message_id in sorted(chosen) for event in kept.events.get(message_id, [])]
        for judged in _judge().judge(self._policy, rows + kept.shared.about_routers, clocks, now):
            kept.follow(judged)
            if judged.is_overdue:
                assert judged.attempts is not None
                yield Row(
                    message_id=judged.message_id,
                    source_chain=judged.source_chain,
                    destination_chain=judged.destination_chain,
                    attempt=judged.attempts + 1,
                    overdue_since=judged.deadline,
                )

    def _shared(self) -> Shared:
        kept = self._kept.get()
        return _loaded(kept[0]) if kept is not None else Shared()


@cache
def _judge() -> Judge:
    """One for each of Spark's Python processes, which work on many batches."""
    return Judge()


def _loaded(kept: bytes) -> Any:
    return pickle.loads(kept)  # noqa: S301  what this run's own tasks have put into the state


def _values(row: Row) -> dict[str, Any]:
    return {name: bytes(one) if isinstance(one, bytearray) else one for name, one in row.asDict().items()}


def _event(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in schemas.EVENTS.names}


def _clock(row: Mapping[str, Any]) -> Clock:
    return Clock(block=row["block_number"], time=row["block_time"], final=row["final_block"])
