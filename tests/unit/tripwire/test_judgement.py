"""Which receipts are forged, by what is known of their source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.domain.ports import Block
from bridge.tripwire.judgement import Creation, HandOver, Ruling, SeenReceipt, judge

GMP, OTHER = 2, 3
RECEIPT = SeenReceipt(
    row=1,
    chain_id=20,
    message_id=bytes(32),
    gmp=GMP,
    source_chain=10,
    payload_hash=b"p" * 32,
    block_number=7,
    block_hash=b"b" * 32,
    block_time=1_000,
    transaction=b"t" * 32,
    source_height=50,
)
CREATION = Creation(router="0x", destination=20, payload_hash=b"p" * 32, block_number=40, is_orphaned=False)
HANDED = HandOver(1 << (GMP - 1), 40, is_orphaned=False)
UNUSED = HandOver(1 << (OTHER - 1), 40, is_orphaned=False)
FALLEN = replace(CREATION, is_orphaned=True)


def final(number: int = 50, time: int = 1_010) -> Block:
    return Block(number, b"f" * 32, bytes(32), time)


@pytest.mark.parametrize(
    ("creations", "hand_overs", "at", "ruling"),
    [
        ([], [], None, Ruling.WAIT),
        ([], [], final(), Ruling.RECEIPT_WITHOUT_CREATION),
        ([], [], final(number=49), Ruling.WAIT),
        ([], [], final(time=1_009), Ruling.WAIT),
        ([CREATION], [HANDED], final(number=40), Ruling.HONEST),
        ([CREATION], [HANDED], final(number=39), Ruling.WAIT),
        ([CREATION], [UNUSED], final(), Ruling.RECEIPT_OVER_UNUSED_GMP),
        ([CREATION], [UNUSED], final(number=49), Ruling.WAIT),
        ([CREATION], [UNUSED, replace(HANDED, block_number=48)], final(), Ruling.HONEST),
        ([FALLEN], [replace(HANDED, is_orphaned=True)], final(), Ruling.ORPHANED),
        ([FALLEN], [], final(number=49), Ruling.WAIT),
        ([FALLEN, CREATION], [HANDED], final(), Ruling.HONEST),
        ([CREATION], [replace(HANDED, is_orphaned=True)], final(), Ruling.ORPHANED),
        ([replace(CREATION, payload_hash=b"q" * 32)], [HANDED], final(number=40, time=0), Ruling.PAYLOAD_DIFFERS),
        ([replace(CREATION, payload_hash=b"q" * 32)], [HANDED], final(number=39), Ruling.WAIT),
        ([replace(CREATION, destination=30)], [HANDED], final(), Ruling.PAYLOAD_DIFFERS),
    ],
)
def test_a_receipt_is_what_its_source_says(
    creations: list[Creation], hand_overs: list[HandOver], at: Block | None, ruling: Ruling
) -> None:
    assert judge(RECEIPT, creations, hand_overs, at, max_clock_skew=10) is ruling


def test_a_delivery_that_came_too_late_says_nothing_of_its_payload() -> None:
    late = replace(RECEIPT, payload_hash=None)
    assert judge(late, [CREATION], [HANDED], final(), max_clock_skew=10) is Ruling.HONEST


def test_only_what_a_gmp_alone_can_cause_is_a_forgery() -> None:
    assert {ruling for ruling in Ruling if ruling.is_forgery} == {
        Ruling.RECEIPT_WITHOUT_CREATION,
        Ruling.RECEIPT_OVER_UNUSED_GMP,
        Ruling.PAYLOAD_DIFFERS,
    }
