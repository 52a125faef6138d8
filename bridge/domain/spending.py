"""What the relayer spends, for which messages, who pays for that, and the bounds on it.

Every transaction is paid for a message, its sender and its lane. What it may cost at most is written when its nonce is reserved,
in the same transaction of the store. When a block includes it, what it used takes the place of that. Amounts are kept
in gwei, rounded up, so that sums fit into 64 bits. Chains have different currencies: every bound counts on each chain by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Final

from bridge.domain.lanes import Lane
from bridge.domain.ports import TransientError
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message

GWEI: Final = 10**9
_ETHER: Final = 10**18
_DAY: Final = 86_400
_LANE: Final = "lane "
EVER: Final = 0
"""The day of totals that no day ends."""

EXECUTION: Final = 0
"""In place of a GMP's number: an execution, which no GMP brings."""

VAULT: Final = "vault"
"""Who pays: senders and others, through the vault on the message's source (`bridge.domain.payments`)."""

GMPS_EXECUTOR: Final = "executor"
"""Who pays: senders, to their GMP's executor, which this relayer plays."""

OURSELVES: Final = ""
"""Who pays: the relayer's operator."""

_SPONSOR: Final = "sponsor "


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
    PAYMENT = "payments"
    EXECUTOR = "payments.executor_grace"


UNPAID: Final = frozenset({Bound.PAYMENT, Bound.EXECUTOR})
"""Why something waits for money of others, or for work that they were paid for."""


@dataclass(frozen=True, slots=True)
class SpentFor:
    """The message that something is paid for, its sender (32 bytes) and its lane.

    Attributes:
        gmp: the number of the GMP whose delivery it is, or `EXECUTION`; None: what the operator has decided to pay, as retries.
        payer: `VAULT`, `GMPS_EXECUTOR`, a sponsor or `OURSELVES`; settled when a nonce is reserved.
    """

    message_id: bytes
    sender: bytes
    lane: Lane
    gmp: int | None = None
    payer: str = OURSELVES

    @classmethod
    def of(cls, message: Message, gmp: int | None = None) -> SpentFor:
        """Payments for a message."""
        return cls(message.id, message.sender, Lane(message.source_chain, message.destination_chain), gmp)


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
    paid_from: tuple[TotalKey, ...] = ()  # balances of the message, or a sponsor's day

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
            _paid_from(chain_id, who, day),
        )

    @property
    def all(self) -> tuple[TotalKey, ...]:
        """Every one of them."""
        named = (self.chain, self.message, self.sender, self.lane)
        return (*(key for key in named if key is not None), *self.paid_from)


def balance_keys(chain_id: int, message_id: bytes, gmp: int) -> tuple[TotalKey, ...]:
    """What a message's deliveries by one GMP, and all of the message, cost on its destination beyond what was paid for them.

    Their gwei are below zero as long as something is left. An execution has no payment of its own: it draws on all of them.
    """
    whole = TotalKey(chain_id, EVER, f"balance 0x{message_id.hex()}")
    return (whole,) if gmp == EXECUTION else (whole, TotalKey(chain_id, EVER, f"{whole.of} {gmp}"))


def _paid_from(chain_id: int, who: SpentFor, day: int) -> tuple[TotalKey, ...]:
    if who.payer == VAULT:
        return balance_keys(chain_id, who.message_id, who.gmp or EXECUTION)
    return (TotalKey(chain_id, day, who.payer),) if who.payer.startswith(_SPONSOR) else ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not paid now.

    Attributes:
        bound: which bound has no room.
        why: for people: the bound, the figure and the setting.
        room_from: Unix seconds from which on there is room again; None: that depends on prices, or on an operator.
        missing: wei of the chain where it would be spent that are still to be paid; None: money is not what is missing.
    """

    bound: Bound
    why: str
    room_from: float | None = None
    missing: int | None = None


class SpendBlockedError(TransientError):
    """A bound has no room for a payment now. Nothing was sent; what it was for waits."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.why)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Sponsor:
    """A sponsor pays for the messages of some senders: `per_day` wei on each chain (UTC)."""

    name: str
    senders: frozenset[bytes]
    per_day: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentPolicy:
    """Who pays for deliveries and executions.

    Attributes:
        required: whether each delivery must be paid for; else the operator pays for what no payer covers.
        executors: the numbers of GMPs with an executor of their own, whom senders pay with the message.
        plays_executor: whether this relayer is that executor.
        executor_grace: seconds that it is given otherwise, before this relayer steps in.
        sponsors: who pays for some senders.
        data_fees: wei that a byte of a transaction costs beside its gas, by chain: what a rollup pays for data.
    """

    required: bool = False
    executors: frozenset[int] = frozenset()
    plays_executor: bool = False
    executor_grace: float = 3_600.0
    sponsors: tuple[Sponsor, ...] = ()
    data_fees: Mapping[int, int] = field(default_factory=dict)

    def payers(self, who: SpentFor | None) -> list[SpentFor | None]:
        """Those who may pay, in the order in which they are asked; the last one answers for all if none has room."""
        if who is None or who.gmp is None:
            return [who]
        if self.plays_executor and who.gmp in self.executors:
            return [replace(who, payer=GMPS_EXECUTOR)]
        sponsored = [replace(who, payer=_SPONSOR + one.name) for one in self.sponsors if who.sender in one.senders]
        vault = replace(who, payer=VAULT)
        return [vault, *sponsored, vault if self.required else replace(who, payer=OURSELVES)]

    def refusal(self, who: SpentFor, keys: TotalKeys, totals: Mapping[TotalKey, Total], wei: int) -> Refusal | None:
        """Why its payer does not pay that much; None if it does. Arguments as of `SpendBounds.refusal`."""
        if who.payer == VAULT:
            lacks = max(totals.get(key, NOTHING).gwei for key in keys.paid_from)
            return _unpaid(who, keys.chain.chain_id, lacks, wei) if lacks + gwei_of(wei) > 0 or lacks >= 0 else None
        sponsor = next((one for one in self.sponsors if _SPONSOR + one.name == who.payer), None)
        if sponsor is None:
            return None
        spent = totals.get(keys.paid_from[0], NOTHING).gwei * GWEI
        if spent + wei <= sponsor.per_day and spent < sponsor.per_day:
            return None
        why = f"sponsor {sponsor.name} has paid {ether(spent)} on chain {keys.chain.chain_id} today, of {ether(sponsor.per_day)}"
        return Refusal(Bound.PAYMENT, why)

    def waits_for_executor(self, gmp: int | None, since: float, now: float) -> Refusal | None:
        """Whether its GMP's own executor, who was paid, is still to deliver it; `since` is when it was observed."""
        until = since + self.executor_grace
        if not self.required or self.plays_executor or gmp not in self.executors or now >= until:
            return None
        why = (
            "its GMP's own executor was paid for the delivery, and this relayer gives it payments.executor_grace first"
        )
        return Refusal(Bound.EXECUTOR, why, until)

    def data_fee(self, chain_id: int, length: int) -> int:
        """Wei that so many bytes cost beside their gas."""
        return self.data_fees.get(chain_id, 0) * length


