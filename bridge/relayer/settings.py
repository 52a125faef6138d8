"""Settings for observing and delivering: GMPs, concurrency, ordering and timeouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import ClassVar, Final

from pydantic import Field, field_validator

from bridge.protocol.addresses import to_bytes32
from bridge.protocol.delivery_policy import (
    DeliveryPolicy,
    KindName,
    PolicyError,
    PolicyOverride,
    policy_table,
)
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.guarantee import (
    DEFAULT_ATOMICITY,
    HIGH_FREQUENCY_TRADING_TTL,
    REGULATED_ASSET_TTL,
    AssetClass,
    Atomicity,
    ChoiceBounds,
    OperatorPolicies,
)
from bridge.protocol.invariants import Reliability, require_reliable
from bridge.protocol.message import Kind
from bridge.records.relay_policy import RelayPolicy
from bridge.relayer.delivery_commits import CommitSettings, CommitStrategy
from bridge.settings import Addresses, Check, Gmps, Names, Section

_DOCUMENTED: Final = {"high-frequency": HIGH_FREQUENCY_TRADING_TTL, "regulatory": REGULATED_ASSET_TTL}


class Ordering(StrEnum):
    """Determines how a failing delivery affects later deliveries on the same lane and GMP (the same `ordering_key`)."""

    SKIP = "skip"  # they overtake it
    BLOCK = "block"  # they wait until it is DELIVERED or DEAD, one at a time


class AssetClassSettings(Section):
    """Minimum TTL for messages about a class of assets, and the accounts that send and receive such messages."""

    min_ttl: int | None = Field(
        default=None,
        gt=0,
        description="minimum TTL; the default of `high-frequency` is 5, of `regulatory` 600",
    )
    members: dict[str, Addresses] = Field(description="contracts that send or receive such messages, by chain name")

    def least(self, name: str) -> int:
        """Returns the minimum TTL in seconds: the configured value, or the OIP document's value for this class.

        Raises:
            ValueError: There is neither.
        """
        minimum = self.min_ttl or _DOCUMENTED.get(name)
        if minimum is None:
            known = ", ".join(_DOCUMENTED)
            raise ValueError(f"asset class {name!r} needs min_ttl, in seconds; only {known} have a default")
        return minimum


class PhaseSettings(Section):
    """Timeouts of a delivery's phases, in seconds. They do not affect a message's TTL."""

    attest: float = Field(default=120.0, gt=0, description="timeout of the GMP's attestation")
    deliver: float = Field(default=900.0, gt=0, description="timeout until a block includes the delivery")


class RelaySettings(CommitSettings):
    """Settings for observing and delivering messages. Times are in seconds."""

    gmps: Gmps = Field(default=frozenset(Gmp), description="GMPs to deliver over")
    paused_gmps: Gmps = Field(default=frozenset(), description="GMPs over which nothing is delivered for now")
    allow_chains: Names = Field(default=frozenset(), description="chains to relay between; by default all")
    deny_chains: Names = Field(default=frozenset(), description="chains whose messages wait")
    allow_senders: Addresses = Field(default=frozenset(), description="senders to relay for; by default all")
    deny_senders: Addresses = Field(default=frozenset(), description="senders whose messages wait")

    poll_interval: float = Field(
        default=1.0,
        gt=0,
        description="interval between polls of a chain; on a chain with slower blocks the block time, up to 15 s",
    )
    lease: float = Field(
        default=15.0, gt=0, description="time after which other relayers take over a dead relayer's entries"
    )
    in_flight: int = Field(
        default=64,
        gt=0,
        description="concurrent deliveries per destination; idle queues and live traffic may add some",
    )
    ordering: Ordering = Field(
        default=Ordering.SKIP,
        description="whether a failing delivery blocks later ones on its lane and GMP: skip, block",
    )
    retention: float = Field(
        default=30 * 86_400.0,
        gt=0,
        description="time until final deliveries, their transactions and payloads are deleted",
    )

    policies: dict[KindName, PolicyOverride] = Field(
        default={}, description="overrides of max_retries, base, cap, jitter and dead_letter, by kind"
    )
    sender_choices: ChoiceBounds = Field(
        default=ChoiceBounds(), description="limits on what senders may choose on chain, see below"
    )
    asset_classes: dict[str, AssetClassSettings] = Field(
        default={},
        description="minimum TTL (min_ttl) of messages from or to contracts (members, by chain), by name of the class",
    )
    atomicity: dict[KindName, Atomicity] = Field(
        default={},
        description="overrides by kind; BEST_EFFORT has no phase timeouts, GUARANTEED and ALL_OR_NOTHING do",
    )
    phase_timeouts: PhaseSettings = Field(default=PhaseSettings(), description="timeouts of a delivery's phases")
    reliability: Reliability = Field(
        default=Reliability(), description="values that must be consistent with each other"
    )

    BLOCK_RANGE: ClassVar[int] = 5_000  # blocks per request when catching up; halved for an endpoint that refuses it

    @field_validator("policies")
    @classmethod
    def _is_a_table(cls, policies: dict[Kind, PolicyOverride]) -> dict[Kind, PolicyOverride]:
        policy_table(policies)
        return policies

    @field_validator("asset_classes")
    @classmethod
    def _has_minimum(cls, asset_classes: dict[str, AssetClassSettings]) -> dict[str, AssetClassSettings]:
        for name, asset_class in asset_classes.items():
            asset_class.least(name)
        return asset_classes

    @property
    def claimable(self) -> frozenset[Gmp]:
        """Returns the GMPs whose entries are delivered."""
        return self.gmps - self.paused_gmps

    def delivery_policies(self) -> Mapping[Kind, DeliveryPolicy]:
        """Returns the policy table with the operator's overrides applied."""
        return policy_table(self.policies)

    def operator_policies(self) -> OperatorPolicies:
        """Returns the operator's part of the message policies."""
        atomicity = {**DEFAULT_ATOMICITY, **self.atomicity}
        return OperatorPolicies(rows=self.delivery_policies(), atomicity=atomicity, bounds=self.sender_choices)

    def classes(self, deployment: Deployment) -> tuple[AssetClass, ...]:
        """Returns the asset classes on a network, omitting members on chains that the network does not have."""
        ids = {chain.name: chain.chain_id for chain in deployment.chains}
        return tuple(
            AssetClass(
                name=name,
                min_ttl=asset_class.least(name),
                members=frozenset(
                    (ids[chain], to_bytes32(address))
                    for chain, addresses in asset_class.members.items()
                    if chain in ids
                    for address in addresses
                ),
            )
            for name, asset_class in self.asset_classes.items()
        )

    def phase_timeouts_of(self, kind: Kind) -> Mapping[str, float]:
        """Returns the timeout in seconds of each phase of a message's delivery. BEST_EFFORT has no phases."""
        atomicity = self.atomicity.get(kind, DEFAULT_ATOMICITY[kind])
        return self.phase_timeouts.model_dump() if atomicity.has_phases else {}

    def accepts_chain(self, name: str) -> bool:
        """Whether messages from and to a chain are delivered."""
        return (not self.allow_chains or name in self.allow_chains) and name not in self.deny_chains

    def acceptance(self, deployment: Deployment) -> RelayPolicy:
        """Returns the filter for messages that are delivered."""
        return RelayPolicy(
            withheld_sources=frozenset(
                chain.chain_id for chain in deployment.chains if not self.accepts_chain(chain.name)
            ),
            senders=frozenset(map(to_bytes32, self.allow_senders)) or None,
            withheld_senders=frozenset(map(to_bytes32, self.deny_senders)),
        )


