"""Amounts that the relayer spends, and their bounds.

Every transaction is charged to a message, its sender and its lane. Its maximum cost is recorded in the store
transaction that reserves its nonce, and replaced by its actual cost once a block includes it. Amounts are in
gwei, rounded up, so that sums fit into 64 bits. Chains have different currencies, so every bound applies to
each chain separately.
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
"""The day of totals that are never reset."""


class Bound(StrEnum):
    """Bounds on payments. Each value is the name of its setting."""

    FILTERS = "filters"  # allow_senders, deny_senders, allow_chains, deny_chains
    CONSENT = "retry_for"
    MESSAGE = "spending.message"
    SENDER = "spending.sender_per_day"
    LANE = "spending.lane_per_day"
    CHAIN = "spending.chain_per_day"
    GAS = "max_gas"


@dataclass(frozen=True, slots=True)
class SpentFor:
    """The message that a payment is charged to, with its sender (32 bytes) and lane."""

    message_id: bytes
    sender: bytes
    lane: Lane
    sender_per_day: int | None = None

    @classmethod
    def of(cls, message: Message) -> SpentFor:
        """Builds the charge for a message."""
        return cls(message.id, message.sender, Lane(message.source_chain, message.destination_chain))


@dataclass(frozen=True, slots=True, order=True)
class TotalKey:
    """The key of a total.

    Attributes:
        chain_id: Chain of the payment.
        day: Days since 1970 (UTC), or `EVER`.
        of: The message, sender, lane or whole chain that the total is for.
    """

    chain_id: int
    day: int
    of: str


def total_keys(chain_id: int, who: SpentFor | None, now: float) -> dict[Bound, TotalKey]:
    """Returns the totals to which a payment on a chain at `now` (Unix seconds) is added, by the bound on each.

    Without a message, only the chain's total.
    """
    day = day_of(now)
    of_chain = {Bound.CHAIN: TotalKey(chain_id, day, "chain")}
    if who is None:
        return of_chain
    return {
        Bound.MESSAGE: TotalKey(chain_id, EVER, f"message 0x{who.message_id.hex()}"),
        Bound.SENDER: TotalKey(chain_id, day, f"sender 0x{who.sender.hex()}"),
        Bound.LANE: TotalKey(chain_id, day, f"{_LANE}{who.lane.source_chain} {who.lane.destination_chain}"),
        **of_chain,
    }


def day_of(now: float) -> int:
    """Returns the UTC day of `now` (Unix seconds)."""
    return int(now) // _DAY


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a payment is blocked now.

    Attributes:
        bound: Bound that the payment would exceed.
        why: Human-readable bound, amount and setting.
        room_from: Unix seconds when there is room again; None if that depends on prices or an operator.
    """

    bound: Bound
    why: str
    room_from: float | None = None


class SpendBlockedError(TransientError):
    """A payment would exceed a bound now. Nothing was sent, and the work waits."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.why)
        self.refusal = refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendBounds:
    """Bounds on the cost of transactions on one chain, in wei. None means unlimited.

    Attributes:
        message: Total cost of one message.
        sender: Cost of one sender's messages per UTC day.
        lane: Cost of one lane per UTC day.
        chain: Cost of everything per UTC day.
        data_fees: Data fee of each rollup by chain, in wei per byte of a transaction, charged on top of gas.
    """

    message: int | None = None
    sender: int | None = None
    lane: int | None = None
    chain: int | None = None
    data_fees: Mapping[int, int] = field(default_factory=dict)

    def refusal(
        self,
        who: SpentFor | None,
        keys: Mapping[Bound, TotalKey],
        totals: Mapping[TotalKey, int],
        *,
        wei: int,
        now: float,
    ) -> Refusal | None:
        """Returns the bound that a payment would exceed, or None.

        Args:
            who: Message to charge.
            keys: Totals to which the payment would be added; see `total_keys`.
            totals: Current totals in gwei; a missing total is zero.
            wei: Maximum cost; 0 checks whether the bounds are already exhausted.
            now: Unix seconds.
        """
        limits = {
            Bound.MESSAGE: (self.message, "its message"),
            Bound.SENDER: (self.sender, "its sender's messages"),
            Bound.LANE: (self.lane, "its lane"),
            Bound.CHAIN: (self.chain, "everything"),
        }
        for bound, key in keys.items():
            (limit, named), setting = limits[bound], bound.value
            if bound is Bound.SENDER and who is not None and who.sender_per_day is not None:
                limit, setting = who.sender_per_day, "dlq.governance.wei_per_day"
            spent = totals.get(key, 0) * GWEI
            if limit is not None and (spent + wei > limit or spent >= limit):
                until = None if bound is Bound.MESSAGE else float((day_of(now) + 1) * _DAY)
                when = " today" if until else ""
                cost = (
                    f"the payment would cost up to {ether(wei)} on chain {key.chain_id}"
                    if wei
                    else "nothing more is paid"
                )
                rest = "it continues after midnight UTC, or once the limit is raised" if until else "raise that"
                why = f"{cost}: {named} cost {ether(spent)} there{when}, and {setting} is {ether(limit)}; {rest}"
                return Refusal(bound, why, until)
        return None


UNBOUNDED: Final = SpendBounds()
"""Bounds that allow every payment."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Work that a bound blocks.

    Attributes:
        subject: An outbox entry's id, or a transaction key.
        message_id: Message that the work is for.
        lane: That message's lane.
        bound: The bound.
        why: Human-readable reason.
        since: Unix seconds when the work was first blocked.
        at: Unix seconds when the work was last found blocked.
    """

    subject: str
    message_id: bytes
    lane: Lane
    bound: Bound
    why: str
    since: float
    at: float


def lane_of(name: str) -> Lane | None:
    """Parses the lane from a total's name; None if the total is not for a lane."""
    if not name.startswith(_LANE):
        return None
    source, destination = name.removeprefix(_LANE).split()
    return Lane(int(source), int(destination))


def gwei_of(wei: int) -> int:
    """Converts wei to gwei, rounded up."""
    return -(-wei // GWEI)


def ether(wei: int) -> str:
    """Formats an amount for people."""
    text = f"{(Decimal(wei) / _ETHER).quantize(Decimal('0.000000001')):f}".rstrip("0").rstrip(".")
    return f"{text or '0'} ether" if wei >= GWEI or wei == 0 else f"{wei} wei"
