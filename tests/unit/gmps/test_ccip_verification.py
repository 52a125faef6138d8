"""CCIP's verifiers in a network file."""

from __future__ import annotations

from typing import Any

import pytest
from eth_abi.abi import encode
from pydantic import ValidationError

from bridge.gmps.ccip.verification import CcipVerifiers
from bridge.gmps.verification import ADAPTER, DEFAULT, Connection
from bridge.protocol.contracts import contract
from tests.cases import for_each_case

ONE, OTHER, THIRD = ("0x" + digit * 40 for digit in "123")
LANES_OWN = "0x" + "00" * 20
SELECTOR = 10**19 + 1


def read(**section: Any) -> CcipVerifiers:
    return CcipVerifiers.read(section)


def connected(there: Any) -> Connection:
    return Connection(owner=ONE, here={"selector": 7}, there={"selector": SELECTOR}, chosen_there=there)


def test_verifier_choice_becomes_one_call() -> None:
    chosen = read(required=[DEFAULT, ONE], optional=[OTHER, THIRD], optionalThreshold=1)
    assert str(chosen) == f"verifiers the lane's own, {ONE} and 1 of {OTHER}, {THIRD}"
    (step,) = chosen.steps(connected(DEFAULT))
    assert step.asked == step.called == ADAPTER
    adapter = contract(
        "setVerifiers(uint64,address[],address[],uint8)",
        "getCCVsAndFinalityConfig(uint64,bytes) returns (address[],address[],uint8,bytes4)",
    )
    lists = ([LANES_OWN, ONE], [OTHER, THIRD], 1)
    assert step.call == adapter.encode("setVerifiers", SELECTOR, *lists)
    assert step.question == adapter.encode("getCCVsAndFinalityConfig", SELECTOR, b"")
    assert step.answer == encode(("address[]", "address[]", "uint8", "bytes4"), (*lists, bytes(4)))


@for_each_case(
    "section, complaint",
    [
        ({"required": [ONE, ONE]}, "listed more than once"),
        ({"required": [ONE], "optional": [ONE], "optionalThreshold": 1}, "listed more than once"),
        ({"required": []}, "no CCIP verifier is listed"),
        ({"required": [f"0x{number:040x}" for number in range(1, 18)]}, "at most 16 are allowed"),
        ({"required": [ONE], "optional": [OTHER]}, "optionalThreshold is 0, but 1 optional"),
        ({"required": [ONE], "optional": [OTHER], "optionalThreshold": 2}, "optionalThreshold is 2, but 1 optional"),
        ({"required": [ONE], "optional": [DEFAULT], "optionalThreshold": 1}, "optional"),
    ],
)
def test_verifiers_that_no_message_could_have_are_refused(section: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        CcipVerifiers.read(section)


def test_both_ends_name_as_many() -> None:
    chosen = read(required=[ONE])
    assert list(chosen.refusals(connected({"required": [OTHER]}))) == []
    assert "left to the default on the other" in next(chosen.refusals(connected(DEFAULT)))
    assert "different numbers" in next(chosen.refusals(connected({"required": [DEFAULT, OTHER]})))
