"""The nonce ledger: every nonce of every account of ours, and what became of it.

A slot is one nonce. It is reserved, then holds a signed transaction, which is on disk before any node sees it. It always
ends used: by its call, by a no-op in its place, or by a transaction that was signed elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from bridge.protocol.ports import Call, Fees
from bridge.records.observations import BlockRef
from bridge.records.outbox import Claim
from bridge.records.spending import (
    GWEI,
    UNBOUNDED,
    Refusal,
    SpendBlockedError,
    SpendBounds,
    SpentFor,
    TotalKey,
    TotalKeys,
    gwei_of,
)

_TRANSACTION_BYTES: Final = 200  # of a transaction beside its call's data: signature, fees, addresses


class SlotState(StrEnum):
    """Where a nonce is."""

    RESERVED = "RESERVED"  # nothing signed yet
    SIGNED = "SIGNED"  # signed and stored; perhaps no node has it
    BROADCAST = "BROADCAST"  # a node took it
    INCLUDED = "INCLUDED"  # in a block
    FINAL = "FINAL"  # in a block that is as deep as the chain's confirmations ask for
    USED_EXTERNALLY = "USED_EXTERNALLY"  # used by a transaction that was signed elsewhere


TRANSITIONS: Final = frozenset(
    {
        (SlotState.RESERVED, SlotState.SIGNED),
        (SlotState.RESERVED, SlotState.USED_EXTERNALLY),
        (SlotState.SIGNED, SlotState.BROADCAST),
        (SlotState.SIGNED, SlotState.INCLUDED),  # sent just before a crash
        (SlotState.SIGNED, SlotState.USED_EXTERNALLY),
        (SlotState.BROADCAST, SlotState.INCLUDED),
        (SlotState.BROADCAST, SlotState.USED_EXTERNALLY),
        (SlotState.INCLUDED, SlotState.BROADCAST),  # its block was orphaned
        (SlotState.INCLUDED, SlotState.FINAL),
        (SlotState.FINAL, SlotState.INCLUDED),  # a reorg deeper than the chain's confirmations: to be looked at again
        (SlotState.USED_EXTERNALLY, SlotState.SIGNED),  # what had taken the nonce was orphaned: a no-op fills the gap
    }
)

OPEN_STATES: Final = frozenset({SlotState.RESERVED, SlotState.SIGNED, SlotState.BROADCAST})
"""States in which the nonce is not used yet."""

SENT_STATES: Final = frozenset({SlotState.SIGNED, SlotState.BROADCAST, SlotState.INCLUDED})
"""States in which one learns that a node took the transaction; a block may be known to include it before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedVersion:
    """One transaction signed for a slot. Later versions replace earlier ones, yet any of them may be included."""

    hash: bytes
    raw: bytes = field(repr=False)
    fees: Fees
    signed_at: float
    is_noop: bool


@dataclass(frozen=True, slots=True)
class Inclusion:
    """Where a slot's transaction ended up."""

    transaction_hash: bytes
    block: BlockRef
    succeeded: bool
    gas_used: int | None = field(default=None, compare=False)  # known when it is recorded, and not read back


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """A nonce wanted for a call; with a claim it is given only while that claim is good."""

    transaction_key: str
    call: Call
    claim: Claim | None = None
    may_share: bool = False  # whether the call may be one of several in a transaction
    spent_for: SpentFor | None = None  # whose bounds it counts for, besides those of the chain


@dataclass(frozen=True, slots=True)
class BatchedCall:
    """One of the transaction_keys that share a transaction."""

    transaction_key: str
    gas: int  # of the transaction's gas limit, for which this call is to blame; the parts add up to all of it


@dataclass(frozen=True, slots=True)
class CallBatch:
    """What one transaction is to do, and what for."""

    call: Call
    parts: tuple[BatchedCall, ...]  # in the order in which the call makes theirs; at least one

    @classmethod
    def of(cls, request: SlotRequest) -> CallBatch:
        """One call in a transaction of its own."""
        return cls(request.call, (BatchedCall(request.transaction_key, request.call.gas or 0),))

    @classmethod
    def closing(cls, nonce: int) -> CallBatch:
        """Nothing: a no-op closes that nonce."""
        return cls(Call(to="", data=b""), (BatchedCall(f"fill nonce {nonce}", 0),))


Packing = Callable[[Sequence[SlotRequest]], Sequence[CallBatch]]
"""Which requests share a transaction: each of them is in exactly one batch."""


def one_by_one(requests: Sequence[SlotRequest]) -> list[CallBatch]:
    """None of them does."""
    return [CallBatch.of(request) for request in requests]


