"""CCIP 2.0's verifiers: the resolvers on a chain that an adapter names, for what it sends and for what arrives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, Self

from eth_abi.abi import encode
from pydantic import Field, model_validator

from bridge.gmps.verification import ADAPTER, DEFAULT, Connection, Step, Verification
from bridge.protocol.contracts import contract
from bridge.protocol.deployment import Address

_MOST: Final = 16  # as the adapter has it
_FULL_FINALITY: Final = bytes(4)
_CONTRACT: Final = contract(
    "setVerifiers(uint64,address[],address[],uint8)",
    "getCCVsAndFinalityConfig(uint64,bytes) returns (address[],address[],uint8,bytes4)",
)
_LANES_OWN: Final = "0x" + "00" * 20  # as the adapter names the lane's default ones


class CcipVerifiers(Verification):
    """Resolvers on one chain, for its lanes with all others. Lanes of 1.6 have their committee, and know no verifiers."""

    required: tuple[Address | Literal["default"], ...]
    """All must have verified; `"default"` stands for those of the lane."""
    optional: tuple[Address, ...] = ()
    optional_threshold: int = Field(default=0, ge=0, lt=256)

    @model_validator(mode="after")
    def _can_be_reached(self) -> Self:
        named = (*self.required, *self.optional)
        if len(set(named)) != len(named):
            raise ValueError("a verifier is named twice")
        if not 0 < len(named) <= _MOST:
            raise ValueError(f"{len(named)} verifiers are named; name 1 to {_MOST}")
        if self.optional_threshold > len(self.optional) or bool(self.optional) != bool(self.optional_threshold):
            raise ValueError(
                f"optionalThreshold is {self.optional_threshold}, of {len(self.optional)} optional verifiers"
            )
        return self

    @property
    def verifiers(self) -> None:
        """See `Verification.verifiers`. Behind one resolver may be a committee."""

    def __str__(self) -> str:
        """See `Verification.__str__`."""
        required = ", ".join("the lane's own" if one == DEFAULT else one for one in self.required)
        optional = f"{self.optional_threshold} of {', '.join(self.optional)}" if self.optional else ""
        return f"verifiers {' and '.join(filter(None, (required, optional)))}"

    def refusals(self, connection: Connection) -> Iterator[str]:
        """See `Verification.refusals`. A verifier that only one end names never signs, or signs for nothing."""
        there = connection.chosen_there
        if there == DEFAULT:
            yield "CCIP's verifiers are named on one end and left to the default on the other"
        else:
            other = CcipVerifiers.read(there)
            if (len(self.required), len(self.optional)) != (len(other.required), len(other.optional)):
                yield "the two ends name different numbers of CCIP's verifiers"

    def steps(self, connection: Connection) -> Sequence[Step]:
        """See `Verification.steps`."""
        selector = int(connection.there["selector"])
        required = [_LANES_OWN if one == DEFAULT else one for one in self.required]
        chosen = (required, list(self.optional), self.optional_threshold)
        return (
            Step(
                f"CCIP's verifiers for {selector}",
                ADAPTER,
                _CONTRACT.encode("getCCVsAndFinalityConfig", selector, b""),
                encode(("address[]", "address[]", "uint8", "bytes4"), (*chosen, _FULL_FINALITY)),
                ADAPTER,
                _CONTRACT.encode("setVerifiers", selector, *chosen),
            ),
        )
