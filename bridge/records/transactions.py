"""The nonce ledger: every nonce of the relayer's accounts, with its transaction.

A slot is one nonce. It is reserved, then holds a signed transaction, which is on disk before any node sees it.
Every slot's nonce ends up used: by its call, by a no-op that replaces the call, or by a transaction that other
software signed.
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
    gwei_of,
    total_keys,
)

_TRANSACTION_BYTES: Final = 200  # size of a transaction without its call data: signature, fees, addresses


class SlotState(StrEnum):
    """The states of a nonce."""

    RESERVED = "RESERVED"  # not signed yet
    SIGNED = "SIGNED"  # signed and stored; nodes may not have it
    BROADCAST = "BROADCAST"  # a node accepted it
    INCLUDED = "INCLUDED"  # in a block
    FINAL = "FINAL"  # in a final block
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
        (SlotState.FINAL, SlotState.INCLUDED),  # a reorg deeper than the chain's confirmations: to be checked again
        (SlotState.USED_EXTERNALLY, SlotState.SIGNED),  # the foreign transaction was orphaned: a no-op fills the gap
    }
)

OPEN_STATES: Final = frozenset({SlotState.RESERVED, SlotState.SIGNED, SlotState.BROADCAST})
"""States of unused nonces."""

SENT_STATES: Final = frozenset({SlotState.SIGNED, SlotState.BROADCAST, SlotState.INCLUDED})
"""States in which a node's acceptance is recorded; the inclusion may be recorded first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedVersion:
    """A transaction signed for a slot. Later versions replace earlier ones, but a block may include any of them."""

    hash: bytes
    raw: bytes = field(repr=False)
    fees: Fees
    signed_at: float
    is_noop: bool


@dataclass(frozen=True, slots=True)
class Inclusion:
    """The block that includes a slot's transaction."""

    transaction_hash: bytes
    block: BlockRef
    succeeded: bool
    gas_used: int | None = field(default=None, compare=False)  # known when the inclusion is recorded, and not stored


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """A request for a nonce for a call; with a claim, it is granted only while that claim is valid."""

    transaction_key: str
    call: Call
    claim: Claim | None = None
    may_share: bool = False  # whether the call may share a transaction
    spent_for: SpentFor | None = None  # the message whose bounds it counts toward, besides the chain's


@dataclass(frozen=True, slots=True)
class BatchedCall:
    """One of the calls of a transaction.

    Attributes:
        transaction_key: Its purpose: an outbox entry's event_id, or another name.
        gas: Its share of the transaction's gas limit; the shares add up to the whole.
        spent_for: The message that pays for it; None: its cost counts for the chain alone.
        gwei: Its cost: an upper bound until its transaction is included.
        data_gwei: Included in `gwei`: a rollup's data fee, which no receipt lowers.
    """

    transaction_key: str
    gas: int
    spent_for: SpentFor | None = field(default=None, compare=False)
    gwei: int = field(default=0, compare=False)
    data_gwei: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CallBatch:
    """The call of one transaction, and the transaction keys that it serves."""

    call: Call
    parts: tuple[BatchedCall, ...]  # in the order of their calls; at least one

    @classmethod
    def of(cls, request: SlotRequest) -> CallBatch:
        """Returns a batch of one call."""
        return cls(request.call, (BatchedCall(request.transaction_key, request.call.gas or 0),))


Packing = Callable[[Sequence[SlotRequest]], Sequence[CallBatch]]
"""Packs requests into batches; each request is in exactly one."""


def one_by_one(requests: Sequence[SlotRequest]) -> list[CallBatch]:
    """Packs each request into a transaction of its own."""
    return [CallBatch.of(request) for request in requests]


NOOP_GAS: Final = 21_000
"""Gas used by a no-op."""

