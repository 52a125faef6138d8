"""Which receipts are forged, by what is known of their source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.tripwire.judgement import Creation, HandOver, Judgement, SeenReceipt, judge

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


@pytest.mark.parametrize(
    ("creations", "hand_overs", "final", "is_covered", "judgement"),
    [
        ([], [], 50, True, Judgement.RECEIPT_WITHOUT_CREATION),
        ([], [], 50, False, Judgement.WAIT),
        ([CREATION], [HANDED], 40, False, Judgement.HONEST),
        ([CREATION], [HANDED], 39, False, Judgement.WAIT),
        ([CREATION], [UNUSED], 50, True, Judgement.RECEIPT_OVER_UNUSED_GMP),
        ([CREATION], [UNUSED], 50, False, Judgement.WAIT),
        ([CREATION], [UNUSED, replace(HANDED, block_number=48)], 50, True, Judgement.HONEST),
        ([FALLEN], [replace(HANDED, is_orphaned=True)], 50, True, Judgement.ORPHANED),
        ([FALLEN], [], 50, False, Judgement.WAIT),
        ([FALLEN, CREATION], [HANDED], 50, True, Judgement.HONEST),
        ([CREATION], [replace(HANDED, is_orphaned=True)], 50, True, Judgement.ORPHANED),
        ([replace(CREATION, payload_hash=b"q" * 32)], [HANDED], 40, False, Judgement.PAYLOAD_DIFFERS),
        ([replace(CREATION, payload_hash=b"q" * 32)], [HANDED], 39, True, Judgement.WAIT),
        ([replace(CREATION, destination=30)], [HANDED], 50, False, Judgement.PAYLOAD_DIFFERS),
    ],
)
def test_a_receipt_is_what_its_source_says(
    creations: list[Creation], hand_overs: list[HandOver], final: int, is_covered: bool, judgement: Judgement
) -> None:
    assert judge(RECEIPT, creations, hand_overs, final, is_covered=is_covered) is judgement


def test_a_delivery_that_came_too_late_says_nothing_of_its_payload() -> None:
    late = replace(RECEIPT, payload_hash=None)
    assert judge(late, [CREATION], [HANDED], 50, is_covered=True) is Judgement.HONEST


def test_only_what_a_gmp_alone_can_cause_is_a_forgery() -> None:
    assert {judgement for judgement in Judgement if judgement.is_forgery} == {
        Judgement.RECEIPT_WITHOUT_CREATION,
        Judgement.RECEIPT_OVER_UNUSED_GMP,
        Judgement.PAYLOAD_DIFFERS,
    }
