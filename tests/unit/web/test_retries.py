"""Retries in a message's timeline: who had each made, why, and what came of it."""

from __future__ import annotations

import pytest

from bridge.domain.actions import Phase, Window
from bridge.domain.jobs import RetryJob, RetryState
from bridge.domain.ports import Call, Fees
from bridge.domain.transactions import Inclusion, SignedVersion, SlotRequest
from bridge.protocol.message import Message
from bridge.relayer.retry_planning import retry_transaction_key
from tests.builders import block, retry_request
from tests.support.phases import COORDINATOR, instruction
from tests.unit.indexer.logs import ALPHA
from tests.unit.indexer.world import START, Event, executed, received, retried, routed, sent_message
from tests.unit.web.explorer import World, page, text_of

HASTY = Window(prepare_ttl=300, decision_ttl=60, max_retries=2, max_backoff=4, lock_ttl=368)
OWN = b"\xab" * 32
"""The hash of a transaction that this relayer made."""


def sent_by_the_relayer(world: World, sent: Message, attempt: int) -> None:
    """The relayer's ledger has the retry, and so has the chain."""
    request = SlotRequest(retry_transaction_key(sent.id, attempt), Call(to="0x" + "bb" * 20, data=b"", gas=21_000))
    ledger = world.relayer.transactions
    (slot,) = ledger.reserve(ALPHA, "0x" + "aa" * 20, [request], first_nonce=0, now=1.0)
    assert slot is not None
    version = SignedVersion(hash=OWN, raw=b"raw", fees=Fees(20, 2), signed_at=5.0, is_noop=False)
    assert ledger.sign(slot.slot_id, version, replaces=None)
    ledger.include([(slot.slot_id, Inclusion(OWN, block(20), succeeded=True))])
    world.alpha.transactions[sent.id] = f"0x{OWN.hex()}"


def told(world: World, sent: Message) -> str:
    """What the timeline says from the first retry on."""
    world.index()
    shown = text_of(world.explorer(coordinators=(COORDINATOR,)).get(page(sent)).text)
    return shown.partition("Timeline")[2].partition("Retry 1 over")[2].partition("Fees and gas")[0]


def twice_sent(world: World, sent: Message, *later: Event) -> None:
    """Sent over two GMPs, executed, and sent again over two others."""
    world.alpha.mine(routed(sent, gmps=0b11), time=START + 10)
    world.beta.mine(received(sent, 1), received(sent, 2, receipts=2), executed(sent), time=START + 12)
    world.alpha.mine(retried(sent, 1, gmps=0b1001), time=START + 15)
    world.beta.mine(*later, time=START + 18)


def test_a_retry_of_a_phase_says_that_its_action_asked_for_it_and_that_it_changed_nothing(world: World) -> None:
    sent = instruction(sent_message(1, quorum=2), Phase.PREPARE, number=1, branch=0, window=HASTY)
    twice_sent(world, sent, received(sent, 4, receipts=3))
    sent_by_the_relayer(world, sent, 1)
    said = told(world, sent)
    assert "This relayer made it as it follows the action: PREPARE had no answer within 4 s." in said
    assert "hyperlane had delivered before. layerzero delivered after it." in said
    assert "It changed nothing: the recipient had executed the message 3 s before, by the chains' clocks." in said


def test_a_retry_that_others_made_is_not_the_relayers(world: World) -> None:
    sent = sent_message(quorum=2)
    twice_sent(world, sent)
    said = told(world, sent)
    assert "Not this relayer, but its sender or one of its sender's retriers made it." in said
    assert "layerzero has not delivered." in said


def test_a_retry_of_an_operator_is_the_relayers_and_no_actions(world: World) -> None:
    sent = sent_message(quorum=2)
    twice_sent(world, sent)
    sent_by_the_relayer(world, sent, 1)
    assert "This relayer made it: for an operator, or to have a state change applied." in told(world, sent)


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_request_of_the_index_says_its_reason_and_what_came_of_it(world: World, *, is_sent: bool) -> None:
    sent = sent_message(quorum=2)
    twice_sent(world, sent)
    sent_by_the_relayer(world, sent, 1)
    request = retry_request(sent=sent, reason="0 of 2 receipts", requested_at=START + 15.5)
    world.relayer.retries.copy([request], 1, START + 14)
    (job,) = world.relayer.jobs.of_message(RetryJob, sent.id)
    if is_sent:
        ended = job.ended(RetryState.SENT, "attempt 1", START + 15, OWN)
    else:
        ended = job.ended(RetryState.NOT_NEEDED, "it is executed", START + 15)
    assert world.relayer.jobs.save(ended, fence=job.fence)
    said = told(world, sent)
    timeline = text_of(world.explorer().get(page(sent)).text).partition("Timeline")[2]
    asked, made = timeline.index("The index requested retry 1: 0 of 2 receipts"), timeline.index("Retry 1 over")
    assert asked < made or not is_sent, "also if the block's whole seconds are before the request's"
    assert ("The index had asked this relayer for it." in said) is is_sent
    whole = text_of(world.explorer().get(page(sent)).text)
    ends = "The relayer sent it: attempt 1." if is_sent else "It was not needed any more: it is executed."
    assert f"The index requested retry 1: 0 of 2 receipts {ends}" in whole
