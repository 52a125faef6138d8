"""What contracts refuse with, as sentences."""

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from bridge.protocol.contracts import explain_revert


@pytest.mark.finding("N3")
def test_a_send_that_too_few_gmps_take_is_explained_by_each_gmps_own_reason() -> None:
    low = keccak(text="WrongFee(uint256,uint256)")[:4] + encode(["uint256", "uint256"], [4, 5])
    refused = keccak(text="TooFewDispatched(uint256,uint256,(uint8,bytes)[])")[:4] + encode(
        ["uint256", "uint256", "(uint8,bytes)[]"], [0, 1, [(1, low), (2, b"")]]
    )
    assert explain_revert(refused) == (
        "TooFewDispatched(dispatched=0, minimum=1, "
        "failures=[{gmp=hyperlane, reason=WrongFee(value=4, fee=5)}, {gmp=axelar, reason=reverted without a reason}])"
    )


@pytest.mark.finding("R1")
def test_reasons_that_a_lying_node_nests_without_end_are_told_in_short() -> None:
    nested = b""
    for _ in range(3_000):
        nested = keccak(text="ExecutionReverted(bytes)")[:4] + encode(["bytes"], [nested])
    assert len(explain_revert(nested)) < 2_000
    assert len(explain_revert(b"\x12" * 1_000_000)) < 1_000
