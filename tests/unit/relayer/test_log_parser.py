"""Logs become messages, attempts and dispatches; what does not fit together is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.protocol.events import MessageRetried
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.ports import Log
from bridge.relayer.log_parser import Findings, interpret
from tests.builders import ALPHA, message, word
from tests.support.simulation.adapter import SimulatedAdapter
from tests.support.simulation.contracts import (
    DISPATCHED,
    GMPS,
    ROUTER_ADDRESS,
    Emitted,
    State,
    event_log,
    gmp_address,
    route,
)

ADAPTERS = [(adapter, adapter.watch(ALPHA)) for adapter in (SimulatedAdapter(gmp, {}) for gmp in GMPS)]


def logs(*transactions: list[Emitted]) -> list[Log]:
    """Each list is one transaction's events."""
    found, index = [], 0
    for number, events in enumerate(transactions):
        for address, topics, data in events:
            found.append(
                Log(
                    address=address,
                    topics=topics,
                    data=data,
                    block_number=10,
                    block_hash=word("block"),
                    transaction_hash=word(f"transaction {number}"),
                    log_index=index,
                )
            )
            index += 1
    return found


def routed(sent: Message, *gmps: Gmp) -> list[Emitted]:
    return route(State(ALPHA), sent, "0x" + "5e" * 20, gmps, retriable=True)


def retried(sent: Message, attempt: int, *gmps: Gmp) -> list[Emitted]:
    dispatched: list[Emitted] = [(gmp_address(gmp), (DISPATCHED,), sent.encode()) for gmp in gmps]
    bits = sum(gmp.bit for gmp in gmps)
    event = MessageRetried(message_id=sent.id, destination_chain=sent.destination_chain, attempt=attempt, gmps=bits)
    return [*dispatched, event_log(event)]


def read(found: list[Log]) -> Findings:
    return interpret(ALPHA, ROUTER_ADDRESS, found, ADAPTERS)


def dispatched(findings: Findings) -> set[tuple[bytes, Gmp, int]]:
    return {(one.dispatch.message_id, one.dispatch.gmp, one.attempt) for one in findings.dispatches}


def test_routed_message_gives_envelope_and_dispatches() -> None:
    sent = message()
    findings = read(logs(routed(sent, Gmp.HYPERLANE, Gmp.AXELAR)))
    assert findings.envelopes == {sent.id: sent.encode()}
    (attempt,) = findings.attempts
    assert (attempt.attempt, attempt.retriable, attempt.gmps) == (0, True, frozenset({Gmp.HYPERLANE, Gmp.AXELAR}))
    assert dispatched(findings) == {(sent.id, Gmp.HYPERLANE, 0), (sent.id, Gmp.AXELAR, 0)}
    assert findings.unmatched == ()


def test_retry_without_its_route_gives_the_envelope() -> None:
    sent = message()
    findings = read(logs(retried(sent, 3, Gmp.WORMHOLE)))
    assert findings.envelopes == {sent.id: sent.encode()}
    assert dispatched(findings) == {(sent.id, Gmp.WORMHOLE, 3)}
    assert [attempt.retriable for attempt in findings.attempts] == [None]


def test_dispatch_belongs_to_the_next_routing_event() -> None:
    first, second = message(1), message(2)
    findings = read(
        logs(
            [
                *routed(first, Gmp.HYPERLANE),
                *routed(second, Gmp.HYPERLANE),
                *retried(first, 1, Gmp.HYPERLANE, Gmp.AXELAR),
                *retried(first, 2, Gmp.AXELAR),
            ],
            retried(second, 1, Gmp.HYPERLANE),
        )
    )
    assert dispatched(findings) == {
        (first.id, Gmp.HYPERLANE, 0),
        (second.id, Gmp.HYPERLANE, 0),
        (first.id, Gmp.HYPERLANE, 1),
        (first.id, Gmp.AXELAR, 1),
        (first.id, Gmp.AXELAR, 2),
        (second.id, Gmp.HYPERLANE, 1),
    }
    assert findings.unmatched == ()


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 3), st.sets(st.sampled_from(GMPS), min_size=1)), max_size=4), max_size=4)
)
def test_retries_are_numbered_like_the_router(plan: list[list[tuple[int, set[Gmp]]]]) -> None:
    attempts: dict[int, int] = {}
    expected, transactions = set(), []
    for steps in plan:
        events: list[Emitted] = []
        for nonce, gmps in steps:
            number = attempts[nonce] = attempts.get(nonce, -1) + 1
            sent = message(nonce)
            events += routed(sent, *sorted(gmps)) if number == 0 else retried(sent, number, *sorted(gmps))
            expected |= {(sent.id, gmp, number) for gmp in gmps}
        transactions.append(events)
    findings = read(logs(*transactions))
    assert dispatched(findings) == expected
    assert findings.unmatched == ()


def test_reported_dispatch_without_a_log_is_noticed() -> None:
    sent = message()
    complete = logs(routed(sent, Gmp.HYPERLANE, Gmp.AXELAR))
    findings = read([log for log in complete if log.address != gmp_address(Gmp.AXELAR)])
    (text,) = findings.unmatched
    assert "axelar" in text
    assert complete[0].transaction_hash.hex() in text, "an operator finds it by its transaction"
    assert sent.id.hex() in text
    assert dispatched(findings) == {(sent.id, Gmp.HYPERLANE, 0)}


def test_unreported_dispatch_is_noticed_and_not_relayed() -> None:
    sent = message()
    findings = read(logs(routed(sent, Gmp.HYPERLANE)[:-1]))
    assert findings.dispatches == ()
    assert "no router sent it" in findings.unmatched[0]


def test_a_routing_event_of_another_contract_is_nobodys() -> None:
    genuine = routed(message(), Gmp.HYPERLANE)
    _, topics, data = genuine[-1]
    decoy: Emitted = ("0x" + "DE" * 20, topics, data)
    findings = read(logs([decoy]))
    assert (findings.envelopes, findings.attempts, findings.dispatches, findings.unmatched) == ({}, (), (), ())


@pytest.mark.parametrize("damage", ["cut", "empty", "id"])
def test_an_envelope_that_is_not_genuine_is_left_out(damage: str) -> None:
    sent = message()
    *_, (address, topics, data) = routed(sent, Gmp.HYPERLANE)
    if damage == "cut":
        data = data[:-64]
    elif damage == "empty":
        data = b""
    else:
        topics = (topics[0], word("another id"), topics[2])
    findings = read(logs([(address, topics, data)]))
    assert findings.envelopes == {}
