from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.protocol.errors import CursorMovedError, StoreMismatchError
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.protocol.ports import Call, Fees
from bridge.records.observations import ANCESTORS_KEPT, ObservedRange
from bridge.records.outbox import Delivered, ObservedDelivery, OutboxState
from bridge.records.transactions import Inclusion, SignedVersion, SlotRequest, SlotState
from bridge.store import Store
from tests.builders import ALPHA, BETA, block, message, observed_range, word


def test_range_is_written_with_cursor_and_entries(store: Store) -> None:
    sent = message()
    new = store.observations.record(observed_range(sent, gmps=(Gmp.HYPERLANE, Gmp.AXELAR)))

    assert len(new) == 2
    cursor = store.observations.cursor(ALPHA)
    assert cursor is not None
    assert (cursor.position, cursor.watched) == (block(10), "everything")
    seen = store.observations.message(sent.id)
    assert seen is not None
    assert seen.message == sent
    assert [(a.attempt, a.retriable, a.block) for a in store.observations.attempts(sent.id)] == [(0, True, block(10))]
    entries = store.outbox.entries(sent.id)
    assert [entry.dispatch.gmp for entry in entries] == [Gmp.HYPERLANE, Gmp.AXELAR]
    assert {entry.state for entry in entries} == {OutboxState.PENDING}
    assert entries[0].dispatch.envelope == sent.encode()
    assert entries[0].dispatch.evidence == {"index": 1}


def test_range_is_written_whole_or_not_at_all(store: Store) -> None:
    sent = message()
    broken = replace(observed_range(sent), messages=())  # an entry without its message
    with pytest.raises(Exception, match=r".+"):
        store.observations.record(broken)
    assert store.observations.cursor(ALPHA) is None
    assert store.outbox.entries(sent.id) == []


@pytest.mark.parametrize(("short_by", "duplicates"), [(0, 0), (1, 1)])
def test_a_window_one_second_too_small_lets_a_duplicate_in(store: Store, short_by: int, duplicates: int) -> None:
    """A message lives 600 s, clocks differ by 5 s each way: what is forgotten after 609 s is taken for new after 610 s."""
    ttl, skew, start = 600, 5, 1_000.0
    window = ttl + 2 * skew - short_by
    sent = message(ttl=ttl, kind=Kind.GOVERNANCE_EXECUTE)
    assert len(store.observations.record(observed_range(sent, now=start))) == 1
    (entry,) = store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=start, lease=15)
    store.outbox.finish([Delivered(entry.current_claim, ObservedDelivery(block(7, "beta"), word("tx")))], start)
    store.outbox.confirm([entry.event_id], start)
    now = start + ttl + 2 * skew - 0.5  # the last moment at which some clock still calls it alive
    store.outbox.forget(now - window, 10)
    again = observed_range(sent, previous=block(10), position=block(11), now=now)
    assert len(store.observations.record(again)) == duplicates


def test_reading_again_gives_up_nothing_that_was_seen(store: Store) -> None:
    sent = message()
    store.observations.record(observed_range(sent))
    store.observations.reread(ALPHA)
    assert store.observations.cursor(ALPHA) is None
    assert [entry.orphaned_at for entry in store.outbox.entries(sent.id)] == [None]


def test_late_finding_is_added_without_moving_the_cursor(store: Store) -> None:
    for number in (10, 20):
        store.observations.record(observed_range(previous=block(10) if number > 10 else None, position=block(number)))
    before = store.observations.cursor(ALPHA)
    sent = message()
    new = store.observations.record(observed_range(sent, previous=block(20), position=block(20), at=block(7)))
    assert len(new) == 1
    assert store.observations.cursor(ALPHA) == before


