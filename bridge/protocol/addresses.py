"""20-byte EVM addresses, the 32-byte form that messages carry, and the addresses of created contracts."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from eth_typing import ChecksumAddress
from eth_utils import decode_hex, keccak
from eth_utils.address import to_canonical_address, to_checksum_address

_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}")
_KEY: Final = re.compile(r"(0x)?[0-9a-fA-F]{64}")
_PADDING = bytes(12)

# The proxy that OpenZeppelin's Create3 deploys at the salt's address; the first contract it creates is the one asked for.
_CREATE3_PROXY: Final = bytes.fromhex("73365f5f37365f34f06012573d5f5f3e3d5ffd5b005f526014600cf3")
# RLP of a creator's address and its nonce 1: the bytes before and after the address.
_FIRST_CREATION: Final = (bytes.fromhex("d694"), b"\x01")

ADAPTER_NUMBERS: Final = range(1, 8)
"""The numbers under which a router can create adapters of one GMP."""


class AddressError(ValueError):
    """Raised for text or bytes that are not an EVM address."""


@lru_cache(maxsize=4096)  # a checksum costs a hash, and the same few addresses recur
def checksummed(text: str) -> ChecksumAddress:
    """Returns an EVM address with its EIP-55 checksum.

    Raises:
        AddressError: the text is not an address, or is mixed-case with a wrong checksum.
    """
    if _KEY.fullmatch(text):
        raise AddressError(
            "expected an EVM address with 40 hex digits, got 64; the value is not shown because it may be a private key"
        )
    if not _ADDRESS.fullmatch(text):
        raise AddressError(f"{text!r} is not an EVM address (0x and 40 hex digits, EIP-55 checksum if mixed case)")
    address = to_checksum_address(text)
    if text != address and text[2:] not in (text[2:].lower(), text[2:].upper()):
        raise AddressError(
            f"{text!r} has a wrong EIP-55 checksum: check for a mistyped digit, or write the address in lower case"
        )
    return address


def to_bytes32(address: str) -> bytes:
    """Returns an EVM address as 32 bytes, left-padded with zeros. Raises the same errors as `checksummed`."""
    return _PADDING + decode_hex(checksummed(address))


@lru_cache(maxsize=4096)  # as above
def from_bytes32(word: bytes) -> ChecksumAddress:
    """Returns the EVM address in a 32-byte word.

    Raises:
        AddressError: the word does not have 32 bytes, or one of its upper 12 bytes is not zero. Nothing is ever
            truncated.
    """
    if len(word) != 32 or not word.startswith(_PADDING):
        raise AddressError(f"0x{word.hex()} is not an EVM address padded to 32 bytes")
    return to_checksum_address(word[12:])


def create2_address(creator: str, salt: bytes, code: bytes) -> ChecksumAddress:
    """Returns the address of a contract that another contract creates with `CREATE2`."""
    packed = b"\xff" + to_canonical_address(creator) + salt + keccak(code)
    return to_checksum_address(keccak(packed)[12:])


def created_adapter(router: str, gmp: int, number: int) -> ChecksumAddress:
    """Returns the address of the adapter that a router's `createAdapter` creates for a GMP and number."""
    proxy = create2_address(router, (gmp << 8 | number).to_bytes(32, "big"), _CREATE3_PROXY)
    before, after = _FIRST_CREATION
    return to_checksum_address(keccak(before + to_canonical_address(proxy) + after)[12:])
