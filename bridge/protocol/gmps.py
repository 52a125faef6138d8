"""The GMPs' numbers and names, and sets of GMPs."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final


class UnknownGmpError(ValueError):
    """No GMP has the given name or number."""


_TITLES: Final = {
    "HYPERLANE": "Hyperlane",
    "AXELAR": "Axelar",
    "WORMHOLE": "Wormhole",
    "LAYERZERO": "LayerZero",
    "CCIP": "CCIP",
}


class Gmp(IntEnum):
    """A GMP's stable number on chain, 1 to 16."""

    HYPERLANE = 1
    AXELAR = 2
    WORMHOLE = 3
    LAYERZERO = 4
    CCIP = 5

    @property
    def label(self) -> str:
        """Returns the name used in files, options and tables, such as ``hyperlane``."""
        return self.name.lower()

    @property
    def title(self) -> str:
        """Returns the display name, such as ``LayerZero``."""
        return _TITLES[self.name]

    @property
    def bit(self) -> int:
        """Returns the GMP's bit in an on-chain set of GMPs."""
        return 1 << (self.value - 1)

    @classmethod
    def parse(cls, name: str) -> Gmp:
        """Returns the GMP with that name.

        Raises:
            UnknownGmpError: no GMP has that name.
        """
        try:
            return cls[name.strip().upper()]
        except KeyError:
            known = ", ".join(gmp.label for gmp in cls)
            raise UnknownGmpError(f"unknown GMP {name!r}; the GMPs are {known}") from None


def gmp_label(number: int) -> str:
    """Returns the name of the GMP with that number, or a generic name if this version does not know it."""
    return Gmp(number).label if number in tuple(Gmp) else f"GMP {number}"


def gmp_title(number: int) -> str:
    """Returns the display name of the GMP with that number, even if this version does not know the GMP."""
    return Gmp(number).title if number in tuple(Gmp) else f"GMP {number}"


def gmps_from_bits(bits: int) -> frozenset[Gmp]:
    """Returns the GMPs in a ``uint16`` bit set. Numbers that this version does not know are left out."""
    return frozenset(gmp for gmp in Gmp if bits & gmp.bit)


def bits_from_gmps(gmps: Iterable[Gmp]) -> int:
    """Returns the ``uint16`` bit set of the given GMPs."""
    bits = 0
    for gmp in gmps:
        bits |= gmp.bit
    return bits
