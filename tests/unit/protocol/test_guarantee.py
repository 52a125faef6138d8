"""What one message is promised, what must hold between settings, and the second timer."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from bridge.protocol.addresses import to_bytes32
from bridge.protocol.delivery_policy import DEFAULT_POLICIES, PolicyError
from bridge.protocol.deployment import Deployment
from bridge.protocol.guarantee import (
    HIGH_FREQUENCY_TRADING_TTL,
    RECOMMENDED_TTL,
    REGULATED_ASSET_TTL,
    Atomicity,
    IdempotencyStrategy,
    OperatorPolicies,
    SenderChoice,
    class_of,
    policy_of,
    resolve_ttl,
    ttl_violation,
)
from bridge.protocol.invariants import LOCKING, Reliability, require_reliable
from bridge.protocol.message import Kind
from bridge.protocol.ports import Call, Dispatch
from bridge.relayer.settings import AssetClassSettings, RelaySettings
from bridge.service.settings import Settings
from bridge.settings import SettingsError
from tests.builders import ALPHA, BETA, message
from tests.cases import for_each_case
from tests.support.simulation import DAPP, SimulatedRelayer, World
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.contracts import GMPS
from tests.support.stores import memory_store
from tests.unit.dead_letters.test_review import deployed
from tests.virtual_time import in_virtual_time, running, until

OPERATOR = OperatorPolicies()
CHOICE = SenderChoice(max_retries=3, base=1, cap=60, dead_letter=True, idempotency=IdempotencyStrategy.MESSAGE_ID)


def test_a_guarantee_has_every_field_of_the_document() -> None:
    guards = {IdempotencyStrategy.MESSAGE_ID_PLUS_STATE_HASH}
    sent = message(kind=Kind.STATE_SYNC, ttl=450)  # not its kind's
    found = policy_of(sent, OPERATOR, guards=guards)
    assert found.delivery == DEFAULT_POLICIES[Kind.STATE_SYNC]
    assert found.value() == {
        "semantics": "AT_LEAST_ONCE",
        "ttlSeconds": 450,
        "idempotencyStrategy": "MESSAGE_ID_PLUS_STATE_HASH",
        "requireAttestationCheck": False,
        "maxRetries": 5,
        "baseBackoffMs": 2_000,
        "maxBackoffMs": 60_000,
        "dlqEnabled": True,
        "atomicity": "GUARANTEED",
    }


@for_each_case(
    "kind, strategy",
    [
        (Kind.PLAIN, IdempotencyStrategy.MESSAGE_ID),
        (Kind.STATE_SYNC, IdempotencyStrategy.MESSAGE_ID_PLUS_STATE_HASH),
        (Kind.REGULATORY_ACTION, IdempotencyStrategy.MESSAGE_ID_PLUS_STATE_HASH),
        (Kind.REGULATORY_ACTION_CRITICAL, IdempotencyStrategy.MESSAGE_ID_PLUS_STATE_HASH),
        (Kind.LOCK_MANAGEMENT, IdempotencyStrategy.MESSAGE_ID_PLUS_NONCE),
    ],
)
def test_idempotency_strategy_follows_kind_and_guard(kind: Kind, strategy: IdempotencyStrategy) -> None:
    sent, every = message(kind=kind), frozenset(IdempotencyStrategy)
    assert policy_of(sent, OPERATOR, guards=every).idempotency_strategy is strategy
    bare = policy_of(sent, OPERATOR, guards=every - {strategy}).idempotency_strategy
    assert bare is IdempotencyStrategy.MESSAGE_ID


@pytest.mark.parametrize("chosen", IdempotencyStrategy)
def test_a_sender_chooses_on_which_guard_it_relies(chosen: IdempotencyStrategy) -> None:
    sent, choice = message(kind=Kind.LOCK_MANAGEMENT), replace(CHOICE, idempotency=chosen)
    every = frozenset(IdempotencyStrategy)
    assert policy_of(sent, OPERATOR, choice, guards=every).idempotency_strategy is chosen


@given(sender=st.integers(1, 10**6))
def test_the_ttl_is_the_larger_of_the_senders_and_the_assets(sender: int) -> None:
    assert resolve_ttl(sender, None) == sender
    for minimum in (HIGH_FREQUENCY_TRADING_TTL, REGULATED_ASSET_TTL):
        assert resolve_ttl(sender, minimum) == max(sender, minimum)
    assert (HIGH_FREQUENCY_TRADING_TTL, REGULATED_ASSET_TTL) == (5, 600)
    assert resolve_ttl(0, 600) == 0, "for ever is longer than any minimum"


def test_the_recommended_ttls_are_those_of_the_document() -> None:
    found = {kind.name: ttl for kind, ttl in RECOMMENDED_TTL.items()}
    assert found == {
        "PLAIN": 604_800,
        "STATE_SYNC": 300,
        "REGULATORY_ACTION": 600,
        "REGULATORY_ACTION_CRITICAL": 0,
        "LOCK_MANAGEMENT": 120,
        "QUERY": 30,
        "ACK": 60,
        "HEARTBEAT": 15,
        "GOVERNANCE_PROPOSAL": 600,
        "GOVERNANCE_VOTE": 300,
        "GOVERNANCE_EXECUTE": 600,
        "CANCELLATION": 0,
        "REPORT": 0,
    }


def test_critical_action_can_not_be_limited() -> None:
    sent = message(kind=Kind.REGULATORY_ACTION_CRITICAL)
    chosen = policy_of(sent, OPERATOR, replace(CHOICE, max_retries=1, dead_letter=True)).delivery
    assert (chosen.max_retries, chosen.dead_letter) == (None, False)


def test_the_defaults_hold_together() -> None:
    require_reliable(Reliability())
    Settings.load()


def test_short_dedup_window_is_refused_naming_both() -> None:
    ttls: dict[Kind, int] = {kind: min(ttl, 600) for kind, ttl in RECOMMENDED_TTL.items()} | {Kind.PLAIN: 0}
    for window in (610, 700):
        require_reliable(Reliability(ttls=ttls), dedup_window=window)
    with pytest.raises(
        PolicyError, match=r"dedup window is 609 s; it must be at least 610 s: TTL of \w+ 600 s \+ 2 × clock skew 5 s"
    ):
        require_reliable(Reliability(ttls=ttls), dedup_window=609)


@pytest.mark.parametrize(("changed", "least"), [({}, 610), ({"max_clock_skew": 50}, 700)])
def test_required_window_counts_ttls_and_clock_skew(changed: dict[str, Any], least: int) -> None:
    ttls = {kind.name.lower(): min(ttl, 600) for kind, ttl in RECOMMENDED_TTL.items()} | {"plain": 0}
    reliability = {"ttls": ttls, **changed}
    Settings.load(retention=least, reliability=reliability)
    with pytest.raises(SettingsError, match=f"dedup window is {least - 1} s; it must be at least {least} s"):
        Settings.load(retention=least - 1, reliability=reliability)
    with pytest.raises(SettingsError, match=f"dedup window is {least} s; it must be at least {least + 100} s"):
        Settings.load(retention=least, reliability={**reliability, "ttls": {**ttls, "governance_execute": 700}})


def test_small_capacity_is_refused_naming_both() -> None:
    require_reliable(Reliability(dedup_capacity=2_592_000, messages_per_second=1))
    with pytest.raises(
        PolicyError,
        match=r"dedup capacity is 100000 messages; it must be at least 2592000: 1 messages/s × dedup window",
    ):
        require_reliable(Reliability(dedup_capacity=100_000, messages_per_second=1))
    with pytest.raises(SettingsError, match=r"must be at least 5184000: 2 messages/s × dedup window 2\.592e\+06 s"):
        Settings.load(reliability={"messages_per_second": 2})


def test_capacity_defaults_to_what_the_window_needs() -> None:
    """The document's 100,000 would be refused: 30 days at a message a second are more (X-3)."""
    assert Settings.load().reliability.dedup_capacity == 5_000_000
    assert Settings.load(reliability={"dedup_capacity": 3_000_000}).reliability.dedup_capacity == 3_000_000