def _chains(settings: RelaySettings) -> Iterator[str]:
    if both := settings.allow_chains & settings.deny_chains:
        yield f"chains: {', '.join(sorted(both))} is allowed and denied"


def _senders(settings: RelaySettings) -> Iterator[str]:
    if both := settings.allow_senders & settings.deny_senders:
        yield f"senders: {', '.join(sorted(both))} is allowed and denied"


def _lease(settings: RelaySettings) -> Iterator[str]:
    if settings.lease < 2 * settings.poll_interval:
        yield f"lease is {settings.lease:g} s, less than two polls of {settings.poll_interval:g} s: raise it"


def _commit(settings: RelaySettings) -> Iterator[str]:
    if settings.commit is CommitStrategy.AUTO and not settings.unsafe:
        yield "commit is 'auto', which may lose and repeat messages: add unsafe = true if that is intended"


def _reliability(settings: RelaySettings) -> Iterator[str]:
    try:
        require_reliable(settings.reliability, settings.delivery_policies(), settings.retention)
    except PolicyError as error:
        yield str(error)


RELAY_CHECKS: Final[tuple[Check, ...]] = (
    (frozenset({"allow_chains", "deny_chains"}), _chains),
    (frozenset({"allow_senders", "deny_senders"}), _senders),
    (frozenset({"lease", "poll_interval"}), _lease),
    (frozenset({"commit", "unsafe"}), _commit),
    (frozenset({"reliability", "policies", "retention"}), _reliability),
)
"""Constraints between these settings."""
