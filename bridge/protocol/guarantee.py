"""What a message is promised: tries, a dead letter, phases, and the TTL that its kind or its class of assets demands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from bridge.protocol.delivery_policy import DeliveryPolicy
from bridge.protocol.message import Kind, Message

_MILLISECONDS = 1000


class Semantics(StrEnum):
    """How often a message is delivered. What is executed is executed once by the destination's router, in any case."""

    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class IdempotencyStrategy(StrEnum):
    """What keeps a message that comes twice from being applied twice; beyond the id they are the recipient's guards."""

    MESSAGE_ID = "MESSAGE_ID"
    MESSAGE_ID_PLUS_STATE_HASH = "MESSAGE_ID_PLUS_STATE_HASH"  # `StateHashGuard`
    MESSAGE_ID_PLUS_NONCE = "MESSAGE_ID_PLUS_NONCE"  # `OrderedGuard`


class Atomicity(StrEnum):
    """Whether a message has phases with timeouts of their own.

    A phase that takes too long ends in DELIVERY_TIMEOUT and is tried again within the message's tries. What the dApps of a
    transaction over several chains then undo or complete is theirs: GUARANTEED and ALL_OR_NOTHING do not differ in here.
    """

    BEST_EFFORT = "BEST_EFFORT"  # no: only its TTL counts
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
"""Seconds that senders are recommended to let a message live; 0 is for ever."""

LEAST_TTL: Final = 60
"""Seconds below which a router refuses a TTL that is not 0: nothing arrives sooner."""


def default_ttl(kind: Kind) -> int:
    """Seconds that clients let a message live whose sender names no TTL: for ever where its kind may, else what is recommended."""
    recommended = RECOMMENDED_TTL[kind]
    return 0 if kind is Kind.PLAIN or recommended == 0 else max(recommended, LEAST_TTL)


HIGH_FREQUENCY_TRADING_TTL: Final = 5
"""Least seconds for messages about assets that are traded at high frequency."""