def test_lane_counts_messages_that_still_stand(store: Store) -> None:
    first, second, back = (
        message(nonce=1),
        message(nonce=2),
        message(nonce=1, source_chain=BETA, destination_chain=ALPHA),
    )
    store.observations.record(observed_range(first, back, position=block(10)))
    store.observations.record(observed_range(second, previous=block(10), position=block(20)))
    assert [store.observations.created_on(*lane) for lane in ((ALPHA, BETA), (BETA, ALPHA), (BETA, BETA))] == [2, 1, 0]
    store.observations.rewind(ALPHA, block(10), now=1)
    assert store.observations.created_on(ALPHA, BETA) == 1
    assert store.observations.message(second.id) is not None
    store.observations.record(observed_range(first, second, previous=block(10), position=block(21, "other")))
    assert store.observations.created_on(ALPHA, BETA) == 2
    store.observations.rewind(ALPHA, None, now=2)
    assert store.observations.created_on(ALPHA, BETA) == 0


def test_a_range_is_refused_when_somebody_else_moved_the_cursor(store: Store) -> None:
    store.observations.record(observed_range())
    with pytest.raises(CursorMovedError):
        store.observations.record(observed_range(message(), previous=None, position=block(11)))
    with pytest.raises(CursorMovedError):
        store.observations.record(observed_range(message(), previous=block(10, "other"), position=block(11)))
    assert store.outbox.counts() == []


def test_cursor_keeps_a_bounded_history(store: Store) -> None:
    previous = None
    for number in range(1, ANCESTORS_KEPT + 5):
        store.observations.record(observed_range(previous=previous, position=block(number)))
        previous = block(number)
    cursor = store.observations.cursor(ALPHA)
    assert cursor is not None
    assert cursor.position == block(ANCESTORS_KEPT + 4)
    ancestors = store.observations.ancestors(ALPHA)
    assert (ancestors[0], ancestors[-1], len(ancestors)) == (block(ANCESTORS_KEPT + 3), block(4), ANCESTORS_KEPT)


def _two_blocks(store: Store) -> None:
    store.observations.record(observed_range(message(1), position=block(10)))
    store.observations.record(observed_range(message(2), previous=block(10), position=block(11)))


def test_attempts_that_are_read_again_move_to_where_they_are_now(store: Store) -> None:
    store.observations.record(observed_range(message(1), position=block(10)))
    store.observations.record(observed_range(message(1), message(2), previous=block(10), position=block(11)))
    found = [store.observations.attempts(message(nonce).id) for nonce in (1, 2)]
    assert [[(one.attempt, one.block) for one in some] for some in found] == [[(0, block(11))], [(0, block(11))]]


def test_reorg_drops_untouched_entries_above(store: Store) -> None:
    _two_blocks(store)
    rewound = store.observations.rewind(ALPHA, block(10), now=200)

    assert (rewound.dropped, rewound.orphaned) == (1, 0)
    assert store.outbox.entries(message(2).id) == []
    assert store.observations.attempts(message(2).id) == []
    assert len(store.outbox.entries(message(1).id)) == 1
    assert len(store.observations.attempts(message(1).id)) == 1
    cursor = store.observations.cursor(ALPHA)
    assert cursor is not None
    assert (cursor.position, store.observations.ancestors(ALPHA)) == (block(10), [])


def test_reorg_keeps_a_claimed_entry_unclaimable(
    store: Store,
) -> None:
    _two_blocks(store)
    held = [
        entry
        for entry in store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=9, now=150, lease=10)
        if entry.dispatch.message_id == message(2).id
    ]
    assert store.observations.rewind(ALPHA, block(10), now=151).orphaned == 1

    after_lease = 500.0
    claimed = store.outbox.claim(worker="v", destination_chain=BETA, gmps=set(Gmp), limit=9, now=after_lease, lease=10)
    assert [entry.dispatch.message_id for entry in claimed] == [message(1).id]

    moved = observed_range(message(2), previous=block(10), position=block(12, "fork"))
    assert store.observations.record(moved) == set()
    back = store.outbox.claim(worker="v", destination_chain=BETA, gmps=set(Gmp), limit=9, now=after_lease, lease=10)
    assert [entry.event_id for entry in back] == [entry.event_id for entry in held]
    assert back[0].dispatch.block_hash == block(12, "fork").hash
    assert back[0].fence > held[0].fence


