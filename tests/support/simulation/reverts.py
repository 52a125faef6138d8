"""How simulated contracts refuse."""

from __future__ import annotations

from typing import Any

from eth_abi.abi import encode
from eth_utils import keccak


class RevertedError(Exception):
    """A contract refused."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data.hex())
        self.data = data


def refusal(signature: str, *values: Any) -> RevertedError:
    """The error of that signature."""
    types = [kind for kind in signature[signature.index("(") + 1 : -1].split(",") if kind]
    return RevertedError(keccak(text=signature)[:4] + encode(types, values))
