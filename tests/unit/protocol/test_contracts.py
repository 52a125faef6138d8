"""What contracts refuse with, as sentences."""

from eth_abi.abi import encode
from eth_utils.abi import function_signature_to_4byte_selector
from eth_utils.crypto import keccak
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.protocol.classification import code_of
from bridge.protocol.contracts import ROUTER, _known_errors, decode_revert, explain_revert
from bridge.protocol.ports import CallRevertedError


def test_failed_send_is_explained_by_each_gmps_reason() -> None:
    low = keccak(text="WrongFee(uint256,uint256)")[:4] + encode(["uint256", "uint256"], [4, 5])
    refused = keccak(text="TooFewDispatched(uint256,uint256,(uint8,bytes)[])")[:4] + encode(
        ["uint256", "uint256", "(uint8,bytes)[]"], [0, 1, [(1, low), (2, b"")]]
    )
    assert explain_revert(refused) == (
        "TooFewDispatched(dispatched=0, minimum=1, "
        "failures=[{gmp=hyperlane, reason=WrongFee(value=4, fee=5)}, {gmp=axelar, reason=reverted without a reason}])"
    )


def test_endless_nested_reasons_are_cut() -> None:
    nested = b""
    for _ in range(3_000):
        nested = keccak(text="ExecutionReverted(bytes)")[:4] + encode(["bytes"], [nested])
    assert len(explain_revert(nested)) < 2_000
    assert len(explain_revert(b"\x12" * 1_000_000)) < 1_000


WORDS = (0, 1, 2, 31, 32, 64, 2**40, 2**63, 2**64 - 1, 2**64, 2**255, 2**256 - 1)
SELECTORS = sorted(_known_errors())


@given(
    selector=st.sampled_from(SELECTORS),
    words=st.lists(st.sampled_from(WORDS) | st.integers(0, 2**256 - 1), max_size=9),
    rest=st.binary(max_size=40),
)
@example(selector=function_signature_to_4byte_selector("Error(string)"), words=[32, 2**63], rest=b"")
def test_whatever_bytes_a_revert_has_it_is_told_and_classified(selector: bytes, words: list[int], rest: bytes) -> None:
    data = selector + b"".join(word.to_bytes(32, "big") for word in words) + rest
    assert explain_revert(data)
    assert decode_revert(data) is not None
    ROUTER.error(data)
    assert code_of(CallRevertedError(data))
