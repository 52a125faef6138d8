"""20-byte EVM addresses and the 32-byte form that messages carry."""

from __future__ import annotations

from eth_typing import ChecksumAddress
from eth_utils.address import is_address, to_checksum_address

_PADDING = bytes(12)


class AddressError(ValueError):
    """Text or bytes that are no EVM address."""


def to_bytes32(address: str) -> bytes:
    """An EVM address as 32 bytes, left-padded with zeros.

    Raises:
        AddressError: not an address, or a mixed-case one whose checksum is wrong.
    """
    if not is_address(address):
        raise AddressError(f"{address!r} is not an EVM address (0x and 40 hex digits, EIP-55 checksum if mixed case)")
    return _PADDING + bytes.fromhex(address[2:])


def from_bytes32(word: bytes) -> ChecksumAddress:
    """The EVM address in a 32-byte word.

    Raises:
        AddressError: not 32 bytes, or one of the upper 12 bytes is not zero: never cut off silently.
    """
    if len(word) != 32 or not word.startswith(_PADDING):
        raise AddressError(f"0x{word.hex()} is not an EVM address padded to 32 bytes")
    return to_checksum_address(word[12:])
