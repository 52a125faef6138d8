"""Why a recipient did not take a message: out of gas, no contract at all, or a contract that gives no reason."""

from __future__ import annotations

from typing import cast

import pytest
from eth_abi.abi import encode
from eth_utils import function_signature_to_4byte_selector

from bridge.domain.ports import Call, CallRevertedError, Chain
from bridge.evm.routers import RouterReader, Verdict
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import explain_refusal
from tests.builders import message

ROUTER = "0x" + "01" * 20
RECIPIENT = "0x" + "02" * 20
SELECTOR = function_signature_to_4byte_selector("ExecutionReverted(bytes32,bytes)")


class Refusing:
    """A chain whose router reports a recipient that reverts, and what stands at the recipient's address."""

    def __init__(self, reason: bytes, *, has_code: bool) -> None:
        self.reason = reason
        self.has_code = has_code

    async def call(self, call: Call, **_: object) -> bytes:
        if call.to == ROUTER:
            raise CallRevertedError(SELECTOR + encode(["bytes32", "bytes"], [bytes(32), self.reason]))
        if self.has_code:
            raise CallRevertedError(b"")
        return b""


@pytest.mark.finding("E12")
@pytest.mark.parametrize(
    ("reason", "has_code", "said"),
    [
        (b"", False, "nothing answers at 0x0202"),
        (b"", True, "its gas limit was too low, there is no contract at its address, or it gave none"),
        (b"\x01\x02\x03\x04", True, "reason=reverted with 0x01020304"),
    ],
)
async def test_a_refusal_without_a_reason_says_what_it_can_mean(reason: bytes, has_code: bool, said: str) -> None:
    reader = RouterReader(cast(Chain, Refusing(reason, has_code=has_code)), ROUTER)
    trial = await reader.try_execution(message(recipient=to_bytes32(RECIPIENT)))
    assert trial.verdict is Verdict.REFUSED
    assert said in trial.why
    assert "fix the recipient" not in trial.why


def test_a_reason_is_told_as_it_is() -> None:
    assert explain_refusal(b"") != explain_refusal(b"\x00")
