"""The guarantees for a message: tries, dead letter, phases, and the TTL that its kind or asset class requires."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from bridge.protocol.delivery_policy import DEFAULT_POLICIES, DeliveryPolicy
from bridge.protocol.message import Kind, Message

_MILLISECONDS = 1000


class IdempotencyStrategy(StrEnum):
    """The protection against applying a repeated message twice.

    All strategies except the message id are guards in the recipient.
    """

    MESSAGE_ID = "MESSAGE_ID"
    MESSAGE_ID_PLUS_STATE_HASH = "MESSAGE_ID_PLUS_STATE_HASH"  # `StateHashGuard`
    MESSAGE_ID_PLUS_NONCE = "MESSAGE_ID_PLUS_NONCE"  # `OrderedGuard`


class Atomicity(StrEnum):
    """Determines whether a message has phases with their own timeouts.

    A phase that takes too long ends in DELIVERY_TIMEOUT and is retried within the message's tries. Undoing or
    completing a transaction across chains is up to the dApps, so GUARANTEED and ALL_OR_NOTHING do not differ
    here.
    """

    BEST_EFFORT = "BEST_EFFORT"  # no phases: only the TTL counts
    GUARANTEED = "GUARANTEED"
    ALL_OR_NOTHING = "ALL_OR_NOTHING"

    @property
    def has_phases(self) -> bool:
        """Whether phase timeouts apply."""
        return self is not Atomicity.BEST_EFFORT


RECOMMENDED_TTL: Final[Mapping[Kind, int]] = MappingProxyType(
    {
        Kind.PLAIN: 7 * 86_400,
        Kind.STATE_SYNC: 300,
        Kind.REGULATORY_ACTION: 600,
        Kind.REGULATORY_ACTION_CRITICAL: 0,
        Kind.LOCK_MANAGEMENT: 120,
        Kind.QUERY: 30,
        Kind.ACK: 60,
        Kind.HEARTBEAT: 15,
        Kind.GOVERNANCE_PROPOSAL: 600,
        Kind.GOVERNANCE_VOTE: 300,
        Kind.GOVERNANCE_EXECUTE: 600,
        Kind.CANCELLATION: 0,
        Kind.REPORT: 0,
    }
)
"""Recommended TTL in seconds; 0 never expires."""

LEAST_TTL: Final = 60
"""The shortest TTL in seconds, besides 0, that a router accepts; no delivery is faster."""


def default_ttl(kind: Kind) -> int:
    """Returns the default TTL of a kind in seconds.

    This is unlimited if the kind allows it, otherwise the recommended value.
    """
    recommended = RECOMMENDED_TTL[kind]
    return 0 if kind is Kind.PLAIN or recommended == 0 else max(recommended, LEAST_TTL)


HIGH_FREQUENCY_TRADING_TTL: Final = 5
"""Minimum TTL in seconds for messages about assets that are traded at high frequency."""

REGULATED_ASSET_TTL: Final = 600
"""Minimum TTL in seconds for messages about assets under a regulatory action, so that none expires during it."""

DEFAULT_ATOMICITY: Final[Mapping[Kind, Atomicity]] = MappingProxyType(
    {
        kind: Atomicity.BEST_EFFORT if kind in (Kind.QUERY, Kind.ACK, Kind.HEARTBEAT) else Atomicity.GUARANTEED
        for kind in Kind
    }
)
"""The level of each kind, unless the settings say otherwise."""

_STATE_HASHED: Final = frozenset({Kind.STATE_SYNC, Kind.REGULATORY_ACTION, Kind.REGULATORY_ACTION_CRITICAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderChoice:
    """A sender's on-chain choice for its messages. Times are in seconds."""

    max_retries: int
    base: float
    cap: float
    dead_letter: bool
    idempotency: IdempotencyStrategy  # protection against duplicates that the sender relies on


