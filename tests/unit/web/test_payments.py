"""What the transactions of a message cost is rendered by the server: figures, who paid, totals, and why there are none."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import pytest

from bridge.protocol.addresses import from_bytes32
from bridge.protocol.indexed import Payment
from bridge.protocol.message import Message
from bridge.web.payments import Payments
from tests.unit.indexer.logs import ALPHA, BETA
from tests.unit.indexer.world import received, retried, routed, sent_message
from tests.unit.web.explorer import World, page, patient, text_of
from tests.unit.web.test_retries import OWN, sent_by_the_relayer

RELAYER, STRANGER = "0x" + "Ee" * 20, "0x" + "33" * 20


def told(world: World, sent: Message, payments: Callable[[Mapping[int, Sequence[bytes]]], Payments]) -> str:
    """What the table of fees and gas says."""
    world.index()
    found = re.search(
        r'<table class="costs.*?</table>', world.explorer(payments=payments).get(page(sent)).text, re.DOTALL
    )
    assert found is not None
    return text_of(found.group())


def paid(payer: str, gas: int, value: int = 0) -> Payment:
    return Payment(payer=payer, gas=gas, gas_paid=gas * 10**9, value=value)


def test_each_row_says_what_it_cost_and_who_paid_and_each_chain_has_its_total(world: World) -> None:
    sent = sent_message(quorum=2)
    world.alpha.mine(routed(sent))
    world.beta.mine(received(sent, 1))
    world.beta.mine(received(sent, 2, receipts=2))
    asked: list[Mapping[int, Sequence[bytes]]] = []

    def payments(wanted: Mapping[int, Sequence[bytes]]) -> Payments:
        asked.append(wanted)
        by_sender = paid(from_bytes32(sent.sender), 120_000, 3 * 10**15)
        one, other = wanted[BETA]
        return {
            ALPHA: {wanted[ALPHA][0]: by_sender},
            BETA: {one: paid(STRANGER, 90_000), other: paid(STRANGER, 70_000)},
        }

    said = told(world, sent, payments)
    assert "sender 120 000 0.00012 ETH 0.003 ETH" in said
    assert "another account 90 000 0.00009 ETH nothing" in said
    assert "Total on alpha 1 of 1 transaction 0.00012 ETH 0.003 ETH" in said
    assert "Total on beta 2 of 2 transactions 0.00016 ETH nothing" in said
    assert "–" not in said
    assert [{chain: len(hashes) for chain, hashes in wanted.items()} for wanted in asked] == [{ALPHA: 1, BETA: 2}]


def test_what_the_relayers_account_paid_is_the_relayers(world: World) -> None:
    sent = sent_message(quorum=2)
    world.alpha.mine(routed(sent), retried(sent, 1, gmps=0b10))
    sent_by_the_relayer(world, sent, 1)
    said = told(world, sent, lambda _: {ALPHA: {OWN: paid(RELAYER, 100_000)}})
    assert "relayer 100 000" in said


@pytest.mark.parametrize(
    ("payments", "said"),
    [
        (lambda _: {ALPHA: None}, "no answer"),
        (lambda _: {ALPHA: {}}, "not on the chain"),
    ],
)
def test_why_a_cost_is_missing_is_said(
    world: World, payments: Callable[[Mapping[int, Sequence[bytes]]], Payments], said: str
) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent))
    shown = told(world, sent, payments)
    assert shown.count(said) == 4
    assert "Total on alpha 0 of 1 transaction not known not known" in shown


def test_a_page_does_not_wait_for_chains_that_are_slow(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent))
    world.index()
    answer = threading.Event()

    def slow(wanted: Mapping[int, Sequence[bytes]]) -> Payments:
        answer.wait(60)
        return {ALPHA: {one: paid(STRANGER, 50_000) for one in wanted[ALPHA]}}

    explorer = world.explorer(patient(patience=0.01), payments=slow)
    assert text_of(explorer.get(page(sent)).text).count("not read yet") == 4
    answer.set()
    for _ in range(600):
        if "50 000" in (shown := text_of(explorer.get(page(sent)).text)):
            break
        threading.Event().wait(0.05)
    assert "50 000 0.00005 ETH" in shown


def test_an_addresss_page_adds_up_what_its_messages_cost_and_what_it_paid_itself(world: World) -> None:
    one, other = sent_message(1, quorum=1), sent_message(2, quorum=1)
    world.alpha.transactions[other.id] = f"0x{OWN.hex()}"
    world.alpha.mine(routed(one), routed(other))
    both = "0x" + "cd" * 32
    world.beta.transactions |= {one.id: both, other.id: both}
    world.beta.mine(received(one, 1), received(other, 1))
    world.index()
    sender = from_bytes32(one.sender)

    def payments(wanted: Mapping[int, Sequence[bytes]]) -> Payments:
        assert [(chain, len(hashes)) for chain, hashes in sorted(wanted.items())] == [(ALPHA, 2), (BETA, 1)]
        mine = next(digest for digest in wanted[ALPHA] if digest != OWN)
        return {
            ALPHA: {mine: paid(sender, 100_000, 3 * 10**15), OWN: paid(STRANGER, 50_000, 10**15)},
            BETA: {wanted[BETA][0]: paid(RELAYER, 70_000)},
        }

    said = text_of(world.explorer(payments=payments).get(f"/address/{sender}").text)
    assert "What its messages cost all 2 that it sent, by all who paid" in said
    assert "alpha 2 of 2 0.00015 ETH 0.004 ETH 0.0001 ETH 0.003 ETH" in said
    assert "beta 1 of 1 0.00007 ETH nothing nothing nothing" in said


def test_an_addresss_page_waits_for_costs_without_its_reader(world: World) -> None:
    sent = sent_message(quorum=1)
    world.alpha.mine(routed(sent))
    world.index()
    answer = threading.Event()

    def slow(_: Mapping[int, Sequence[bytes]]) -> Payments:
        answer.wait(60)
        return {ALPHA: None}

    explorer = world.explorer(patient(patience=0.01), payments=slow)
    body = explorer.get(f"/address/{from_bytes32(sent.sender)}").text
    assert "The page loads again by itself" in body
    assert 'http-equiv="refresh"' in body
    answer.set()
    for _ in range(600):
        body = explorer.get(f"/address/{from_bytes32(sent.sender)}").text
        if "not known" in body:
            break
        time.sleep(0.01)
    assert "alpha 0 of 1 not known not known nothing nothing" in text_of(body)
