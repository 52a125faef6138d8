"""CCIP's verification: the verifier resolvers that an adapter requires for the messages it sends and receives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Self

from eth_abi.abi import encode
from pydantic import model_validator

from bridge.gmps.verification import ADAPTER, DEFAULT, Connection, Step, ThresholdVerification
from bridge.protocol.contracts import contract
from bridge.protocol.deployment import Address

_MAX_VERIFIERS: Final = 16  # the adapter contract's limit
_FULL_FINALITY: Final = bytes(4)
_CONTRACT: Final = contract(
    "setVerifiers(uint64,address[],address[],uint8)",
    "getCCVsAndFinalityConfig(uint64,bytes) returns (address[],address[],uint8,bytes4)",
)
_LANES_OWN: Final = "0x" + "00" * 20  # the adapter's value for the lane's default verifiers


class CcipVerifiers(ThresholdVerification):
    """Resolvers on one chain, for its lanes with all other chains. Lanes of CCIP 1.6 do not support resolvers."""

    NOUN = "CCIP verifier"

    required: tuple[Address | Literal["default"], ...]
    """Verifiers that must all approve; `"default"` stands for the lane's own."""
    optional: tuple[Address, ...] = ()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (count := len(self.required) + len(self.optional)) > _MAX_VERIFIERS:
            raise ValueError(f"{count} verifiers are listed; at most {_MAX_VERIFIERS} are allowed")
        return self

    @property
    def lists(self) -> tuple[Sequence[str], Sequence[str]]:
        """See `ThresholdVerification.lists`."""
        return self.required, self.optional

    @property
    def verifiers(self) -> None:
        """See `Verification.verifiers`. Returns None, because a resolver may stand for a committee."""

    def __str__(self) -> str:
        """See `Verification.__str__`."""
        required = ", ".join("the lane's own" if resolver == DEFAULT else resolver for resolver in self.required)
        optional = f"{self.optional_threshold} of {', '.join(self.optional)}" if self.optional else ""
        return f"verifiers {' and '.join(filter(None, (required, optional)))}"

    def steps(self, connection: Connection) -> Sequence[Step]:
        """See `Verification.steps`."""
        selector = int(connection.there["selector"])
        required = [_LANES_OWN if resolver == DEFAULT else resolver for resolver in self.required]
        settings = (required, list(self.optional), self.optional_threshold)
        return (
            Step(
                f"CCIP's verifiers for {selector}",
                ADAPTER,
                _CONTRACT.encode("getCCVsAndFinalityConfig", selector, b""),
                encode(("address[]", "address[]", "uint8", "bytes4"), (*settings, _FULL_FINALITY)),
                ADAPTER,
                _CONTRACT.encode("setVerifiers", selector, *settings),
            ),
        )
