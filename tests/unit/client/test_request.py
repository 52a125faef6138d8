"""What a request takes, and how what was sent is printed."""

from __future__ import annotations

import pytest

from bridge.client import RouteRequest
from bridge.protocol.gmps import Gmp, UnknownGmpError


def test_names_and_text_are_as_good_as_numbers_and_bytes() -> None:
    request = RouteRequest(destination="beta", recipient="0x", payload="grüße", gmps=["hyperlane", Gmp.AXELAR])
    assert (request.named, request.data) == ((Gmp.HYPERLANE, Gmp.AXELAR), "grüße".encode())
    one = RouteRequest(destination="beta", recipient="0x", payload=b"\x00", gmps="wormhole,ccip")
    assert (one.named, one.data) == ((Gmp.WORMHOLE, Gmp.CCIP), b"\x00")
    with pytest.raises(UnknownGmpError, match="pigeon"):
        _ = RouteRequest(destination="beta", recipient="0x", payload="", gmps=["pigeon"]).named
