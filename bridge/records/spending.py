"""What the relayer spends, for which messages, and the bounds on it.

Every transaction is paid for a message, its sender and its lane. What it may cost at most is written when its nonce is reserved,
in the same transaction of the store. When a block includes it, what it used takes the place of that. Amounts are kept
in gwei, rounded up, so that sums fit into 64 bits. Chains have different currencies: every bound counts on each chain by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Final

from bridge.protocol.lanes import Lane
from bridge.protocol.message import Message
from bridge.protocol.ports import TransientError

GWEI: Final = 10**9
_ETHER: Final = 10**18
_DAY: Final = 86_400
_LANE: Final = "lane "
EVER: Final = 0
"""The day of totals that no day ends."""


class Bound(StrEnum):
    """What may have no room for a payment, by the name of its setting."""

    FILTERS = "filters"  # allow_senders, deny_senders, allow_chains, deny_chains
    CONSENT = "retry_for"
    MESSAGE = "spending.message"
    SENDER = "spending.sender_per_day"
    LANE = "spending.lane_per_day"
    CHAIN = "spending.chain_per_day"
    MESSAGE_FAILURES = "spending.message_failures"
    SENDER_FAILURES = "spending.sender_failures_per_day"
    GAS = "max_gas"


@dataclass(frozen=True, slots=True)
class SpentFor:
    """What something is paid for.

    Attributes:
        message_id: the message.
        sender: that message's, 32 bytes.
        lane: that message's.
        sender_per_day: wei that the sender may cost on a chain per day, in place of the general bound; None is that bound.
            The relayer's own messages have one.
    """

    message_id: bytes
    sender: bytes
    lane: Lane
    sender_per_day: int | None = None

    @classmethod
    def of(cls, message: Message) -> SpentFor:
        """Payments for a message."""
        return cls(message.id, message.sender, Lane(message.source_chain, message.destination_chain))


@dataclass(frozen=True, slots=True, order=True)
class TotalKey:
    """What a total is of.

    Attributes:
        chain_id: where it is paid.
        day: days since 1970 (UTC), or `EVER`.
        of: a message, a sender, a lane, or the whole chain.
    """

    chain_id: int
    day: int
    of: str


@dataclass(frozen=True, slots=True)
class Total:
    """What was paid, and how many executions failed in a block, or may still do so."""

    gwei: int = 0
    failures: int = 0

    def plus(self, gwei: int, failures: int = 0) -> Total:
        """After another payment."""
        return Total(self.gwei + gwei, self.failures + failures)


NOTHING: Final = Total()


@dataclass(frozen=True, slots=True)
class TotalKeys:
    """The totals that a payment counts for."""

    chain: TotalKey
    message: TotalKey | None = None
    sender: TotalKey | None = None
    lane: TotalKey | None = None

    @classmethod
    def of(cls, chain_id: int, who: SpentFor | None, now: float) -> TotalKeys:
        """Of a payment on that chain at that moment (Unix seconds); without a message, for the chain alone."""
        day = int(now) // _DAY
        chain = TotalKey(chain_id, day, "chain")
        if who is None:
            return cls(chain)
        return cls(
            chain,
            TotalKey(chain_id, EVER, f"message 0x{who.message_id.hex()}"),
            TotalKey(chain_id, day, f"sender 0x{who.sender.hex()}"),
            TotalKey(chain_id, day, f"{_LANE}{who.lane.source_chain} {who.lane.destination_chain}"),
        )

    @property
    def all(self) -> tuple[TotalKey, ...]:
        """Every one of them."""
        named = (self.chain, self.message, self.sender, self.lane)
        return tuple(key for key in named if key is not None)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not paid now.

    Attributes:
        bound: which bound has no room.
        why: for people: the bound, the figure and the setting.
        room_from: Unix seconds from which on there is room again; None: that depends on prices, or on an operator.
    """

    bound: Bound
    why: str
    room_from: float | None = None


