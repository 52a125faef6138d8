"""What an adapter still has to send, by what the destination's router says."""

from __future__ import annotations

from typing import cast

import pytest
from eth_abi.abi import encode

from bridge.domain.ports import Call, CallRevertedError, Chain
from bridge.gmps.registry import adapter_class
from bridge.protocol.contracts import ROUTER
from bridge.protocol.gmps import Gmp
from tests.builders import ALPHA, BETA
from tests.unit.gmps.test_adapter_dispatches import (
    DEPLOYMENT,
    DESTINATION,
    NoAttester,
    Sent,
    dispatches,
    every_gmp,
    own_message,
)


class Delivered:
    """A destination whose router has the receipt, and whose GMP refuses all that was delivered before."""

    chain_id = BETA

    async def call(self, call: Call, **_: object) -> bytes:
        if call.to == DESTINATION.router and call.data[:4] == ROUTER.selector("hasReceived"):
            return encode(["bool"], [True])
        raise CallRevertedError(b"")


@pytest.mark.requirement("OBX-11", "OBX-26")
@every_gmp
async def test_what_was_delivered_before_is_done_and_needs_no_call(gmp: Gmp) -> None:
    (dispatch,) = dispatches(gmp, Sent(envelope=own_message().encode()))
    chain = cast(Chain, Delivered())
    adapter = adapter_class(gmp)(DEPLOYMENT, {ALPHA: chain, BETA: chain}, NoAttester())
    assert await adapter.next_call(dispatch, b"") is None
