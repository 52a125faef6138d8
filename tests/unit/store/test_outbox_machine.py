"""Any sequence of claims, outcomes, lease takeovers, replays and reorgs keeps the rules of the outbox."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from bridge.protocol.failures import Failure, FailureKind
from bridge.protocol.gmps import Gmp
from bridge.records.outbox import (
    TRANSITIONS,
    Claim,
    Dead,
    Delivered,
    ForbiddenTransitionError,
    LiveTrafficQuota,
    ObservedDelivery,
    OutboxEntry,
    OutboxState,
    Outcome,
    TryAgain,
)
from bridge.store import Store
from tests.builders import ALPHA, BETA, block, message, observed_range, word
from tests.postgresql import Server
from tests.support.stores import memory_store

LEASE = 10.0
WORKERS = st.sampled_from(["first", "second"])
GMPS = (Gmp.HYPERLANE, Gmp.WORMHOLE)


class OutboxMachine(RuleBasedStateMachine):
    def __init__(self, url: str | None = None) -> None:
        """Plays on the database at the URL, or on SQLite in memory."""
        super().__init__()
        self.store = Store(url) if url else memory_store()
        self.now = 1_000.0
        self.height = 0
        self.branch = 0
        self.sent = 0
        self.claims: list[Claim] = []  # every claim ever given, good or stale
        self.holders: dict[str, Claim] = {}  # the newest claim of each entry
        self.states: dict[str, OutboxState] = {}

    def teardown(self) -> None:
        self.store.close()

    @initialize()
    def genesis(self) -> None:
        self.observe(0)

    @rule(count=st.integers(0, 3))
    def observe(self, count: int) -> None:
        cursor = self.store.observations.cursor(ALPHA)
        fresh = [message(self.sent + number + 1) for number in range(count)]
        self.sent += count
        self.height += 1
        seen = observed_range(
            *fresh,
            previous=cursor.position if cursor else None,
            position=block(self.height, f"branch {self.branch}"),
            gmps=GMPS,
            now=self.now,
        )
        assert len(self.store.observations.record(seen)) == len(fresh) * len(GMPS)

    @rule(depth=st.integers(1, 3), again=st.booleans())
    def reorg(self, depth: int, again: bool) -> None:
        ancestor = next(iter(self.store.observations.ancestors(ALPHA)[depth - 1 : depth]), None)
        fallen = [
            one
            for one in self.store.outbox.listed(limit=1000)
            if ancestor is None or one.dispatch.block_number > ancestor.number
        ]
        self.store.observations.rewind(ALPHA, ancestor, self.now)
        self.branch += 1
        self.height = ancestor.number if ancestor else 0
        back = {one.dispatch.message_id for one in fallen} if again else set()
        returning = [message(nonce) for nonce in range(1, self.sent + 1) if message(nonce).id in back]
        self.height += 1
        position = block(self.height, f"branch {self.branch}")
        seen = observed_range(*returning, previous=ancestor, position=position, gmps=GMPS, now=self.now)
        self.store.observations.record(seen)
        for one in fallen:
            if one.fence == 0:
                self.states.pop(one.event_id, None)

    @rule(
        worker=WORKERS,
        limit=st.integers(0, 4),
        gmps=st.sets(st.sampled_from(GMPS)),
        fresh=st.builds(
            LiveTrafficQuota, st.integers(0, 3), st.sampled_from([0.0, 4.0, 100.0])
        ),  # ages in place of moments
        in_order=st.booleans(),
    )
    def claim(self, worker: str, limit: int, gmps: set[Gmp], *, fresh: LiveTrafficQuota, in_order: bool) -> None:
        share = LiveTrafficQuota(fresh.places, self.now - fresh.since)
        waiting = self.claimable(gmps, in_order=in_order)
        held_before = {one.event_id: one for one in self.store.outbox.listed(state=OutboxState.CLAIMED, limit=1000)}
        claimed = self.store.outbox.claim(
            worker=worker,
            destination_chain=BETA,
            gmps=gmps,
            limit=limit,
            now=self.now,
            lease=LEASE,
            in_order=in_order,
            fresh=share,
        )
        self.has_shared_fairly(claimed, waiting, limit, share)
        for entry in claimed:
            assert entry.orphaned_at is None
            assert entry.available_at <= self.now
            assert entry.dispatch.gmp in gmps
            before = held_before.get(entry.event_id)
            if before is not None:
                assert before.lease_until is not None
                assert before.lease_until <= self.now, "a good lease was taken over"
                self.states[entry.event_id] = OutboxState.PENDING
            self.claims.append(entry.current_claim)
            self.holders[entry.event_id] = entry.current_claim

    def claimable(self, gmps: set[Gmp], *, in_order: bool) -> list[OutboxEntry]:
        """What a claim may give out, but for what expired leases bring: the longest due first, each behind all of its key."""
        entries = sorted(self.entries(), key=lambda one: one.available_at)
        due = [one for one in entries if self.is_claimable(one) and one.dispatch.gmp in gmps]
        if not in_order:
            return due
        first: dict[str, str] = {}
        for one in self.entries():
            if one.state in (OutboxState.PENDING, OutboxState.CLAIMED) and one.orphaned_at is None:
                first.setdefault(one.ordering_key, one.event_id)
        return [one for one in due if first[one.ordering_key] == one.event_id]

    def entries(self) -> list[OutboxEntry]:
        """Every entry, in the order of creation."""
        return self.store.outbox.listed(limit=1000)[::-1]

    def is_claimable(self, entry: OutboxEntry) -> bool:
        return entry.state is OutboxState.PENDING and entry.available_at <= self.now and entry.orphaned_at is None

    def has_shared_fairly(
        self, given: list[OutboxEntry], waiting: list[OutboxEntry], limit: int, share: LiveTrafficQuota
    ) -> None:
        """Neither starves: live traffic has its places, and what it leaves goes to the others, the longest due first."""
        fresh = [one.event_id for one in waiting if one.is_fresh(share.since)]
        ids = [one.event_id for one in given]
        assert len(ids) <= max(limit, min(len(fresh), share.places))
        assert set(fresh[: share.places]) <= set(ids), "live traffic waits, and has not got its places"
        assert [one.available_at for one in given] == sorted(one.available_at for one in given)
        old = [one.event_id for one in waiting if one.event_id not in fresh]
        missed = [one for one in old if one not in ids]
        if missed:
            assert len(ids) >= limit, "an old entry waits, and a place is empty"
            assert old[: len(old) - len(missed)] == [one for one in old if one in ids], "an older one was passed over"

    @rule(data=st.data(), kind=st.sampled_from(["delivered", "retry", "dead"]))
    def finish(self, data: st.DataObject, kind: str) -> None:
        if not self.claims:
            return
        claim = data.draw(st.sampled_from(self.claims))
        failure = Failure(at=self.now, kind=FailureKind.UNKNOWN, code="X", message="x")
        outcomes: dict[str, Outcome] = {
            "delivered": Delivered(claim, ObservedDelivery(block(5, "beta"), word("tx"))),
            "retry": TryAgain(claim, failure, self.now + 3),
            "dead": Dead(claim, failure),
        }
        before = self.store.outbox.entry(claim.event_id)
        lost = self.store.outbox.finish([outcomes[kind]], self.now)
        holds = before is not None and before.state is OutboxState.CLAIMED and self.holders[claim.event_id] == claim
        assert (lost == set()) == holds, "a claim ended that was not held, or a held one was refused"
        if not holds:
            assert self.store.outbox.entry(claim.event_id) == before

    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        if not self.claims:
            return
        claim = data.draw(st.sampled_from(self.claims))
        before = self.store.outbox.entry(claim.event_id)
        holds = before is not None and before.state is OutboxState.CLAIMED and self.holders[claim.event_id] == claim
        lost = self.store.outbox.renew([claim], self.now, LEASE)
        assert (lost == set()) == holds, "a claim was extended that was not held, or a held one was refused"

    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        entries = self.store.outbox.listed(limit=1000)
        if not entries:
            return
        event_id = data.draw(st.sampled_from(sorted(entry.event_id for entry in entries)))
        before = self.store.outbox.entry(event_id)
        assert before is not None
        has_ended = before.state in (OutboxState.DELIVERED, OutboxState.DEAD)
        try:
            self.store.outbox.replay(event_id, "by hand", self.now)
        except ForbiddenTransitionError:
            assert not has_ended
        else:
            assert has_ended

    @rule(seconds=st.sampled_from([1.0, 4.0, LEASE]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def only_allowed_transitions_happened_and_leases_belong_to_claims(self) -> None:
        for entry in self.store.outbox.listed(limit=1000):
            before = self.states.get(entry.event_id, OutboxState.PENDING)
            assert before is entry.state or (before, entry.state) in TRANSITIONS
            self.states[entry.event_id] = entry.state
            is_claimed = entry.state is OutboxState.CLAIMED
            assert (entry.claimed_by is not None) == (entry.lease_until is not None) == is_claimed
            assert (entry.delivered_at is not None) == (entry.state is OutboxState.DELIVERED)

    @invariant()
    def every_message_seen_is_accounted_for(self) -> None:
        for nonce in range(1, self.sent + 1):
            sent = message(nonce)
            if self.store.observations.attempts(sent.id):
                assert len(self.store.outbox.entries(sent.id)) == len(GMPS)


UNHURRIED = settings(deadline=None, suppress_health_check=list(HealthCheck))


class TestOutbox(OutboxMachine.TestCase):  # type: ignore[misc,valid-type]  # made by hypothesis at run time
    settings = settings(UNHURRIED, max_examples=10, stateful_step_count=30)


def on(server: Server) -> type[OutboxMachine]:
    """The machine with a schema of its own for each history."""

    class OnPostgresql(OutboxMachine):
        def __init__(self) -> None:
            super().__init__(server.new_url())

    return OnPostgresql


def test_the_same_holds_on_postgresql(postgresql: Server) -> None:
    run_state_machine_as_test(on(postgresql), settings=settings(UNHURRIED, max_examples=3, stateful_step_count=20))


@pytest.mark.long
def test_the_same_holds_on_postgresql_in_many_histories(postgresql: Server) -> None:
    run_state_machine_as_test(on(postgresql), settings=settings(UNHURRIED, max_examples=50, stateful_step_count=40))