class SpendBlockedError(TransientError):
    """A bound has no room for a payment now. Nothing was sent; what it was for waits."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.why)
        self.refusal = refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendBounds:
    """Wei that transactions may cost on one chain, and how often executions may fail; None is no bound.

    Attributes:
        message: all that one message may cost, ever.
        sender: what the messages of one sender may cost in a day (UTC).
        lane: what a lane may cost in a day.
        lanes: the same for some lanes, in its place.
        chain: what all together may cost in a day.
        message_failures: executions of one message that may fail, ever.
        sender_failures: executions of one sender's messages that may fail in a day.
        data_fees: wei that a byte of a transaction costs beside its gas, by chain: the fee of a rollup for data.
    """

    message: int | None = None
    sender: int | None = None
    lane: int | None = None
    lanes: Mapping[Lane, int] = field(default_factory=dict)
    chain: int | None = None
    message_failures: int | None = None
    sender_failures: int | None = None
    data_fees: Mapping[int, int] = field(default_factory=dict)

    def data_fee(self, chain_id: int, length: int) -> int:
        """Returns the rollup's data fee in wei for that many bytes, on top of gas."""
        return self.data_fees.get(chain_id, 0) * length

    def of_lane(self, lane: Lane) -> int | None:
        """What that lane may cost in a day."""
        return self.lanes.get(lane, self.lane)

    def of_sender(self, who: SpentFor | None) -> int | None:
        """What that sender may cost in a day."""
        return self.sender if who is None or who.sender_per_day is None else who.sender_per_day

    def refusal(
        self,
        who: SpentFor | None,
        keys: TotalKeys,
        totals: Mapping[TotalKey, Total],
        *,
        wei: int,
        now: float,
        executes: bool,
    ) -> Refusal | None:
        """Which bound has no room for a payment; None if all have.

        Args:
            who: what it is for.
            keys: the totals that it counts for.
            totals: what they have come to; one that is missing is nothing.
            wei: what it may cost; 0 asks whether there is any room left.
            now: Unix seconds.
            executes: whether it is an execution, for which failures count.
        """
        midnight = (int(now) // _DAY + 1) * float(_DAY)
        bounds: list[tuple[Bound, TotalKey | None, int | None, str, float | None]] = [
            (Bound.MESSAGE, keys.message, self.message, "its message", None),
            (Bound.SENDER, keys.sender, self.of_sender(who), "its sender's messages", midnight),
            (Bound.LANE, keys.lane, self.of_lane(who.lane) if who else None, "its lane", midnight),
            (Bound.CHAIN, keys.chain, self.chain, "everything", midnight),
        ]
        for bound, key, limit, named, until in bounds:
            spent = totals.get(key, NOTHING).gwei * GWEI if key is not None else 0
            if limit is not None and key is not None and (spent + wei > limit or spent >= limit):
                setting = self._setting(bound, who)
                when = " today" if until else ""
                cost = f"it would cost up to {ether(wei)} on chain {key.chain_id}" if wei else "nothing more is paid"
                rest = "it goes on after midnight UTC, or when that is raised" if until else "raise that"
                why = f"{cost}: {named} cost {ether(spent)} there{when}, and {setting} is {ether(limit)}; {rest}"
                return Refusal(bound, why, until)
        return self.failed(keys, totals, now=now) if executes else None

    def _setting(self, bound: Bound, who: SpentFor | None) -> str:
        """The name of the setting that holds a bound."""
        if bound is Bound.LANE and who is not None and who.lane in self.lanes:
            return "spend_limits"
        if bound is Bound.SENDER and who is not None and who.sender_per_day is not None:
            return "dlq.governance.wei_per_day"
        return bound.value

    def failed(
        self, keys: TotalKeys, totals: Mapping[TotalKey, Total], *, now: float, spared: int = 0
    ) -> Refusal | None:
        """Which bound of failures has no room for another execution; None if both have.

        Args:
            keys: the totals that it counts for.
            totals: what they have come to.
            now: Unix seconds.
            spared: failures of the message that are left for others.
        """
        midnight = (int(now) // _DAY + 1) * float(_DAY)
        bounds: list[tuple[Bound, TotalKey | None, int | None, str, float | None]] = [
            (Bound.MESSAGE_FAILURES, keys.message, self.message_failures, "its execution", None),
            (Bound.SENDER_FAILURES, keys.sender, self.sender_failures, "executions of its sender's messages", midnight),
        ]
        for bound, key, limit, named, until in bounds:
            failures = totals.get(key, NOTHING).failures if key is not None else 0
            kept = spared if bound is Bound.MESSAGE_FAILURES else 0
            if limit is not None and failures >= limit - kept:
                rest = "it goes on after midnight UTC, or when that is raised" if until else "raise that to go on"
                when = " today" if until else ""
                count = f"{named} failed {failures} times in a transaction{when}, or may still do so"
                left = f", of which {kept} is left for what a call shows to succeed" if kept else ""
                why = f"{count}, and {bound.value} is {limit}{left}; {rest}"
                return Refusal(bound, why, until)
        return None


UNBOUNDED: Final = SpendBounds()
"""Everything is paid for."""


@dataclass(frozen=True, slots=True)
class LaneSpent:
    """What a lane has cost on a chain today, in wei."""

    lane: Lane
    chain_id: int
    wei: int

    @classmethod
    def of(cls, lane: Lane, chain_id: int, gwei: int) -> LaneSpent:
        """From a total."""
        return cls(lane, chain_id, gwei * GWEI)


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something that waits since a bound has no room for it.

    Attributes:
        subject: an outbox entry's id, or the transaction_key of a transaction.
        message_id: the message that it is for.
        lane: that message's.
        bound: which bound.
        why: for people.
        since: Unix seconds: since when.
        at: Unix seconds: when it was found so last.
    """

    subject: str
    message_id: bytes
    lane: Lane
    bound: Bound
    why: str
    since: float
    at: float


def lane_of(name: str) -> Lane | None:
    """The lane that a total is of; None if it is of something else."""
    if not name.startswith(_LANE):
        return None
    source, destination = name.removeprefix(_LANE).split()
    return Lane(int(source), int(destination))


def gwei_of(wei: int) -> int:
    """An amount in gwei, rounded up."""
    return -(-wei // GWEI)


def ether(wei: int) -> str:
    """An amount for people."""
    text = f"{(Decimal(wei) / _ETHER).quantize(Decimal('0.000000001')):f}".rstrip("0").rstrip(".")
    return f"{text or '0'} ether" if wei >= GWEI or wei == 0 else f"{wei} wei"
