"""Settings that depend on each other, and what senders chose for their messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pydantic import Field, field_validator

from bridge.policies import Reliability, RetryPolicy
from bridge.policies.guarantee import HIGH_FREQUENCY_TRADING_TTL, RECOMMENDED_TTL, REGULATED_ASSET_TTL, RetryChoice
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.message import Kind
from bridge.recovery import PropagationSettings
from bridge.settings.sections import Addresses, Section


class GuaranteeTable(Section):
    """What the messages of one sender, or one message, are promised instead of their kind's row; times in seconds."""

    max_retries: int | None = Field(default=None, ge=0, description="tries after the first")
    base: float | None = Field(default=None, gt=0, description="the first wait; each one after it is twice as long")
    cap: float | None = Field(default=None, gt=0, description="the longest wait")
    dead_letter: bool | None = Field(default=None, description="whether running out of tries leaves a dead letter")

    def choice(self) -> RetryChoice:
        """What the relay needs of these."""
        return RetryChoice(**self.model_dump())


class AssetClassTable(Section):
    """How long messages about a class of assets live at least, and whose messages those are."""

    min_ttl: int | None = Field(
        default=None,
        gt=0,
        description="the least TTL; `high-frequency` and `regulatory` have the document's, 5 and 600",
    )
    members: dict[str, Addresses] = Field(description="contracts that send or receive them, by name of the chain")

    def least(self, name: str) -> int:
        """The minimum, or the document's for that name.

        Raises:
            ValueError: there is neither.
        """
        minimum = self.min_ttl or _DOCUMENTED.get(name)
        if minimum is None:
            known = ", ".join(_DOCUMENTED)
            raise ValueError(f"asset class {name!r} needs min_ttl, in seconds; only {known} have one by default")
        return minimum


_DOCUMENTED: Final = {"high-frequency": HIGH_FREQUENCY_TRADING_TTL, "regulatory": REGULATED_ASSET_TTL}


class PhaseTable(Section):
    """How long each phase of a delivery may take; times in seconds. They never touch a message's TTL."""

    attest: float = Field(default=120.0, gt=0, description="until the GMP's proof is there")
    deliver: float = Field(default=900.0, gt=0, description="until the delivery is in a block")


class PropagationTable(Section):
    """How state changes are followed to their application; times in seconds."""

    heartbeat: float = Field(default=5.0, gt=0, description="between two heartbeats of a lane")
    threshold: float = Field(default=300.0, gt=0, description="lag above which a state change is sent again")
    pause: float = Field(default=60.0, gt=0, description="between two re-propagations")
    most: int = Field(default=5, gt=0, description="re-propagations in vain, after which the destination has DIVERGED")
    longest_pause: float = Field(default=900.0, gt=0, description="each pause after that is twice as long, up to this")
    keep_days: float = Field(default=30.0, gt=0, description="days until resolved records go into the archive")

    def settings(self, poll: float, lock_ttl: float) -> PropagationSettings:
        """What propagation needs of these."""
        return PropagationSettings(
            poll=poll,
            heartbeat=self.heartbeat,
            threshold=self.threshold,
            pause=self.pause,
            most=self.most,
            longest_pause=self.longest_pause,
            lock_ttl=lock_ttl,
            keep=self.keep_days * 86_400,
        )


class ReliabilityTable(Section):
    """Times are in seconds. The dedup window is the setting `retention`: what is forgotten is not known any more."""

    max_clock_skew: float = Field(default=5.0, ge=0, description="by which clocks may differ")
    lock_ttl: float = Field(default=1_020.0, gt=0, description="until a lock on a state change ends by itself")
    source_finality: float = Field(default=12.0, ge=0, description="until a source's block is final")
    gmp_time: float = Field(default=10.0, ge=0, description="that a GMP usually takes after that")
    dedup_capacity: int = Field(default=5_000_000, gt=0, description="messages that the store knows at once")
    messages_per_second: float = Field(default=1.0, gt=0, description="that this relayer is expected to see")
    ttls: dict[str, int] = Field(default={}, description="changes to the recommended TTLs, by kind")

    def values(self, policies: Mapping[Kind, RetryPolicy], dedup_window: float) -> Reliability:
        """All values that are checked together."""
        return Reliability(
            policies=policies,
            ttls={**RECOMMENDED_TTL, **{Kind[name.upper()]: ttl for name, ttl in self.ttls.items()}},
            dedup_window=dedup_window,
            dedup_capacity=self.dedup_capacity,
            messages_per_second=self.messages_per_second,
            max_clock_skew=self.max_clock_skew,
            lock_ttl=self.lock_ttl,
            source_finality=self.source_finality,
            gmp_time=self.gmp_time,
        )

    @field_validator("ttls")
    @classmethod
    def _names_kinds(cls, ttls: dict[str, int]) -> dict[str, int]:
        unknown = [repr(name) for name in ttls if name.upper() not in Kind.__members__]
        negative = [f"the TTL of {name} is {ttl} s" for name, ttl in ttls.items() if ttl < 0]
        problems = [f"{', '.join(negative)}, and can't be negative; 0 is for ever"] if negative else []
        if unknown:
            known = ", ".join(Kind.__members__).lower()
            problems.append(f"{', '.join(unknown)} is no kind of message; the kinds are {known}")
        if problems:
            raise ValueError("; ".join(problems))
        return ttls


def choices(guarantees: Mapping[str, GuaranteeTable]) -> Mapping[bytes, RetryChoice]:
    """What was chosen, by message id or sender (32 bytes)."""
    return {key_of(name): table.choice() for name, table in guarantees.items()}


def unnamed(guarantees: Iterable[str]) -> Iterator[str]:
    """What is wrong with names that are neither message ids nor addresses."""
    for name in guarantees:
        try:
            key_of(name)
        except ValueError as error:
            yield str(error)


def key_of(name: str) -> bytes:
    """The 32 bytes of a message id, or of a sender's address.

    Raises:
        ValueError: neither.
    """
    digits = name.removeprefix("0x")
    if len(digits) == 64:
        return bytes.fromhex(digits)
    return to_bytes32(name)
