"""Addresses as text: a digit that was mistyped is not taken for another address."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from bridge.protocol import deployment
from bridge.protocol.addresses import AddressError, checksummed, from_bytes32, to_bytes32
from bridge.settings import values
from tests.cases import for_each_case

RIGHT = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"


@pytest.mark.parametrize("text", [RIGHT, RIGHT.lower(), f"0x{RIGHT[2:].upper()}"])
def test_address_is_accepted_in_one_case_or_checksummed(text: str) -> None:
    assert checksummed(text) == RIGHT == from_bytes32(to_bytes32(text))


def test_possible_private_key_is_refused_and_hidden() -> None:
    key = "ab" * 32
    for text in (key, f"0x{key}"):
        with pytest.raises(AddressError, match="expected an EVM address with 40 hex digits, got 64") as refused:
            checksummed(text)
        assert key not in str(refused.value)
        with pytest.raises(ValidationError) as invalid:
            TypeAdapter(deployment.Address).validate_python(text)
        assert key not in "".join(one["msg"] for one in invalid.value.errors())


@for_each_case(
    "text",
    [
        RIGHT.replace("3C", "3c"),  # one letter's case
        RIGHT.replace("BC", "BD"),  # one digit
        RIGHT[2:],
        RIGHT[2:].lower(),
        RIGHT[:-1],
        f"{RIGHT}\n",
        "",
    ],
)
def test_invalid_address_is_refused_everywhere(text: str) -> None:
    for read in (checksummed, to_bytes32):
        with pytest.raises(AddressError, match="EIP-55 checksum"):
            read(text)
    for kind in (deployment.Address, values.Address):
        with pytest.raises(ValidationError, match="EIP-55 checksum"):
            TypeAdapter(kind).validate_python(text)
