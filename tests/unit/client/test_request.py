"""What a request takes, and how what was sent is printed."""

from __future__ import annotations

import pytest

from bridge.client import RouteRequest, Sent
from bridge.protocol.gmps import Gmp, UnknownGmpError
from bridge.protocol.ports import Receipt
from tests import builders


def test_names_and_text_are_as_good_as_numbers_and_bytes() -> None:
    request = RouteRequest(destination="beta", recipient="0x", payload="grüße", gmps=["hyperlane", Gmp.AXELAR])
    assert (request.named, request.data) == ((Gmp.HYPERLANE, Gmp.AXELAR), "grüße".encode())
    one = RouteRequest(destination="beta", recipient="0x", payload=b"\x00", gmps="wormhole,ccip")
    assert (one.named, one.data) == ((Gmp.WORMHOLE, Gmp.CCIP), b"\x00")
    with pytest.raises(UnknownGmpError, match="pigeon"):
        _ = RouteRequest(destination="beta", recipient="0x", payload="", gmps=["pigeon"]).named


def test_a_sent_message_prints_as_one_line() -> None:
    message = builders.message()
    sent = Sent(
        message=message,
        attempt=0,
        gmps=frozenset({Gmp.HYPERLANE}),
        failed=frozenset({Gmp.AXELAR}),
        fee=5,
        receipt=Receipt(
            transaction_hash=b"\x12", block_number=1, block_hash=b"block", succeeded=True, gas_used=21_000, logs=()
        ),
    )
    assert str(sent) == (
        f"message 0x{message.id.hex()}, attempt 0, over hyperlane, refused by axelar; fee 5 wei; transaction 0x12"
    )
    assert "block" not in repr(sent)