NOOP_GAS: Final = 21_000
"""What a transaction that does nothing uses."""

_MOST_NAMED: Final = 20  # transaction_keys in one line of a log

SHARED: Final = "shared"
"""The transaction_key of a slot that has several; they are its parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One nonce of one account on one chain."""

    slot_id: int
    chain_id: int
    account: str
    nonce: int
    transaction_key: (
        str  # what it is for: an outbox entry's event_id, or another name; equal transaction_keys share an open slot
    )
    parts: tuple[BatchedCall, ...] = ()  # the transaction_keys of a slot that is SHARED, in the order of its calls
    call: Call | None = field(repr=False)  # None: a no-op from the start
    state: SlotState
    reserved_at: float
    versions: tuple[SignedVersion, ...] = field(default=(), repr=False)
    broadcast_at: float | None = None
    included: Inclusion | None = None

    @classmethod
    def reserved(cls, chain_id: int, account: str, nonce: int, batch: CallBatch | None, now: float) -> Slot:
        """A slot that no store has given an id yet; without a batch it will be closed by a no-op."""
        parts = (batch or CallBatch.closing(nonce)).parts
        is_shared = len(parts) > 1
        return cls(
            slot_id=0,
            chain_id=chain_id,
            account=account,
            nonce=nonce,
            transaction_key=SHARED if is_shared else parts[0].transaction_key,
            parts=parts if is_shared else (),
            call=batch.call if batch else None,
            state=SlotState.RESERVED,
            reserved_at=now,
        )

    @property
    def transaction_keys(self) -> tuple[str, ...]:
        """All that it is for."""
        return tuple(part.transaction_key for part in self.parts) or (self.transaction_key,)

    @property
    def named_keys(self) -> str:
        """All that it is for, as logs name it; of very many, the first ones and how many more there are."""
        named, rest = self.transaction_keys[:_MOST_NAMED], len(self.transaction_keys) - _MOST_NAMED
        return ", ".join(named) + (f" and {rest} more" if rest > 0 else "")

    @property
    def latest(self) -> SignedVersion | None:
        """The version that counts: the one signed last."""
        return self.versions[-1] if self.versions else None

    @property
    def is_open(self) -> bool:
        """Whether its nonce is still unused."""
        return self.state in OPEN_STATES

    @property
    def ended_as_noop(self) -> bool:
        """Whether the version that was included is a no-op."""
        return self.included is not None and any(
            version.is_noop for version in self.versions if version.hash == self.included.transaction_hash
        )

    def became(self, state: SlotState) -> Slot:
        """The slot in another state.

        Raises:
            ForbiddenSlotTransitionError: there is no way from here to there.
        """
        if (self.state, state) not in TRANSITIONS:
            raise ForbiddenSlotTransitionError(self, state)
        return replace(self, state=state)

    def signed(self, version: SignedVersion) -> Slot:
        """The slot with another version on top."""
        fresh = self if self.state in (SlotState.SIGNED, SlotState.BROADCAST) else self.became(SlotState.SIGNED)
        return replace(fresh, versions=(*self.versions, version))

    def in_block(self, inclusion: Inclusion) -> Slot:
        """The slot with its transaction in a block, or in another block than before."""
        landed = self if self.state is SlotState.INCLUDED else self.became(SlotState.INCLUDED)
        return replace(landed, included=inclusion)

    def orphaned(self) -> Slot:
        """The slot after its transaction's block fell: it is on its way again."""
        return replace(self.became(SlotState.BROADCAST), included=None)