def _unpaid(who: SpentFor, chain_id: int, lacks: int, wei: int) -> Refusal:
    missing = max(lacks * GWEI + wei, 0)
    what = "its execution" if who.gmp == EXECUTION else f"its delivery over {Gmp(who.gmp or 0).label}"
    left = f"{ether(-lacks * GWEI)} of what was paid is left" if lacks < 0 else "nothing of what was paid is left"
    cost = f"{what} may cost {ether(wei)} on chain {chain_id}, and {left}" if wei else f"{what} is not paid for: {left}"
    short = f", so {ether(missing)} is missing" if missing else ""
    return Refusal(Bound.PAYMENT, f"{cost}{short}; `waybill message top-up` pays for it", missing=missing)


FREE: Final = PaymentPolicy()
"""No sender has to pay: the operator does."""


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
        payments: who pays.
    """

    message: int | None = None
    sender: int | None = None
    lane: int | None = None
    lanes: Mapping[Lane, int] = field(default_factory=dict)
    chain: int | None = None
    message_failures: int | None = None
    sender_failures: int | None = None
    payments: PaymentPolicy = FREE

    def payer(
        self, who: SpentFor | None, chain_id: int, totals: Mapping[TotalKey, Total], *, wei: int, now: float
    ) -> SpentFor | None:
        """The first who may pay for something and has room for it; the last if none has. Arguments as of `refusal`."""
        payers = self.payments.payers(who)
        for one in payers:
            if one is None or self.payments.refusal(one, TotalKeys.of(chain_id, one, now), totals, wei) is None:
                return one
        return payers[-1]

    def keys(self, who: SpentFor | None, chain_id: int, now: float) -> list[TotalKey]:
        """All totals that decide about a payment, no matter who pays."""
        return [key for one in self.payments.payers(who) for key in TotalKeys.of(chain_id, one, now).all]

    def of_lane(self, lane: Lane) -> int | None:
        """What that lane may cost in a day."""
        return self.lanes.get(lane, self.lane)

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
            who: what it is for, and who pays.
            keys: the totals that it counts for.
            totals: what they have come to; one that is missing is nothing.
            wei: what it may cost; 0 asks whether there is any room left.
            now: Unix seconds.
            executes: whether it is an execution, for which failures count.
        """
        unpaid = self.payments.refusal(who, keys, totals, wei) if who is not None else None
        if unpaid is not None:
            return unpaid
        midnight = (int(now) // _DAY + 1) * float(_DAY)
        bounds: list[tuple[Bound, TotalKey | None, int | None, str, float | None]] = [
            (Bound.MESSAGE, keys.message, self.message, "its message", None),
            (Bound.SENDER, keys.sender, self.sender, "its sender's messages", midnight),
            (Bound.LANE, keys.lane, self.of_lane(who.lane) if who else None, "its lane", midnight),
            (Bound.CHAIN, keys.chain, self.chain, "everything", midnight),
        ]
        for bound, key, limit, named, until in bounds:
            spent = totals.get(key, NOTHING).gwei * GWEI if key is not None else 0
            if limit is not None and key is not None and (spent + wei > limit or spent >= limit):
                setting = "spend_limits" if bound is Bound.LANE and who and who.lane in self.lanes else bound.value
                when = " today" if until else ""
                cost = f"it would cost up to {ether(wei)} on chain {key.chain_id}" if wei else "nothing more is paid"
                rest = "it goes on after midnight UTC, or when that is raised" if until else "raise that"
                why = f"{cost}: {named} cost {ether(spent)} there{when}, and {setting} is {ether(limit)}; {rest}"
                return Refusal(bound, why, until)
        return self.failed(keys, totals, now=now) if executes else None

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
        missing: wei that are still to be paid, as of `Refusal`.
    """

    subject: str
    message_id: bytes
    lane: Lane
    bound: Bound
    why: str
    since: float
    at: float
    missing: int | None = None


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
