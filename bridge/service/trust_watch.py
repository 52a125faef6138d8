"""Compares lanes with the network's plan while a relayer runs, so that no lane is weakened unseen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import structlog

from bridge.dead_letters.channels import Channel, Notice, Severity
from bridge.domain.ports import Clock, TransientError, Watch
from bridge.domain.trust import ChainState, NotReadableError
from bridge.protocol.deployment import Deployment
from bridge.queries.trust import lane_ends, read_lane
from bridge.queries.trust_plan import Difference, TrustPlan, config_of, differences

_log = structlog.get_logger(__name__)

_RANGE: Final = 2_000  # blocks whose logs are asked for at once


class TrustWatch:
    """Reads a plan's lanes at the start, once a day, when the plan changes, and when a contract that they rest on logs a change."""

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, ChainState],
        channels: Sequence[Channel],
        clock: Clock,
        *,
        plan: Path,
        interval: float,
    ) -> None:
        """Reads nothing yet.

        Args:
            deployment: the network.
            chains: its chains by id, connected.
            channels: who is told of a drift.
            clock: time.
            plan: the network's plan file, read again with the lanes: a change that is agreed to needs no restart.
            interval: seconds between two readings without an event.
        """
        self._deployment = deployment
        self._chains = chains
        self._channels = channels
        self._clock = clock
        self._plan = plan
        self._interval = interval
        self._read_at: float | None = None
        self._plan_read: int | None = None  # when the plan that was read had been written, Unix nanoseconds
        self._watches: dict[int, Watch] = {}
        self._seen: dict[int, int] = {}  # by chain, the newest block whose logs are known
        self._untold: list[tuple[Channel, Notice]] = []
        self.drift: dict[str, list[Difference]] = {}
        """By lane of the plan, what is not as it says."""

    @property
    def counts(self) -> dict[str, int]:
        """By lane of the plan, in how many places it is not as the plan says."""
        return {lane: len(found) for lane, found in self.drift.items()}

    async def step(self) -> bool:
        """Looks for events, reads the lanes if there is a reason to, and tells of what has changed since the last reading.

        Raises:
            TransientError: a chain does not answer, the plan can't be read, or a channel did not take a notice.
        """
        changes = await self._changes()
        is_due = self._read_at is None or self._clock.now() - self._read_at >= self._interval
        if changes or is_due or self._plan_written() != self._plan_read:
            await self._read(changes)
        await self._tell()
        return False

    async def _changes(self) -> list[tuple[int, str]]:
        """Chains and transactions that may have changed something, since the last step."""
        found: dict[tuple[int, str], None] = {}  # in order, each once
        for chain_id, watched in self._watches.items():
            chain = self._chains[chain_id]
            head = (await chain.head()).number
            for first in range(self._seen[chain_id] + 1, head + 1, _RANGE):
                last = min(first + _RANGE - 1, head)
                for log in await chain.logs(first, last, watched.addresses, watched.topics):
                    found[chain_id, f"0x{log.transaction_hash.hex()}"] = None
        return list(found)

    async def _read(self, changes: Sequence[tuple[int, str]]) -> None:
        """Compares every lane of the plan, as it is after those changes."""
        now, written, drift = self._clock.now(), self._plan_written(), dict[str, list[Difference]]()
        watches: dict[int, list[Watch]] = defaultdict(list)
        heads = {chain_id: (await chain.head()).number for chain_id, chain in self._chains.items()}
        try:
            plan = TrustPlan.read(self._plan, self._deployment.network)
            for lane, expected in plan.lanes.items():
                directions = await read_lane(self._chains, lane_ends(self._deployment, lane))
                drift[lane] = differences(expected, config_of(directions))
                for direction in directions:
                    for chain_id, watched in direction.watches():
                        watches[chain_id].append(watched)
        except (ValueError, NotReadableError) as error:  # the plan's or the deployment's own errors are of that kind
            raise TransientError(f"whom lanes trust can't be compared with {self._plan}: {error}") from error
        for lane, found in drift.items():
            if found != self.drift.get(lane, []):
                self._notice(lane, found, self.drift.get(lane, []), changes)
        self.drift, self._read_at, self._seen, self._plan_read = drift, now, heads, written
        self._watches = {chain_id: _joined(found) for chain_id, found in watches.items()}

    def _plan_written(self) -> int | None:
        return self._plan.stat().st_mtime_ns if self._plan.exists() else None

    def _notice(
        self,
        lane: str,
        found: Sequence[Difference],
        before: Sequence[Difference],
        changes: Sequence[tuple[int, str]],
    ) -> None:
        texts = [str(one) for one in found]
        transactions = [
            {"chain": self._deployment.chain(chain_id).name, "transaction": transaction}
            for chain_id, transaction in changes
        ]
        for one in found:
            if one not in before:  # the others were told when they came
                _log.critical(
                    "a lane's trust is not as planned", lane=lane, difference=str(one), transactions=transactions
                )
        if not found:
            _log.info("a lane's trust is as planned again", lane=lane, transactions=transactions)
        details: dict[str, Any] = {"lane": lane, "differences": texts, "transactions": transactions}
        summary = (
            f"{lane} is not as planned: {texts[0]} ({len(texts)} in all)" if found else f"{lane} is as planned again"
        )
        notice = Notice(
            key=f"trust/{lane}/{sha256(repr((texts, transactions)).encode()).hexdigest()[:16]}",
            severity=Severity.CRITICAL if found else Severity.INFO,
            summary=summary,
            details=details,
        )
        self._untold += [(channel, notice) for channel in self._channels]

    async def _tell(self) -> None:
        """Tells each channel what it has not taken yet."""
        waiting, self._untold, problems = self._untold, [], []
        for channel, notice in waiting:
            try:
                await channel.tell(notice)
            except TransientError as error:
                self._untold.append((channel, notice))
                problems.append(f"{channel.name}: {error}")
        if problems:
            raise TransientError(f"drift not told, will be repeated: {'; '.join(problems)}")


def _joined(watches: Sequence[Watch]) -> Watch:
    """One question for all: an address with another one's topic is asked for too, and costs a reading if it has it."""
    addresses = sorted({address for one in watches for address in one.addresses})
    return Watch(tuple(addresses), tuple(sorted({topic for one in watches for topic in one.topics})))
