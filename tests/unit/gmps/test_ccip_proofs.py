"""CCIP 1.6 on a public network: the relayer waits for CCIP's nodes, and proves from logs what they failed to execute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_utils import keccak
from hypothesis import given
from hypothesis import strategies as st

from bridge.gmps.attestation import JsonDocuments
from bridge.gmps.ccip.adapter import OFF_RAMP, SUCCESS, CcipContracts, CcipMessage, encode_proof
from bridge.gmps.ccip.attester import CcipAttester
from bridge.gmps.ccip.proofs import CommitReader, CommittedRoot, leaf, root_and_path
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import AttestationPendingError, Block, Call, Dispatch, Log, TransientError
from tests.builders import ALPHA, BETA
from tests.unit.gmps.test_adapter_dispatches import DEPLOYMENT, DESTINATION, SOURCE, Sent, dispatches, own_message

UNTOUCHED, IN_PROGRESS = 0, 1
DELAY = 3600  # seconds after which an off-ramp takes a proof from anyone
SENT_AT = 1_000_000


class Destination:
    """A chain whose off-ramp says in which state every message is."""

    def __init__(self, state: int, now: int) -> None:
        self.state = state
        self.now = now
        self.calls: list[Call] = []

    async def call(self, call: Call, **_: object) -> bytes:
        self.calls.append(call)
        if call.data[:4] == OFF_RAMP.selector("getExecutionState"):
            return encode(["uint8"], [self.state])
        return encode(["(address,uint32,address)"], [("0x" + "11" * 20, DELAY, "0x" + "11" * 20)])

    async def head(self) -> Block:
        return Block(1, bytes(32), bytes(32), self.now)


class Source:
    """A chain with the logs given."""

    def __init__(self, logs: Sequence[Log] = ()) -> None:
        self._logs = logs

    async def block(self, number: int) -> Block:
        return Block(number, bytes(32), bytes(32), SENT_AT)

    async def head(self) -> Block:
        return await self.block(10_000)

    async def logs(self, first: int, last: int, *_: object) -> list[Log]:
        return [log for log in self._logs if first <= log.block_number <= last]


def sent() -> Dispatch:
    (dispatch,) = dispatches(Gmp.CCIP, Sent(envelope=own_message().encode()))
    return dispatch


async def attest(state: int, now: int, destination: Destination | None = None) -> bytes:
    chains: Any = {ALPHA: Source(), BETA: destination or Destination(state, now)}
    return await CcipAttester(DEPLOYMENT, chains, (), JsonDocuments(timeout=1)).attest(sent())


async def test_the_off_ramp_is_asked_for_the_messages_source_and_place() -> None:
    destination = Destination(SUCCESS, SENT_AT)
    assert await attest(SUCCESS, SENT_AT, destination) == encode_proof([], manually=True), "there is nothing to prove"
    (call,) = destination.calls
    assert call.to == CcipContracts.of(DESTINATION).off_ramp_v1
    assert call.data == OFF_RAMP.encode("getExecutionState", CcipContracts.of(SOURCE).selector, 7)


@pytest.mark.parametrize("state", [UNTOUCHED, IN_PROGRESS])
async def test_off_ramp_delay_blames_nobody(state: int) -> None:
    with pytest.raises(AttestationPendingError, match="CCIP's nodes have not executed 0x"):
        await attest(state, SENT_AT + DELAY)


@given(st.integers(1, 70), st.data())
def test_a_path_leads_from_each_leaf_to_the_root(count: int, data: st.DataObject) -> None:
    leaves = [keccak(bytes([number])) for number in range(count)]
    place = data.draw(st.integers(0, count - 1))
    root, path = root_and_path(leaves, place)
    node = leaves[place]
    for beside in path:
        node = keccak(bytes(31) + b"\x01" + min(node, beside) + max(node, beside))
    assert node == root
    assert len(path) == (count - 1).bit_length()


def test_beside_the_last_node_of_an_odd_layer_are_ones() -> None:
    def parent(one: bytes, other: bytes) -> bytes:
        return keccak(bytes(31) + b"\x01" + min(one, other) + max(one, other))

    first, second, third = (keccak(bytes([number])) for number in range(3))
    nothing = bytes.fromhex("ff" * 32)
    pair = parent(first, second)
    assert root_and_path([first, second, third], 2) == (parent(pair, parent(third, nothing)), [nothing, pair])


async def test_a_root_that_the_sources_logs_do_not_make_is_no_proof() -> None:
    dispatch = sent()
    message = CcipMessage.of_dispatch(dispatch)
    chains: Any = {ALPHA: Source()}
    reader = CommitReader(DEPLOYMENT, chains)
    own = leaf(message, CcipContracts.of(SOURCE).on_ramp_v1)
    assert await reader.prove(dispatch, CommittedRoot(own, message.sequence, message.sequence)) == []
    with pytest.raises(TransientError, match="follow the same chain as the oracles"):
        await reader.prove(dispatch, CommittedRoot(bytes(32), message.sequence, message.sequence))
    with pytest.raises(TransientError, match="has no log of CCIP messages 8, 9 to chain"):
        await reader.prove(dispatch, CommittedRoot(own, message.sequence, message.sequence + 2))


def test_tokens_that_a_stranger_sends_are_part_of_the_leaf() -> None:
    message, on_ramp = CcipMessage.of_dispatch(sent()), CcipContracts.of(SOURCE).on_ramp_v1
    tokens = ((bytes(32), "0x" + "22" * 20, 90_000, b"", 5),)
    assert leaf(replace(message, tokens=tokens), on_ramp) != leaf(message, on_ramp)