def test_short_lock_is_refused_naming_both() -> None:
    require_reliable(Reliability(lock_ttl=1_020))
    with pytest.raises(
        PolicyError, match=r"lock TTL is 1019 s.*1020 s: TTL of GOVERNANCE_EXECUTE 600 s \+ retry window 420 s"
    ):
        require_reliable(Reliability(lock_ttl=1_019))
    unbounded = {**DEFAULT_POLICIES, Kind.STATE_SYNC: replace(DEFAULT_POLICIES[Kind.STATE_SYNC], max_retries=None)}
    with pytest.raises(PolicyError, match="retried without limit, but a lock"):
        require_reliable(Reliability(), unbounded)
    with pytest.raises(SettingsError, match=r"at least 1080 s: TTL of GOVERNANCE_EXECUTE 600 s \+ retry window 480 s"):
        Settings.load(policies={"governance_execute": {"max_retries": 8}})
    assert Kind.REGULATORY_ACTION_CRITICAL not in LOCKING


def test_lock_covers_every_kind_that_takes_one() -> None:
    windows = {kind: DEFAULT_POLICIES[kind].retry_window for kind in LOCKING}
    assert windows[Kind.REGULATORY_ACTION] == windows[Kind.STATE_SYNC] == 300
    assert windows[Kind.GOVERNANCE_EXECUTE] == 420
    with pytest.raises(PolicyError) as refused:
        require_reliable(Reliability(lock_ttl=300))
    named = {kind for kind in Kind if re.search(rf"TTL of {kind.name} \d+ s \+ retry window", str(refused.value))}
    assert named == LOCKING, "what takes 300 s is no less of a bound for being the third"


