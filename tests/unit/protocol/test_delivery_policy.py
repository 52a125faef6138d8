"""How often and how long: the table of the OIP document, and the decision."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.protocol.delivery_policy import (
    DEFAULT_POLICIES,
    DeliveryPolicy,
    GiveUpReason,
    PolicyError,
    PolicyOverride,
    attestation_pause,
    next_try,
    policy_table,
)
from bridge.protocol.failures import FailureKind
from bridge.protocol.message import Kind
from bridge.service.settings import Settings
from tests.cases import for_each_case

TABLE = [
    (Kind.REGULATORY_ACTION_CRITICAL, None, 0.5, 5, False),
    (Kind.REGULATORY_ACTION, 10, 1, 30, True),
    (Kind.STATE_SYNC, 5, 2, 60, True),
    (Kind.LOCK_MANAGEMENT, 7, 1, 30, True),
    (Kind.QUERY, 3, 1, 10, False),
    (Kind.ACK, 3, 0.5, 5, False),
    (Kind.HEARTBEAT, 0, 0, 0, False),
    (Kind.GOVERNANCE_PROPOSAL, 5, 2, 30, True),
    (Kind.GOVERNANCE_VOTE, 3, 1, 10, True),
    (Kind.GOVERNANCE_EXECUTE, 7, 2, 60, True),
    (Kind.PLAIN, 10, 5, 600, True),
]

WINDOWS = {
    Kind.REGULATORY_ACTION: 300,
    Kind.STATE_SYNC: 300,
    Kind.LOCK_MANAGEMENT: 210,
    Kind.QUERY: 30,
    Kind.ACK: 15,
    Kind.HEARTBEAT: 0,
    Kind.GOVERNANCE_PROPOSAL: 150,
    Kind.GOVERNANCE_VOTE: 30,
    Kind.GOVERNANCE_EXECUTE: 420,
    Kind.REGULATORY_ACTION_CRITICAL: None,
}

policies = st.builds(
    lambda base, factor, retries: DeliveryPolicy(max_retries=retries, base=base, cap=base * factor, dead_letter=True),
    base=st.floats(0.01, 100),
    factor=st.floats(1, 1000),
    retries=st.one_of(st.none(), st.integers(0, 50)),
)


def delay(
    policy: DeliveryPolicy,
    attempt: int,
    *,
    kind: FailureKind = FailureKind.TRANSIENT,
    draw: float = 0.5,
) -> float | None:
    found = next_try(policy, attempt, kind, random=lambda: draw)
    return None if isinstance(found, GiveUpReason) else found


@for_each_case("kind, retries, base, cap, dead_letter", TABLE)
def test_each_kind_has_the_row_of_the_document(
    kind: Kind,
    retries: int | None,
    base: float,
    cap: float,
    dead_letter: bool,
) -> None:
    assert DEFAULT_POLICIES[kind] == DeliveryPolicy(retries, base, cap, dead_letter)
    assert Settings.load().delivery_policies()[kind] == DEFAULT_POLICIES[kind], "what a relayer takes"


@for_each_case("kind, seconds", WINDOWS.items())
def test_the_retry_window_is_retries_times_cap(kind: Kind, seconds: float | None) -> None:
    assert DEFAULT_POLICIES[kind].retry_window == seconds


def test_every_kind_of_message_has_a_policy() -> None:
    assert set(DEFAULT_POLICIES) == set(Kind)
    assert policy_table({}) == DEFAULT_POLICIES


@given(policy=policies, attempt=st.integers(1, 40), draw=st.floats(0, 1, exclude_max=True))
def test_wait_is_the_documents_formula_below_the_cap(policy: DeliveryPolicy, attempt: int, draw: float) -> None:
    unlimited = DeliveryPolicy(None, policy.base, policy.cap, dead_letter=False)
    nominal = min(policy.base * 2 ** (attempt - 1), policy.cap / 1.1)
    assert delay(unlimited, attempt, draw=draw) == pytest.approx(nominal * (1 + draw * 0.2 - 0.1))


def test_proof_is_asked_for_after_a_tenth_of_its_age() -> None:
    plain, critical = DEFAULT_POLICIES[Kind.PLAIN], DEFAULT_POLICIES[Kind.REGULATORY_ACTION_CRITICAL]
    assert [attestation_pause(plain, age) for age in (0, 10, 100, 1_000, 100_000)] == [1, 1, 10, 100, 600]
    assert [attestation_pause(critical, age) for age in (0, 30, 100_000)] == [1, 3, 5]


@given(policy=policies, attempt=st.integers(1, 2000), draw=st.floats(0, 1, exclude_max=True))
def test_no_wait_ever_exceeds_the_cap_or_is_negative(policy: DeliveryPolicy, attempt: int, draw: float) -> None:
    unlimited = DeliveryPolicy(None, policy.base, policy.cap, dead_letter=False)
    waited = delay(unlimited, attempt, draw=draw)
    assert waited is not None
    assert 0 < waited <= policy.cap


@for_each_case("kind", [kind for kind in Kind if DEFAULT_POLICIES[kind].max_retries is not None])
def test_the_number_of_tries_counts_the_first_one(kind: Kind) -> None:
    policy = DEFAULT_POLICIES[kind]
    assert policy.max_tries is not None
    tries = 1
    while delay(policy, tries) is not None:
        tries += 1
    assert tries == policy.max_tries == (policy.max_retries or 0) + 1
    assert next_try(policy, tries, FailureKind.TRANSIENT, random=lambda: 0.5) is GiveUpReason.MAX_RETRIES_EXCEEDED
    assert next_try(policy, 1, FailureKind.TERMINAL, random=lambda: 0.5) is GiveUpReason.PERMANENT_FAILURE


@given(attempt=st.integers(1, 10**6), failed=st.sampled_from(FailureKind))
def test_a_critical_action_is_tried_without_end(attempt: int, failed: FailureKind) -> None:
    assert delay(DEFAULT_POLICIES[Kind.REGULATORY_ACTION_CRITICAL], attempt, kind=failed) is not None


def test_permanent_failure_is_not_retried_and_unknown_is() -> None:
    policy = DEFAULT_POLICIES[Kind.PLAIN]
    assert delay(policy, 1, kind=FailureKind.TERMINAL) is None
    assert delay(policy, 1, kind=FailureKind.UNKNOWN) is not None
    assert delay(policy, 1, kind=FailureKind.INTERRUPTED) is not None
    assert delay(policy, 99, kind=FailureKind.UNANSWERED) == policy.cap / 1.1, "it costs no try"
    assert delay(DEFAULT_POLICIES[Kind.HEARTBEAT], 1, kind=FailureKind.UNANSWERED) == 1, "its row has no pause"


@for_each_case(
    "kind, override, complaint",
    [
        (Kind.PLAIN, PolicyOverride(base=3, cap=2), "cap is 2.0 s; it must be at least base"),
        (Kind.PLAIN, PolicyOverride(base=0), "without a pause"),
        (Kind.REGULATORY_ACTION_CRITICAL, PolicyOverride(max_retries=99), "retried without limit"),
        (Kind.REGULATORY_ACTION_CRITICAL, PolicyOverride(dead_letter=True), "must not become a dead letter"),
    ],
)
def test_inconsistent_table_is_refused_naming_the_row(kind: Kind, override: PolicyOverride, complaint: str) -> None:
    with pytest.raises(PolicyError, match=f"{kind.name}: .*{complaint}"):
        policy_table({kind: override})


def test_all_that_is_wrong_with_a_table_is_said_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        policy_table({Kind.QUERY: PolicyOverride(base=3, cap=2), Kind.ACK: PolicyOverride(base=0)})
    assert all(text in str(caught.value) for text in ("QUERY: cap is 2.0 s", "ACK: base is 0"))
