"""What a contract refused with is said with its meaning, and what to do."""

from __future__ import annotations

from eth_utils.abi import function_signature_to_4byte_selector

from bridge.client import RefusedError
from tests.cases import for_each_case


@for_each_case(
    "error, hint",
    [
        ("NotGuardian(address)", "sign as the router's guardian or owner"),
        ("InvalidPauseEnd(uint48,uint256,uint256)", "give the pause fewer hours"),
    ],
)
def test_a_refusal_says_what_to_do(error: str, hint: str) -> None:
    data = function_signature_to_4byte_selector(error) + bytes(31) + b"\x11" + bytes(64)
    said = str(RefusedError.of("it refuses", data))
    assert said.startswith(f"it refuses: {error.partition('(')[0]}(")
    assert f"; {hint}" in said