def test_all_contradictions_are_reported_before_the_start() -> None:
    with pytest.raises(SettingsError) as refused:
        Settings.load(retention=700, reliability={"lock_ttl": 10})
    text = str(refused.value)
    for words in ("dedup window is 700 s", "lock TTL is 10 s"):
        assert re.search(re.escape(words), text), text


def test_a_ttl_of_no_kind_is_refused() -> None:
    with pytest.raises(SettingsError, match="not a message kind"):
        Settings.load(reliability={"ttls": {"gossip": 5}})


class Hanging(SimulatedAdapter):
    """Never gives its proof, nor says so."""

    async def attest(self, dispatch: Dispatch) -> bytes:
        await asyncio.sleep(10**6)
        raise AssertionError


class Undelivered(SimulatedAdapter):
    """Has its proof, and never says what to send with it."""

    async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        await asyncio.sleep(10**6)
        raise AssertionError


@for_each_case("phase, adapter", [("attest", Hanging), ("deliver", Undelivered)])
@for_each_case(
    "kind, changed, codes",
    [
        (Kind.STATE_SYNC, None, {"DELIVERY_TIMEOUT"}),
        (Kind.STATE_SYNC, Atomicity.BEST_EFFORT, set()),
        (Kind.QUERY, None, set()),
        (Kind.ACK, None, set()),
        (Kind.HEARTBEAT, None, set()),
        (Kind.QUERY, Atomicity.GUARANTEED, {"DELIVERY_TIMEOUT"}),
        (Kind.QUERY, Atomicity.ALL_OR_NOTHING, {"DELIVERY_TIMEOUT"}),
    ],
)
@in_virtual_time
async def test_hanging_phase_times_out_except_for_best_effort(
    kind: Kind, changed: Atomicity | None, codes: set[str], phase: str, adapter: type[SimulatedAdapter]
) -> None:
    world, store = World(), memory_store()
    world.start()
    settings = Settings.load(
        phase_timeouts={"attest": 60.0, "deliver": 60.0} | {phase: 7.0},
        atomicity={kind.name.lower(): changed} if changed else {},
    )
    bridge = SimulatedRelayer(world, store, relaying=settings)
    for deliveries in bridge.relayer.deliveries.values():
        deliveries._adapters = {gmp: adapter(gmp, world.chains) for gmp in GMPS}
    async with running(bridge):
        with capture_logs() as logs:
            sent = world.send(ALPHA, BETA, kind=kind)
            await asyncio.sleep(40)
        (entry,) = store.outbox.entries(sent.message.id)
        history = store.outbox.failures(entry.event_id)
    assert {one.failure.code for one in history} == codes
    assert {one["code"] for one in logs if one["event"] in ("delivery failed", "delivery dead")} == codes, (
        "and is logged"
    )
    assert (len(history) > 1) is bool(codes), "and is tried again"
    assert all(f"phase {phase} timed out after 7 s" in one.failure.message for one in history)
    found = policy_of(sent.message, settings.operator_policies()).atomicity
    assert found is (changed or (Atomicity.GUARANTEED if codes else Atomicity.BEST_EFFORT))
    await world.stop()


