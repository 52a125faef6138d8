"""What is read of a message of CCIP 2.0, and what is left out."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
import structlog
from eth_abi.abi import encode
from eth_utils import keccak

from bridge.gmps.ccip.adapter import CcipContracts
from bridge.gmps.ccip.v2 import MESSAGE_SENT_V2, CcipMessageV2
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Log, TransientError
from tests.builders import ALPHA
from tests.cases import for_each_case
from tests.unit.gmps.test_adapter_dispatches import (
    DEPLOYMENT,
    DESTINATION,
    SOURCE,
    adapter,
    address,
    log,
    own_message,
)

RECEIPTS = "(address,uint32,uint32,uint256,bytes)[]"
OFF_RAMP = address("off-ramp of 2.0")
ENVELOPE = own_message().encode()


def raw(of: str) -> bytes:
    return bytes.fromhex(of[2:])


def packed(*, version: int = 1, receiver: bytes | None = None, tokens: bytes = b"", tail: bytes = b"") -> bytes:
    selectors = (CcipContracts.of(one).selector.to_bytes(8, "big") for one in (SOURCE, DESTINATION))
    gas = (900_000).to_bytes(4, "big") + (500_000).to_bytes(4, "big")
    content = bytes([version]) + b"".join(selectors) + (7).to_bytes(8, "big") + gas + bytes(4) + keccak(b"verifiers")
    on_ramp, sender = (to_bytes32(one) for one in (CcipContracts.of(SOURCE).on_ramp_v1, SOURCE.adapters["ccip"]))
    for value in (on_ramp, raw(OFF_RAMP), sender, receiver or raw(DESTINATION.adapters["ccip"])):
        content += bytes([len(value)]) + value
    for value in (b"", tokens, ENVELOPE):
        content += len(value).to_bytes(2, "big") + value
    return content + tail


def sent(content: bytes, sender: str | None = None) -> Log:
    selector = CcipContracts.of(DESTINATION).selector
    topics = (
        MESSAGE_SENT_V2,
        encode(["uint64"], [selector]),
        to_bytes32(sender or SOURCE.adapters["ccip"]),
        keccak(content),
    )
    data = encode(["address", "uint256", "bytes", RECEIPTS, "bytes[]"], [address("token"), 0, content, [], []])
    return log(CcipContracts.of(SOURCE).on_ramp_v1, topics, data, 3)


def test_ccip_2_0_message_is_read_whole_and_from_evidence() -> None:
    (found,) = adapter(Gmp.CCIP).dispatches(ALPHA, [sent(packed())])
    assert (found.envelope, found.transport_id) == (ENVELOPE, f"0x{keccak(packed()).hex()}")
    stored = replace(found, evidence=orjson.loads(orjson.dumps(found.evidence)))
    message = CcipMessageV2.of_dispatch(stored)
    assert message.packed == packed()
    assert (message.off_ramp, message.gas_limit) == (OFF_RAMP, 500_000)


def test_chain_with_both_ccip_versions_is_watched_at_both() -> None:
    other = address("on-ramp of 2.0")
    gmps = {**SOURCE.gmps, "ccip": {**SOURCE.gmps["ccip"], "onRampV2": other}}
    both = DEPLOYMENT.model_copy(update={"chains": (SOURCE.model_copy(update={"gmps": gmps}), DESTINATION)})
    relayer = adapter(Gmp.CCIP, both)
    assert relayer.watch(ALPHA).addresses == (CcipContracts.of(SOURCE).on_ramp_v1, other)
    (found,) = relayer.dispatches(ALPHA, [replace(sent(packed()), address=other)])
    assert found.envelope == ENVELOPE


def test_chain_of_2_0_needs_no_ramp_of_1_6() -> None:
    other = address("on-ramp of 2.0")
    without = {key: value for key, value in SOURCE.gmps["ccip"].items() if key not in ("onRamp", "offRamp")}
    gmps = {**SOURCE.gmps, "ccip": {**without, "onRampV2": other}}
    newer = DEPLOYMENT.model_copy(update={"chains": (SOURCE.model_copy(update={"gmps": gmps}), DESTINATION)})
    relayer = adapter(Gmp.CCIP, newer)
    assert relayer.watch(ALPHA).addresses == (other,)
    (found,) = relayer.dispatches(ALPHA, [replace(sent(packed()), address=other)])
    assert found.envelope == ENVELOPE
    with pytest.raises(TransientError, match=r"has no gmps\.ccip\.offRamp, .* run `waybill deploy` to write it"):
        _ = CcipContracts.of(newer.chain(ALPHA)).off_ramp_v1


@for_each_case(
    "content, reason",
    [
        (packed(version=2), "unknown version 02"),
        (packed(tail=b"\0"), "length fields add up to"),
        (packed()[:60], "length fields add up to"),
        (packed(tokens=b"token"), "carries tokens"),
        (packed(receiver=bytes(32)), "20-byte addresses"),
    ],
)
def test_own_unreadable_dispatch_is_an_error(content: bytes, reason: str) -> None:
    one = sent(content)
    with structlog.testing.capture_logs() as lines:
        assert adapter(Gmp.CCIP).dispatches(ALPHA, [one]) == []
    (line,) = lines
    assert reason in line["reason"]
    assert (line["log_level"], line["transaction"]) == ("error", f"0x{one.transaction_hash.hex()}")


def test_a_strangers_message_is_passed_over_whatever_it_holds() -> None:
    with structlog.testing.capture_logs() as lines:
        assert adapter(Gmp.CCIP).dispatches(ALPHA, [sent(packed(tokens=b"token"), address("stranger"))]) == []
    assert lines == []