REGULATED_ASSET_TTL: Final = 600
"""Least seconds for messages about assets under a regulatory action, which may not expire in the middle of it."""

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
    """What a sender chose for its messages; None leaves the kind's row as it is. Times in seconds."""

    max_retries: int | None = None
    base: float | None = None
    cap: float | None = None
    dead_letter: bool | None = None
    idempotency: IdempotencyStrategy | None = None  # what the sender relies on; None is what its kind asks for

    def applied_to(self, policy: DeliveryPolicy) -> DeliveryPolicy:
        """The row with the choice."""
        chosen = {name: getattr(self, name) for name in ("max_retries", "base", "cap", "dead_letter")}
        return replace(policy, **{name: value for name, value in chosen.items() if value is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryGuarantee:
    """The document's fields, in its units."""

    semantics: Semantics
    ttl_seconds: int  # 0 is for ever
    idempotency_strategy: IdempotencyStrategy
    require_attestation_check: bool
    max_retries: int | None  # None is without end
    base_backoff_ms: float
    max_backoff_ms: float
    dlq_enabled: bool
    jitter: float  # share of a wait; beyond the document's fields
    multiplier: float  # of each wait; beyond the document's fields
    atomicity: Atomicity

    def value(self) -> dict[str, Any]:
        """The document's fields by the document's names, for JSON."""
        return {
            "semantics": self.semantics.value,
            "ttlSeconds": self.ttl_seconds,
            "idempotencyStrategy": self.idempotency_strategy.value,
            "requireAttestationCheck": self.require_attestation_check,
            "maxRetries": self.max_retries,
            "baseBackoffMs": round(self.base_backoff_ms),
            "maxBackoffMs": round(self.max_backoff_ms),
            "dlqEnabled": self.dlq_enabled,
            "atomicity": self.atomicity.value,
        }

    @property
    def policy(self) -> DeliveryPolicy:
        """The tries that keep it."""
        return DeliveryPolicy(
            max_retries=self.max_retries,
            base=self.base_backoff_ms / _MILLISECONDS,
            cap=self.max_backoff_ms / _MILLISECONDS,
            dead_letter=self.dlq_enabled,
            jitter=self.jitter,
            multiplier=self.multiplier,
        )


def resolve_ttl(sender_ttl: int, asset_minimum: int | None) -> int:
    """Seconds that a message lives: what its sender asked for, or the least that its asset's class demands; 0 is for ever."""
    if asset_minimum is None or sender_ttl == 0:
        return sender_ttl
    return max(sender_ttl, asset_minimum)


def guarantee_of(
    message: Message,
    policies: Mapping[Kind, DeliveryPolicy],
    chosen: Mapping[bytes, SenderChoice] | None = None,
    *,
    atomicity: Mapping[Kind, Atomicity] = DEFAULT_ATOMICITY,
    attested_origin: bool = False,
    guards: Collection[IdempotencyStrategy] = (),
) -> DeliveryGuarantee:
    """What one message is promised.

    Args:
        message: which one.
        policies: the table by kind.
        chosen: what senders chose instead, by message id or by sender (32 bytes); the id goes first. A critical regulatory
            action is tried without end and never a dead letter, whatever anybody chose.
        atomicity: the level of each kind.
        attested_origin: whether the message comes from a chain whose transactions are attested (Canton's, for example).
        guards: those that the recipient is known to have; the router checks the id for every recipient.
    """
    policy, choice = policies[message.kind], None
    if message.kind is not Kind.REGULATORY_ACTION_CRITICAL and chosen:
        choice = chosen.get(message.id) or chosen.get(message.sender)
        policy = choice.applied_to(policy) if choice else policy
    return DeliveryGuarantee(
        semantics=Semantics.AT_LEAST_ONCE,
        ttl_seconds=message.ttl,
        idempotency_strategy=_strategy(message.kind, guards, choice.idempotency if choice else None),
        require_attestation_check=attested_origin,
        max_retries=policy.max_retries,
        base_backoff_ms=policy.base * _MILLISECONDS,
        max_backoff_ms=policy.cap * _MILLISECONDS,
        dlq_enabled=policy.dead_letter,
        jitter=policy.jitter,
        multiplier=policy.multiplier,
        atomicity=atomicity[message.kind],
    )


def _strategy(
    kind: Kind, guards: Collection[IdempotencyStrategy], chosen: IdempotencyStrategy | None
) -> IdempotencyStrategy:
    """What its sender or its kind asks of the recipient, if the recipient has it."""
    by_kind = IdempotencyStrategy.MESSAGE_ID
    if kind in _STATE_HASHED:
        by_kind = IdempotencyStrategy.MESSAGE_ID_PLUS_STATE_HASH
    elif kind is Kind.LOCK_MANAGEMENT:
        by_kind = IdempotencyStrategy.MESSAGE_ID_PLUS_NONCE
    asked = chosen or by_kind
    return asked if asked in guards else IdempotencyStrategy.MESSAGE_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetClass:
    """One class."""

    name: str
    min_ttl: int  # seconds
    members: frozenset[tuple[int, bytes]]  # contracts by chain and address (32 bytes): as sender or as recipient

    def holds(self, sender: tuple[int, bytes], recipient: tuple[int, bytes]) -> bool:
        """Whether messages from one to the other are about its assets."""
        return sender in self.members or recipient in self.members


def strictest(
    classes: Iterable[AssetClass], sender: tuple[int, bytes], recipient: tuple[int, bytes]
) -> AssetClass | None:
    """The class with the longest minimum among those that hold for a message; None if none does."""
    holding = [one for one in classes if one.holds(sender, recipient)]
    return max(holding, key=lambda one: one.min_ttl, default=None)


def class_of(message: Message, classes: Iterable[AssetClass]) -> AssetClass | None:
    """See `strictest`."""
    return strictest(classes, (message.source_chain, message.sender), (message.destination_chain, message.recipient))


def ttl_violation(message: Message, classes: Iterable[AssetClass]) -> AssetClass | None:
    """The class whose minimum a message was routed below; it can't be raised any more, since the id binds it."""
    found = class_of(message, classes)
    return found if found is not None and resolve_ttl(message.ttl, found.min_ttl) != message.ttl else None