def test_unknown_level_of_atomicity_is_refused() -> None:
    with pytest.raises(SettingsError, match="not a message kind"):
        Settings.load(atomicity={"gossip": "GUARANTEED"})
    with pytest.raises(SettingsError, match="ALL_OR_NOTHING"):
        Settings.load(atomicity={"query": "HALF"})


def test_a_messages_policy_is_what_the_settings_make_of_it() -> None:
    sent = message(kind=Kind.LOCK_MANAGEMENT, ttl=150)
    operator = Settings.load(
        policies={"lock_management": {"max_retries": 5, "base": 0.3, "cap": 20, "dead_letter": False}},
        atomicity={"lock_management": "ALL_OR_NOTHING"},
    ).operator_policies()
    assert policy_of(sent, operator).idempotency_strategy is IdempotencyStrategy.MESSAGE_ID
    found = policy_of(sent, operator, guards=[IdempotencyStrategy.MESSAGE_ID_PLUS_NONCE]).value()
    assert str(found["baseBackoffMs"]) == "300", "whole milliseconds"
    assert found == {
        "semantics": "AT_LEAST_ONCE",
        "ttlSeconds": 150,
        "idempotencyStrategy": "MESSAGE_ID_PLUS_NONCE",
        "requireAttestationCheck": False,
        "maxRetries": 5,
        "baseBackoffMs": 300,
        "maxBackoffMs": 20_000,
        "dlqEnabled": False,
        "atomicity": "ALL_OR_NOTHING",
    }


REGULATED = "0x" + "aa" * 20
NETWORK = Deployment.model_validate(
    {"version": 1, "network": "test", "chains": [deployed(ALPHA, "alpha"), deployed(BETA, "beta")]}
)


def test_asset_classes_have_the_documents_minimums() -> None:
    members = {"alpha": [REGULATED]}
    named = {name: {"members": members} for name in ("high-frequency", "regulatory")}
    found = {one.name: one.min_ttl for one in Settings.load(asset_classes=named).classes(NETWORK)}
    assert found == {"high-frequency": 5, "regulatory": 600}
    with pytest.raises(SettingsError, match="asset class 'gold' needs min_ttl"):
        Settings.load(asset_classes={"gold": {"members": members}})


def test_message_has_its_strictest_asset_class() -> None:
    settings = Settings.load(
        asset_classes={
            "regulatory": {"members": {"alpha": [REGULATED]}},
            "slow": {"min_ttl": 900, "members": {"beta": [REGULATED]}},
        }
    )
    classes = settings.classes(NETWORK)
    regulated = to_bytes32(REGULATED)
    sent = message(sender=regulated, ttl=599)
    assert (found := ttl_violation(sent, classes)) is not None
    assert (found.name, found.min_ttl) == ("regulatory", 600)
    assert ttl_violation(message(sender=regulated, ttl=600), classes) is None
    assert ttl_violation(message(sender=regulated, ttl=0), classes) is None, "for ever is longer"
    assert (found := ttl_violation(message(sender=regulated, recipient=regulated, ttl=700), classes)) is not None
    assert found.name == "slow"
    assert class_of(message(ttl=1), classes) is None, "no policy: the sender's TTL counts"


@in_virtual_time
async def test_ttl_below_its_asset_class_is_reported_once() -> None:
    world, store = World(), memory_store()
    world.start()
    members = {world.deployment.chain(ALPHA).name: frozenset({DAPP.address})}
    relaying = RelaySettings(asset_classes={"regulatory": AssetClassSettings(members=members)})
    with capture_logs() as logs:
        async with running(SimulatedRelayer(world, store, relaying=relaying)):
            short, long = world.send(ALPHA, BETA, gmps=GMPS[:2], ttl=599), world.send(ALPHA, BETA, ttl=600)
            await until(lambda: all(one.created and world.executions(one.message) == 1 for one in (short, long)))
    told = [(one["message"], one["asset_class"], one["ttl"], one["min_ttl"]) for one in logs if "asset_class" in one]
    assert told == [(f"0x{short.message.id.hex()}", "regulatory", 599, 600)]
    await world.stop()
