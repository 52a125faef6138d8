"""On a public network CCIP's own nodes execute: the relayer waits for them, and says what a human has to do after a failure."""

from __future__ import annotations

from typing import Any

import pytest
from eth_abi.abi import encode

from bridge.domain.classification import classify
from bridge.domain.failures import Failure, FailureKind
from bridge.domain.outbox import OutboxEntry
from bridge.domain.ports import Call, Dispatch, ProofPendingError, RecipientFailedError
from bridge.gmps.ccip.adapter import FAILURE, OFF_RAMP, SUCCESS, CcipContracts
from bridge.gmps.ccip.attester import CcipExecutions
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Kind
from bridge.queries.explain import Kept, explain
from tests.builders import BETA
from tests.unit.gmps.test_adapter_dispatches import DEPLOYMENT, DESTINATION, SOURCE, Sent, dispatches, own_message

UNTOUCHED, IN_PROGRESS = 0, 1


class OffRamp:
    """A destination whose off-ramp says in which state every message is."""

    def __init__(self, state: int) -> None:
        self.state = state
        self.calls: list[Call] = []

    async def call(self, call: Call, **_: object) -> bytes:
        self.calls.append(call)
        return encode(["uint8"], [self.state])


def sent() -> Dispatch:
    (dispatch,) = dispatches(Gmp.CCIP, Sent(envelope=own_message().encode()))
    return dispatch


async def attest(state: int) -> bytes:
    chains: Any = {BETA: OffRamp(state)}
    return await CcipExecutions(DEPLOYMENT, chains).attest(sent())


async def test_the_off_ramp_is_asked_for_the_messages_source_and_place() -> None:
    off_ramp = OffRamp(SUCCESS)
    chains: Any = {BETA: off_ramp}
    assert await CcipExecutions(DEPLOYMENT, chains).attest(sent()) == b"", "there is nothing to hand in"
    (call,) = off_ramp.calls
    assert call.to == CcipContracts.of(DESTINATION).off_ramp
    assert call.data == OFF_RAMP.encode("getExecutionState", CcipContracts.of(SOURCE).selector, 7)


@pytest.mark.parametrize("state", [UNTOUCHED, IN_PROGRESS])
async def test_until_the_nodes_have_executed_it_is_waited_for_and_nobody_is_to_blame(state: int) -> None:
    with pytest.raises(ProofPendingError, match="CCIP's nodes have not executed 0x"):
        await attest(state)


async def test_a_failed_execution_is_told_with_the_chain_and_what_to_do_as_the_recipients_fault() -> None:
    with pytest.raises(RecipientFailedError, match="failed on beta; execute it manually in the CCIP explorer"):
        await attest(FAILURE)


async def test_explain_says_that_a_failed_execution_needs_somebody_in_the_ccip_explorer() -> None:
    with pytest.raises(RecipientFailedError) as raised:
        await attest(FAILURE)
    claimed = OutboxEntry.new(sent(), 0, Kind.PLAIN, 0).claimed("worker", 0, 30)
    failure = Failure(
        at=0,
        kind=classify(raised.value).kind or FailureKind.UNKNOWN,
        code="RecipientFailedError",
        message=str(raised.value),
    )
    entry = claimed.retried(claimed.claim_held, failure, 60)
    found = explain(own_message(), Kept(entries=[entry]), receipts=frozenset(), executed=False, now=0)
    assert "ccip failed once" in found.reason
    assert "execute it manually in the CCIP explorer" in found.reason
