"""Lanes in memory."""

from __future__ import annotations

from bridge.domain.lanes import Lane, LaneChange, LaneState, takes_effect


class MemoryLanes:
    """See `bridge.domain.lanes.Lanes`."""

    def __init__(self) -> None:
        self._changes: list[LaneChange] = []

    def change(self, change: LaneChange) -> bool:
        if not takes_effect(self.state(change.lane), change.state):
            return False
        self._changes.append(change)
        return True

    def state(self, lane: Lane) -> LaneState:
        found = self.history(lane)
        return found[-1].state if found else LaneState.RUNNING

    def held(self) -> list[LaneChange]:
        newest = {change.lane: change for change in self._changes}
        return [change for _, change in sorted(newest.items()) if change.state is not LaneState.RUNNING]

    def history(self, lane: Lane | None = None) -> list[LaneChange]:
        return [change for change in self._changes if lane is None or change.lane == lane]