def test_a_rewound_cursor_goes_on_from_its_ancestor(store: Store) -> None:
    _two_blocks(store)
    store.observations.rewind(ALPHA, block(10), now=200)
    fork: ObservedRange = observed_range(message(3), previous=block(10), position=block(11, "fork"))
    assert len(store.observations.record(fork)) == 1


def test_a_store_is_bound_to_the_chain_it_was_first_used_with(store: Store) -> None:
    store.observations.identify(ALPHA, word("genesis"))
    store.observations.identify(ALPHA, word("genesis"))
    store.observations.identify(BETA, word("another genesis"))
    with pytest.raises(StoreMismatchError, match=str(ALPHA)):
        store.observations.identify(ALPHA, word("fresh chain"))


def _delivered_in_block_20_of_beta(store: Store) -> tuple[str, int]:
    """An entry and a slot, both final in that block."""
    store.observations.record(observed_range(message()))
    (entry,) = store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=150, lease=10)
    store.outbox.finish([Delivered(entry.current_claim, ObservedDelivery(block(20, "beta"), word("delivery")))], 151)
    store.outbox.confirm([entry.event_id], 152)
    call = Call(to="0x" + "bb" * 20, data=b"", gas=21_000)
    (slot,) = store.transactions.reserve(BETA, "0x" + "aa" * 20, [SlotRequest("p", call)], first_nonce=0, now=1)
    assert slot is not None
    version = SignedVersion(hash=word("delivery"), raw=b"raw", fees=Fees(2, 1), signed_at=1, is_noop=False)
    store.transactions.sign_all([(slot.slot_id, version)])
    store.transactions.include([(slot.slot_id, Inclusion(word("delivery"), block(20, "beta"), succeeded=True))])
    store.transactions.finalise([slot.slot_id])
    for previous, number in ((None, 19), (19, 21)):
        store.observations.record(
            ObservedRange(
                chain_id=BETA,
                previous=None if previous is None else block(previous, "beta"),
                position=block(number, "beta"),
                watched="",
                observed_at=0,
            )
        )
    return entry.event_id, slot.slot_id


def test_destination_reorg_revokes_finality_above(store: Store) -> None:
    event_id, slot_id = _delivered_in_block_20_of_beta(store)
    assert (store.observations.final_height(BETA), store.observations.final_block(BETA)) == (21, block(21, "beta"))
    assert [store.observations.has_passed(BETA, block(number, "beta")) for number in (19, 20, 21)] == [
        True,
        False,
        True,
    ]
    assert store.observations.rewind(BETA, block(19, "beta"), now=200).unconfirmed == 1
    assert list(store.outbox.unconfirmed(BETA).values()) == [[event_id]]
    assert store.transactions.slot(slot_id).state is SlotState.INCLUDED
    assert (store.observations.final_height(BETA), store.observations.final_block(BETA)) == (19, block(19, "beta"))
    assert [store.observations.has_passed(BETA, block(number, "beta")) for number in (19, 21)] == [True, False]


def test_envelope_is_forgotten_once_nothing_needs_it(store: Store) -> None:
    """A retry of the message brings it again, and the completeness check still counts the message."""
    store.observations.record(observed_range(message(), now=100))
    assert store.observations.forget_envelopes(200, 9) == 0, "a delivery needs it"
    (entry,) = store.outbox.claim(worker="w", destination_chain=BETA, gmps=set(Gmp), limit=1, now=150, lease=30)
    executed = Delivered(entry.current_claim, ObservedDelivery(block(7, "beta"), word("tx")), executed=True)
    store.outbox.finish([executed], 150)
    store.outbox.confirm([entry.event_id], 160)
    assert store.outbox.forget(200, 9) == 1
    assert store.observations.forget_envelopes(100, 9) == 0, "observed at that moment, not before"
    assert store.observations.forget_envelopes(200, 9) == 1
    assert store.observations.message(message().id) is None
    assert store.observations.created_on(ALPHA, BETA) == 1

    store.observations.record(observed_range(message(), previous=block(10), position=block(20), number=1, now=300))
    again = store.observations.message(message().id)
    assert again is not None
    assert again.message == message()
    assert store.observations.created_on(ALPHA, BETA) == 1