def costs_of(slot: Slot) -> list[int] | None:
    """What each of a slot's transaction_keys costs, in wei: at most, until it is known what its transaction used.

    A version may be included as long as none is, so the dearest counts. Purposes that share a transaction are charged by
    their parts of its gas. None: nothing is signed yet, and what was reserved for it stands.
    """
    if not slot.versions:
        return None
    landed = slot.included
    total = max(_cost_of(slot, version) for version in slot.versions)
    if landed is not None:
        version = next((one for one in slot.versions if one.hash == landed.transaction_hash), slot.versions[-1])
        total = _cost_of(slot, version)
        if landed.gas_used is not None:
            value = slot.call.value if slot.call is not None and landed.succeeded and not version.is_noop else 0
            total = landed.gas_used * version.fees.max_fee + value
    whole = sum(part.gas for part in slot.parts)
    return [total * part.gas // whole + 1 for part in slot.parts] if whole else [total]


def _cost_of(slot: Slot, version: SignedVersion) -> int:
    if version.is_noop or slot.call is None:
        return NOOP_GAS * version.fees.max_fee
    return (slot.call.gas or 0) * version.fees.max_fee + slot.call.value


def require_room(
    slot: Slot,
    bounds: SpendBounds,
    charged: Sequence[tuple[SpentFor | None, int]],
    totals: Callable[[Sequence[TotalKey]], Mapping[TotalKey, int]],
) -> None:
    """Refuses a slot's latest version if it costs more than those before and the bounds have no room for that.

    A no-op always has room: it closes a nonce that holds up all behind it.

    Args:
        slot: with the version.
        bounds: what has to have room.
        charged: for whom each of its transaction_keys is paid, and what it was charged by now, in gwei.
        totals: reads what totals have come to.

    Raises:
        SpendBlockedError: they have none.
    """
    costs = costs_of(slot)
    if costs is None or slot.latest is None or slot.latest.is_noop:
        return
    for (who, gwei), cost in zip(charged, costs, strict=True):
        keys, wei = TotalKeys.of(slot.chain_id, who, slot.reserved_at), cost - gwei * GWEI
        if wei > 0:
            known = totals(keys.all)
            refusal = bounds.refusal(who, keys, known, wei=wei, now=slot.reserved_at)
            if refusal is not None:
                raise SpendBlockedError(refusal)


@dataclass(slots=True)
class SpendCheck:
    """Lets a transaction of the store reserve nonces for what the bounds have room for, and nothing else.

    Attributes:
        price: wei per gas that will be signed for.
        bounds: what has to have room.
        refusals: by transaction_key, what was refused; filled by `admitted`.
        spent_for: the message that each admitted call serves, by transaction_key; filled by `admitted`.
    """

    price: int = 0
    bounds: SpendBounds = UNBOUNDED
    refusals: dict[str, Refusal] = field(default_factory=dict)
    spent_for: dict[str, SpentFor | None] = field(default_factory=dict)

    def keys(self, requests: Iterable[SlotRequest], chain_id: int, now: float) -> list[TotalKey]:
        """The totals that decide about requests."""
        return [key for one in requests for key in TotalKeys.of(chain_id, one.spent_for, now).all]

    def admitted(
        self,
        requests: Sequence[SlotRequest],
        pack: Packing,
        totals: Mapping[TotalKey, int],
        *,
        chain_id: int,
        now: float,
    ) -> Sequence[CallBatch]:
        """The transactions for all requests that there is room for, in order; the others are refused.

        What shares a transaction costs a part of it, so what remains is packed again until all that is packed has room.

        Args:
            requests: what is asked for.
            pack: which of them share a transaction.
            totals: of all that they count for.
            chain_id: where they are paid.
            now: Unix seconds.
        """
        wanted = {one.transaction_key: one for one in requests}
        while True:
            batches, spent, refused = pack(list(wanted.values())), dict(totals), len(self.refusals)
            for batch in batches:
                for part in batch.parts:
                    who = wanted[part.transaction_key].spent_for if part.transaction_key in wanted else None
                    wei = self.cost(batch, part) + self.data_fee(batch, part, chain_id)
                    keys = TotalKeys.of(chain_id, who, now)
                    refusal = self.bounds.refusal(who, keys, spent, wei=wei, now=now)
                    if refusal is not None:
                        self.refusals[part.transaction_key] = refusal
                        continue
                    self.spent_for[part.transaction_key] = who
                    for key in keys.all:
                        spent[key] = spent.get(key, 0) + gwei_of(wei)
            if len(self.refusals) == refused:
                return batches
            wanted = {
                transaction_key: one for transaction_key, one in wanted.items() if transaction_key not in self.refusals
            }

    def cost(self, batch: CallBatch, part: BatchedCall) -> int:
        """What one part of a transaction may cost, in wei; what is shared has no value."""
        return part.gas * self.price + batch.call.value

    def data_fee(self, batch: CallBatch, part: BatchedCall, chain_id: int) -> int:
        """What a rollup asks for the part's data beside its gas, in wei; of what is shared, by its part of the gas."""
        whole = sum(one.gas for one in batch.parts)
        fee = self.bounds.data_fee(chain_id, len(batch.call.data) + _TRANSACTION_BYTES)
        return fee * part.gas // whole + 1 if fee and whole else 0


class ForbiddenSlotTransitionError(Exception):
    """A change of state that the ledger does not know."""

    def __init__(self, slot: Slot, after: SlotState) -> None:
        super().__init__(f"nonce {slot.nonce} of {slot.account} is {slot.state} and can't become {after}")
