"""The retry policy of each kind of message, and the rule for whether a delivery is tried again.

The rows are the retry policy of the OIP fault tolerance document, in which every try after the first is a
retry. Its formula applies jitter before the cap, so that at the cap all senders wait equally long. Here the
wait is scaled so that there is jitter at the cap too, and no wait exceeds the cap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from bridge.protocol.backoff import backoff
from bridge.protocol.failures import FailureKind
from bridge.protocol.message import Kind

JITTER: Final = 0.1
"""Default jitter: the share by which a wait varies in both directions."""

_LEAST_SETBACK = 1.0  # seconds, for rows with a single try
_LONGEST_ATTESTATION_PAUSE = 600.0  # seconds


class GiveUpReason(StrEnum):
    """Reason for which a delivery is not tried again."""

    MAX_RETRIES_EXCEEDED = "MAX_RETRIES_EXCEEDED"
    PERMANENT_FAILURE = "PERMANENT_FAILURE"  # the error says that no further try could succeed
    MESSAGE_TTL_EXPIRED = "MESSAGE_TTL_EXPIRED"  # before the next try
    MESSAGE_ENDED = "MESSAGE_ENDED"  # executed or cancelled in a final block, while it was retried without limit


def kind_of(name: Any) -> Any:
    """Returns the message kind with the given name, in upper or lower case.

    Values that are not text are returned unchanged.

    Raises:
        ValueError: there is no such kind.
    """
    if not isinstance(name, str):
        return name
    if name.upper() not in Kind.__members__:
        raise ValueError(f"{name!r} is not a message kind; the kinds are {', '.join(Kind.__members__).lower()}")
    return Kind[name.upper()]


KindName = Annotated[Kind, BeforeValidator(kind_of, json_schema_input_type=str)]
"""A kind of message in a file of settings, by its name."""


class PolicyError(ValueError):
    """The policy table is inconsistent. The message lists every problem."""


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """One row of the table.

    Attributes:
        max_retries: number of tries after the first; None means unlimited.
        base: seconds before the second try. Each further try waits `multiplier` times as long as the previous one.
        cap: maximum wait in seconds.
        dead_letter: whether a message that runs out of tries waits for an operator's decision.
        jitter: fraction by which a wait may be longer or shorter, in [0, 1).
        multiplier: growth factor of the wait, at least 1.
    """

    max_retries: int | None
    base: float
    cap: float
    dead_letter: bool
    jitter: float = JITTER
    multiplier: float = 2.0

    @property
    def max_tries(self) -> int | None:
        """Returns the maximum number of tries, including the first; None means unlimited."""
        return None if self.max_retries is None else self.max_retries + 1

    @property
    def retry_window(self) -> float | None:
        """Returns the maximum total of all waits in seconds, which the document calls the retry window.

        None means unlimited.
        """
        return None if self.max_retries is None else self.max_retries * self.cap


_PLAIN = DeliveryPolicy(max_retries=10, base=5, cap=600, dead_letter=True)

DEFAULT_POLICIES: Final[Mapping[Kind, DeliveryPolicy]] = MappingProxyType(
    {
        Kind.PLAIN: _PLAIN,
        Kind.STATE_SYNC: DeliveryPolicy(max_retries=5, base=2, cap=60, dead_letter=True),
        Kind.REGULATORY_ACTION: DeliveryPolicy(max_retries=10, base=1, cap=30, dead_letter=True),
        Kind.REGULATORY_ACTION_CRITICAL: DeliveryPolicy(max_retries=None, base=0.5, cap=5, dead_letter=False),
        Kind.LOCK_MANAGEMENT: DeliveryPolicy(max_retries=7, base=1, cap=30, dead_letter=True),
        Kind.QUERY: DeliveryPolicy(max_retries=3, base=1, cap=10, dead_letter=False),
        Kind.ACK: DeliveryPolicy(max_retries=3, base=0.5, cap=5, dead_letter=False),
        Kind.HEARTBEAT: DeliveryPolicy(max_retries=0, base=0, cap=0, dead_letter=False),
        Kind.GOVERNANCE_PROPOSAL: DeliveryPolicy(max_retries=5, base=2, cap=30, dead_letter=True),
        Kind.GOVERNANCE_VOTE: DeliveryPolicy(max_retries=3, base=1, cap=10, dead_letter=True),
        Kind.GOVERNANCE_EXECUTE: DeliveryPolicy(max_retries=7, base=2, cap=60, dead_letter=True),
        # The document does not know these two: routers create them.
        Kind.CANCELLATION: _PLAIN,
        Kind.REPORT: _PLAIN,
    }
)


class PolicyOverride(BaseModel):
    """Overrides for one row of the policy table. Times are in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_retries: int | None = Field(default=None, ge=0, description="number of tries after the first")
    base: float | None = Field(default=None, ge=0, description="the first wait")
    multiplier: float | None = Field(
        default=None,
        ge=1,
        le=10,
        description="growth factor of the wait; 2 by default",
    )
    cap: float | None = Field(default=None, ge=0, description="maximum wait")
    jitter: float | None = Field(
        default=None, ge=0, lt=1, description="fraction by which a wait may be longer or shorter"
    )
    dead_letter: bool | None = Field(
        default=None, description="whether a delivery that used up its tries becomes a dead letter"
    )


