"""What the templates make of numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bridge.web.rendering import amount, counted

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (1, "message", "1 message"),
        (2, "message", "2 messages"),
        (1, "delivery", "1 delivery"),
        (0, "delivery", "0 deliveries"),
    ],
)
def test_one_of_a_thing_is_told_in_the_singular(number: int, noun: str, said: str) -> None:
    assert counted(number, noun) == said


def test_no_template_writes_a_plural_behind_a_number_by_hand() -> None:
    texts = [path.read_text() for path in (ROOT / "bridge" / "web" / "templates").glob("*.html")]
    assert [
        found for text in texts for found in re.findall(r"\| count \}\} (?:messages|deliveries|blocks)\b[^{]*", text)
    ] == []


@pytest.mark.parametrize(
    ("wei", "shown"),
    [
        (7, "7 wei"),
        (2 * 10**12, "2 000 gwei"),
        (345_712_345_678_901, "0.0003457 ETH"),
        (12_345 * 10**9, "0.00001234 ETH"),
        (10**18, "1 ETH"),
        (1_234_567 * 10**18, "1 235 000 ETH"),
    ],
)
def test_an_amount_has_four_digits_however_small_it_is(wei: int, shown: str) -> None:
    assert amount(wei) == shown
