"""Which CCIP messages are read, and which are not; and how messages of CCIP 1.6 end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
import structlog
from eth_abi.abi import encode

from bridge.gmps.attestation import JsonDocuments
from bridge.gmps.ccip.adapter import MESSAGE_SENT_V1
from bridge.gmps.ccip.attester import CcipAttester
from bridge.gmps.ccip.message import CcipMessage
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import ROUTER
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import AttestationPendingError, Block, Call, Dispatch, Log, TerminalError
from tests.builders import ALPHA, BETA, word
from tests.cases import for_each_case
from tests.unit.gmps.test_adapter_dispatches import (
    DEPLOYMENT,
    DESTINATION,
    OFF_RAMP,
    SOURCE,
    adapter,
    address,
    ccip_log,
    log,
    own_message,
    packed,
)

ENVELOPE = own_message().encode()
PACKED = packed(ENVELOPE)
ON_RAMP_V1 = address("on-ramp of 1.6")
SENT_AT = 1_000_000
HOUR = 3600


def test_a_message_is_read_whole_and_again_from_its_evidence() -> None:
    (found,) = adapter(Gmp.CCIP).dispatches(ALPHA, [ccip_log(PACKED)])
    stored = replace(found, evidence=orjson.loads(orjson.dumps(found.evidence)))
    message = CcipMessage.of_dispatch(stored)
    assert message.packed == PACKED
    assert (message.off_ramp, message.gas_limit) == (OFF_RAMP, 500_000)


@for_each_case(
    "content, reason",
    [
        (packed(ENVELOPE, version=2), "unknown packed message version 02"),
        (PACKED + b"\0", "length fields add up to"),
        (PACKED[:60], "length fields add up to"),
        (packed(ENVELOPE, tokens=b"token"), "carries tokens"),
        (packed(ENVELOPE, receiver=bytes(32)), "not the 20 of an EVM address"),
    ],
)
def test_an_unreadable_message_is_an_error_with_its_transaction(content: bytes, reason: str) -> None:
    one = ccip_log(content)
    with structlog.testing.capture_logs() as lines:
        assert adapter(Gmp.CCIP).dispatches(ALPHA, [one]) == []
    (line,) = lines
    assert reason in line["reason"]
    assert (line["log_level"], line["transaction"]) == ("error", f"0x{one.transaction_hash.hex()}")


def test_a_strangers_message_is_passed_over_whatever_it_holds() -> None:
    sent = ccip_log(packed(ENVELOPE, tokens=b"token"), sender=address("stranger"))
    with structlog.testing.capture_logs() as lines:
        assert adapter(Gmp.CCIP).dispatches(ALPHA, [sent]) == []
    assert lines == []


def with_v1_lane() -> Deployment:
    gmps = {**SOURCE.gmps, "ccip": {**SOURCE.gmps["ccip"], "onRampV1": ON_RAMP_V1}}
    return DEPLOYMENT.model_copy(update={"chains": (SOURCE.model_copy(update={"gmps": gmps}), DESTINATION)})


def sent_over_v1(sender: str = SOURCE.adapters["ccip"]) -> Log:
    receiver, token = to_bytes32(DESTINATION.adapters["ccip"]), address("fee token")
    selectors = [int(chain.gmps["ccip"]["selector"]) for chain in (SOURCE, DESTINATION)]
    content: tuple[object, ...] = (
        (word("ccip id"), *selectors, 7, 0),
        sender,
        ENVELOPE,
        receiver,
        b"",
        token,
        1,
        1,
        [],
    )
    types = "((bytes32,uint64,uint64,uint64,uint64),address,bytes,bytes,bytes,address,uint256,uint256,"
    data = encode([f"{types}(address,bytes,bytes,uint256,bytes)[])"], [content])
    return log(ON_RAMP_V1, (MESSAGE_SENT_V1, encode(["uint64"], selectors[1:]), word("7")), data, 3)


def v1_dispatch() -> Dispatch:
    relayer = adapter(Gmp.CCIP, with_v1_lane())
    assert ON_RAMP_V1 in relayer.watch(ALPHA).addresses
    (dispatch,) = relayer.dispatches(ALPHA, [sent_over_v1()])
    return dispatch


def test_a_message_of_1_6_is_recognised_by_its_own_on_ramp() -> None:
    dispatch = v1_dispatch()
    assert (dispatch.envelope, dispatch.transport_id) == (ENVELOPE, f"0x{word('ccip id').hex()}")
    assert adapter(Gmp.CCIP, with_v1_lane()).dispatches(ALPHA, [sent_over_v1(address("stranger"))]) == []
    assert adapter(Gmp.CCIP).dispatches(ALPHA, [sent_over_v1()]) == []


class At:
    """A chain at a time, whose router has received every message or none."""

    def __init__(self, timestamp: int, *, is_received: bool = False) -> None:
        self._block = Block(1, bytes(32), bytes(32), timestamp)
        self._is_received = is_received

    async def call(self, call: Call, **_: object) -> bytes:
        assert (call.to, call.data[:4]) == (DESTINATION.router, ROUTER.selector("hasReceived"))
        return encode(["bool"], [self._is_received])

    async def head(self) -> Block:
        return self._block

    async def block(self, _number: int) -> Block:
        return self._block


async def attest(age: int, *, is_received: bool = False) -> bytes:
    chains: Any = {ALPHA: At(SENT_AT), BETA: At(SENT_AT + age, is_received=is_received)}
    return await CcipAttester(DEPLOYMENT, chains, (), JsonDocuments(timeout=1)).attest(v1_dispatch())


async def test_undelivered_message_of_1_6_becomes_a_dead_letter() -> None:
    with pytest.raises(AttestationPendingError, match=r"CCIP 1\.6 has not delivered 0x"):
        await attest(4 * HOUR)
    with pytest.raises(TerminalError, match="retry the message over another GMP"):
        await attest(4 * HOUR + 1)
    assert await attest(5 * HOUR, is_received=True) == b""