_MOST_NAMED: Final = 20  # transaction_keys in one line of a log


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One nonce of an account on a chain. No two open slots of an account have a transaction key in common."""

    slot_id: int
    chain_id: int
    account: str
    nonce: int
    parts: tuple[BatchedCall, ...]  # in the order of its calls; at least one
    call: Call | None = field(repr=False)  # None for a no-op
    state: SlotState
    reserved_at: float
    versions: tuple[SignedVersion, ...] = field(default=(), repr=False)
    broadcast_at: float | None = None
    included: Inclusion | None = None

    @classmethod
    def reserved(cls, chain_id: int, account: str, nonce: int, batch: CallBatch | None, now: float) -> Slot:
        """Returns a new slot without an id; without a batch, a no-op will close it."""
        return cls(
            slot_id=0,
            chain_id=chain_id,
            account=account,
            nonce=nonce,
            parts=batch.parts if batch else (BatchedCall(f"fill nonce {nonce}", 0),),
            call=batch.call if batch else None,
            state=SlotState.RESERVED,
            reserved_at=now,
        )

    @property
    def transaction_keys(self) -> tuple[str, ...]:
        """The transaction keys that the slot serves."""
        return tuple(part.transaction_key for part in self.parts)

    @property
    def is_shared(self) -> bool:
        """Whether several calls share the transaction."""
        return len(self.parts) > 1

    @property
    def named_keys(self) -> str:
        """The transaction keys as text for logs, truncated, with the number of omitted keys."""
        named, rest = self.transaction_keys[:_MOST_NAMED], len(self.transaction_keys) - _MOST_NAMED
        return ", ".join(named) + (f" and {rest} more" if rest > 0 else "")

    @property
    def latest(self) -> SignedVersion | None:
        """The version that was signed last, if any."""
        return self.versions[-1] if self.versions else None

    @property
    def is_open(self) -> bool:
        """Whether the nonce is unused."""
        return self.state in OPEN_STATES

    @property
    def ended_as_noop(self) -> bool:
        """Whether the included version is a no-op."""
        return self.included is not None and any(
            version.is_noop for version in self.versions if version.hash == self.included.transaction_hash
        )

    def became(self, state: SlotState) -> Slot:
        """Returns the slot in another state.

        Raises:
            ForbiddenSlotTransitionError: the ledger does not allow that transition.
        """
        if (self.state, state) not in TRANSITIONS:
            raise ForbiddenSlotTransitionError(self, state)
        return replace(self, state=state)

    def signed(self, version: SignedVersion) -> Slot:
        """Returns the slot with another version."""
        fresh = self if self.state in (SlotState.SIGNED, SlotState.BROADCAST) else self.became(SlotState.SIGNED)
        return replace(fresh, versions=(*self.versions, version))

    def in_block(self, inclusion: Inclusion) -> Slot:
        """Returns the slot with its transaction in a block, which may differ from the previous one."""
        landed = self if self.state is SlotState.INCLUDED else self.became(SlotState.INCLUDED)
        return replace(landed, included=inclusion)

    def orphaned(self) -> Slot:
        """Returns the slot after a reorg removed its block: it is pending again."""
        return replace(self.became(SlotState.BROADCAST), included=None)


def costs_of(slot: Slot) -> list[int]:
    """Returns the cost of each of a slot's parts in wei, without data fees: an upper bound until inclusion.

    Until then, any version may be included, so the most expensive one counts. Calls that share a transaction are
    charged in proportion to their gas. The reserved amounts apply until a version is signed.
    """
    if not slot.versions:
        return [(part.gwei - part.data_gwei) * GWEI for part in slot.parts]
    landed = slot.included
    total = max(_cost_of(slot, version) for version in slot.versions)
    if landed is not None:
        version = next((one for one in slot.versions if one.hash == landed.transaction_hash), slot.versions[-1])
        total = _cost_of(slot, version)
        if landed.gas_used is not None:
            value = slot.call.value if slot.call is not None and landed.succeeded and not version.is_noop else 0
            total = landed.gas_used * version.fees.max_fee + value
    whole = sum(part.gas for part in slot.parts)
    return [total * part.gas // whole + 1 for part in slot.parts] if slot.is_shared else [total]


def _cost_of(slot: Slot, version: SignedVersion) -> int:
    if version.is_noop or slot.call is None:
        return NOOP_GAS * version.fees.max_fee
    return (slot.call.gas or 0) * version.fees.max_fee + slot.call.value


def require_room(
    slot: Slot,
    bounds: SpendBounds,
    totals: Callable[[Sequence[TotalKey]], Mapping[TotalKey, int]],
) -> None:
    """Checks that the bounds have room for the extra cost of a slot's latest version over earlier versions.

    A no-op is never refused, since it closes a nonce that blocks all later ones.

    Args:
        slot: Slot with the version.
        bounds: Spending bounds.
        totals: Reads the current totals in gwei.

    Raises:
        SpendBlockedError: A bound has no room.
    """
    if slot.latest is None or slot.latest.is_noop:
        return
    for part, cost in zip(slot.parts, costs_of(slot), strict=True):
        keys = total_keys(slot.chain_id, part.spent_for, slot.reserved_at)
        wei = cost - (part.gwei - part.data_gwei) * GWEI
        if wei > 0:
            known = totals(list(keys.values()))
            refusal = bounds.refusal(part.spent_for, keys, known, wei=wei, now=slot.reserved_at)
            if refusal is not None:
                raise SpendBlockedError(refusal)


@dataclass(slots=True)
class SpendCheck:
    """Admits requests that the spending bounds have room for, within the store transaction that reserves their nonces.

    Attributes:
        price: Gas price that will be offered, in wei per gas.
        bounds: Spending bounds.
        refusals: Refusals by transaction key; filled by `admitted`.
    """

    price: int = 0
    bounds: SpendBounds = UNBOUNDED
    refusals: dict[str, Refusal] = field(default_factory=dict)

    def keys(self, requests: Iterable[SlotRequest], chain_id: int, now: float) -> list[TotalKey]:
        """Returns the keys of the totals that decide whether requests are admitted."""
        return [key for one in requests for key in total_keys(chain_id, one.spent_for, now).values()]

    def admitted(
        self,
        requests: Sequence[SlotRequest],
        pack: Packing,
        totals: Mapping[TotalKey, int],
        *,
        chain_id: int,
        now: float,
    ) -> Sequence[CallBatch]:
        """Returns the transactions of all requests that the bounds have room for, in order, with their maximum costs.

        The other requests are refused.

        Calls that share a transaction share its cost, so after a refusal the remaining ones are packed again.

        Args:
            requests: Requests for nonces.
            pack: Packs them into transactions.
            totals: Current totals in gwei.
            chain_id: Chain on which they are sent.
            now: Unix seconds.
        """
        wanted = {one.transaction_key: one for one in requests}
        while True:
            batches = [self._charged(batch, wanted, chain_id) for batch in pack(list(wanted.values()))]
            spent, refused = dict(totals), len(self.refusals)
            for batch in batches:
                for part in batch.parts:
                    keys = total_keys(chain_id, part.spent_for, now)
                    refusal = self.bounds.refusal(part.spent_for, keys, spent, wei=part.gwei * GWEI, now=now)
                    if refusal is not None:
                        self.refusals[part.transaction_key] = refusal
                        continue
                    for key in keys.values():
                        spent[key] = spent.get(key, 0) + part.gwei
            if len(self.refusals) == refused:
                return batches
            wanted = {
                transaction_key: one for transaction_key, one in wanted.items() if transaction_key not in self.refusals
            }

    def _charged(self, batch: CallBatch, requests: Mapping[str, SlotRequest], chain_id: int) -> CallBatch:
        """Returns the batch with each call's payer and maximum cost.

        A rollup's data fee is divided by gas. Calls that share a transaction carry no value.
        """
        whole = sum(part.gas for part in batch.parts)
        data_fee = self.bounds.data_fees.get(chain_id, 0) * (len(batch.call.data) + _TRANSACTION_BYTES)
        parts = []
        for part in batch.parts:
            data_gwei = gwei_of(data_fee * part.gas // whole + 1) if data_fee and whole else 0
            gwei = gwei_of(part.gas * self.price + batch.call.value) + data_gwei
            request = requests.get(part.transaction_key)
            who = request.spent_for if request is not None else None
            parts.append(replace(part, spent_for=who, gwei=gwei, data_gwei=data_gwei))
        return replace(batch, parts=tuple(parts))


class ForbiddenSlotTransitionError(Exception):
    """The ledger does not allow this transition."""

    def __init__(self, slot: Slot, after: SlotState) -> None:
        super().__init__(f"nonce {slot.nonce} of {slot.account} is {slot.state}, which can't become {after}")