class ChoiceBounds(BaseModel):
    """Limits on what senders may choose on chain for their messages.

    Times are in seconds. A choice beyond a limit is reduced to the limit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=True, description="whether senders' choices apply")
    max_retries: int = Field(default=20, ge=0, description="maximum number of tries after the first")
    least_base: float = Field(default=0.1, gt=0, description="minimum of the first wait")
    longest_cap: float = Field(default=600.0, gt=0, description="maximum wait")

    def admit(self, choice: SenderChoice, policy: DeliveryPolicy) -> DeliveryPolicy:
        """Returns the policy with a sender's choice applied, as far as the limits allow."""
        longest = min(choice.cap, self.longest_cap)
        return replace(
            policy,
            max_retries=min(choice.max_retries, self.max_retries),
            base=min(max(choice.base, self.least_base), longest),
            cap=longest,
            dead_letter=choice.dead_letter,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorPolicies:
    """An operator's settings for the policies of messages.

    Attributes:
        rows: policy by kind, with the operator's overrides.
        atomicity: atomicity of each kind.
        bounds: limits on senders' choices.
    """

    rows: Mapping[Kind, DeliveryPolicy] = field(default_factory=lambda: DEFAULT_POLICIES)
    atomicity: Mapping[Kind, Atomicity] = field(default_factory=lambda: DEFAULT_ATOMICITY)
    bounds: ChoiceBounds = field(default_factory=ChoiceBounds)

    def lets_choose(self, kind: Kind) -> bool:
        """Whether senders may choose the policy for messages of that kind.

        They never may for critical regulatory actions.
        """
        return self.bounds.enabled and kind is not Kind.REGULATORY_ACTION_CRITICAL


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePolicy:
    """The policy of a message's delivery: the fields of OIP's `MessageDeliveryGuarantee`, and its atomicity."""

    ttl_seconds: int  # 0: unlimited
    idempotency_strategy: IdempotencyStrategy
    delivery: DeliveryPolicy
    atomicity: Atomicity

    def value(self) -> dict[str, Any]:
        """Returns OIP's fields for JSON, with their names and units."""
        return {
            "semantics": "AT_LEAST_ONCE",  # the destination's router executes a message once in any case
            "ttlSeconds": self.ttl_seconds,
            "idempotencyStrategy": self.idempotency_strategy.value,
            "requireAttestationCheck": False,  # no chain that Waybill serves attests its transactions
            "maxRetries": self.delivery.max_retries,
            "baseBackoffMs": round(self.delivery.base * _MILLISECONDS),
            "maxBackoffMs": round(self.delivery.cap * _MILLISECONDS),
            "dlqEnabled": self.delivery.dead_letter,
            "atomicity": self.atomicity.value,
        }


def resolve_ttl(sender_ttl: int, asset_minimum: int | None) -> int:
    """Returns a message's TTL in seconds: the sender's value, or its asset class's minimum; 0 means unlimited."""
    if asset_minimum is None or sender_ttl == 0:
        return sender_ttl
    return max(sender_ttl, asset_minimum)


def policy_of(
    message: Message,
    operator: OperatorPolicies,
    choice: SenderChoice | None = None,
    *,
    guards: Collection[IdempotencyStrategy] = (),
) -> MessagePolicy:
    """Returns the policy of one message.

    It combines the kind's row, the operator's override, and the sender's choice within the bounds.

    A critical regulatory action is retried without limit and never becomes a dead letter, whatever anyone has chosen.

    Args:
        message: the message.
        operator: the operator's table by kind with overrides, and the bounds.
        choice: the sender's choice on chain, or None.
        guards: guards that the recipient is known to have. The router checks the message id for every recipient.
    """
    delivery, relied_on = operator.rows[message.kind], None
    if choice is not None and operator.lets_choose(message.kind):
        delivery, relied_on = operator.bounds.admit(choice, delivery), choice.idempotency
    return MessagePolicy(
        ttl_seconds=message.ttl,
        idempotency_strategy=_strategy(message.kind, guards, relied_on),
        delivery=delivery,
        atomicity=operator.atomicity[message.kind],
    )


def _strategy(
    kind: Kind, guards: Collection[IdempotencyStrategy], chosen: IdempotencyStrategy | None
) -> IdempotencyStrategy:
    """Returns the strategy that the sender or the kind requires of the recipient, if the recipient has it."""
    by_kind = IdempotencyStrategy.MESSAGE_ID
    if kind in _STATE_HASHED:
        by_kind = IdempotencyStrategy.MESSAGE_ID_PLUS_STATE_HASH
    elif kind is Kind.LOCK_MANAGEMENT:
        by_kind = IdempotencyStrategy.MESSAGE_ID_PLUS_NONCE
    asked = chosen or by_kind
    return asked if asked in guards else IdempotencyStrategy.MESSAGE_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetClass:
    """A class of assets with a minimum TTL."""

    name: str
    min_ttl: int  # seconds
    members: frozenset[tuple[int, bytes]]  # contracts by chain and address (32 bytes): as sender or as recipient


def class_of(message: Message, classes: Iterable[AssetClass]) -> AssetClass | None:
    """Returns, among the classes that apply to a message, the one with the longest minimum TTL, or None."""
    sender, recipient = (message.source_chain, message.sender), (message.destination_chain, message.recipient)
    holding = [one for one in classes if sender in one.members or recipient in one.members]
    return max(holding, key=lambda one: one.min_ttl, default=None)


def ttl_violation(message: Message, classes: Iterable[AssetClass]) -> AssetClass | None:
    """Returns the class whose minimum TTL a message violates, or None.

    Nobody can raise the TTL afterwards, since the message id commits to it.
    """
    found = class_of(message, classes)
    return found if found is not None and resolve_ttl(message.ttl, found.min_ttl) != message.ttl else None