def policy_table(overrides: Mapping[Kind, PolicyOverride]) -> Mapping[Kind, DeliveryPolicy]:
    """Returns the default table with an operator's overrides applied.

    Raises:
        PolicyError: a row contradicts itself or the document.
    """
    changed = {
        kind: replace(DEFAULT_POLICIES[kind], **override.model_dump(exclude_none=True))
        for kind, override in overrides.items()
    }
    problems = [f"{kind.name}: {problem}" for kind, policy in changed.items() for problem in _problems(kind, policy)]
    if problems:
        raise PolicyError("the delivery policies are invalid:\n" + "\n".join(f"  {problem}" for problem in problems))
    return MappingProxyType({**DEFAULT_POLICIES, **changed})


def _problems(kind: Kind, policy: DeliveryPolicy) -> Iterator[str]:
    if policy.cap < policy.base:
        yield f"cap is {policy.cap} s; it must be at least base ({policy.base} s)"
    if policy.max_retries != 0 and policy.base == 0:
        yield "base is 0 s; it must be greater than 0, or retries follow without a pause"
    if kind is Kind.REGULATORY_ACTION_CRITICAL and (policy.max_retries is not None or policy.dead_letter):
        yield (
            "must be retried without limit and must not become a dead letter "
            f"(max_retries={policy.max_retries}, dead_letter={policy.dead_letter})"
        )


def next_try(
    policy: DeliveryPolicy, tries: int, failure: FailureKind, *, random: Callable[[], float]
) -> float | GiveUpReason:
    """Returns the seconds until the next try, or the reason for giving up.

    Does not consider expiry, which the router checks.

    Args:
        policy: row for the message's kind.
        tries: number of failed tries, including the last, or number of consecutive setbacks if the failure does
            not count as a try.
        failure: kind of the last failure.
        random: returns a number in [0, 1).
    """
    wait = backoff(
        policy.base, tries - 1, cap=policy.cap, multiplier=policy.multiplier, jitter=policy.jitter, random=random
    )
    if not failure.costs_a_try:
        return max(wait, _LEAST_SETBACK)
    if policy.max_tries is None:
        return wait
    if failure is FailureKind.TERMINAL:
        return GiveUpReason.PERMANENT_FAILURE
    return GiveUpReason.MAX_RETRIES_EXCEEDED if tries >= policy.max_tries else wait


def attestation_pause(policy: DeliveryPolicy, age: float) -> float:
    """Returns the seconds until the relayer requests a pending attestation again. This does not count as a try.

    The pause is a tenth of the time since the dispatch, so it delays a delivery by at most a tenth, and a
    silent GMP gets few requests.

    Args:
        policy: row for the message's kind.
        age: seconds since the dispatch was observed.
    """
    longest = _LONGEST_ATTESTATION_PAUSE if policy.max_retries is not None else policy.cap
    return min(max(age / 10, _LEAST_SETBACK), longest)


def becomes_dead_letter(policy: DeliveryPolicy, reason: GiveUpReason) -> bool:
    """Whether a dead delivery becomes a letter that waits for an operator's decision.

    A delivery of an expired or ended message does not, because the destination reports the outcome to the sender.
    """
    return policy.dead_letter and reason not in (GiveUpReason.MESSAGE_TTL_EXPIRED, GiveUpReason.MESSAGE_ENDED)
