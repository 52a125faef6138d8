"""What is read from routers: why a recipient did not take a message, and which messages a chain created."""

from __future__ import annotations

from typing import Any, cast

import pytest
from eth_abi.abi import encode
from eth_utils import function_signature_to_4byte_selector

from bridge.evm.routers import RouterReader, TrialResult, created_messages
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import explain_refusal
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.events import MessageRouted, MessageUnfunded
from bridge.protocol.guarantee import IdempotencyStrategy
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, CallRevertedError, Chain, Log
from tests.builders import ALPHA, block, message, word
from tests.support.simulation.contracts import event_log

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


@pytest.mark.parametrize(
    ("reason", "has_code", "said"),
    [
        (b"", False, "has no code, so the message can't be executed"),
        (b"", True, "its gas limit was too low, there is no contract at its address, or it gave none"),
        (b"\x01\x02\x03\x04", True, "reason=reverted with 0x01020304"),
    ],
)
async def test_a_refusal_without_a_reason_says_what_it_can_mean(reason: bytes, has_code: bool, said: str) -> None:
    reader = RouterReader(cast(Chain, Refusing(reason, has_code=has_code)), ROUTER)
    trial = await reader.try_execution(message(recipient=to_bytes32(RECIPIENT)))
    assert trial.result is TrialResult.REFUSED
    assert said in trial.why
    assert "fix the recipient" not in trial.why


class Guarded:
    """A chain whose recipient answers some views, and all others as an account without code or a fallback does."""

    def __init__(self, *views: str, fallback: bool) -> None:
        self.selectors = {function_signature_to_4byte_selector(view) for view in views}
        self.fallback = fallback

    async def call(self, call: Call, **_: object) -> bytes:
        assert call.to == RECIPIENT
        if call.data[:4] in self.selectors:
            return bytes(32)
        if self.fallback:
            return b""
        raise CallRevertedError(b"")


@pytest.mark.parametrize("fallback", [False, True])
@pytest.mark.parametrize(
    ("views", "guards"),
    [
        ((), set()),
        (("currentStateHash(bytes32)",), {IdempotencyStrategy.MESSAGE_ID_PLUS_STATE_HASH}),
        (("lastSequence(bytes32)",), {IdempotencyStrategy.MESSAGE_ID_PLUS_NONCE}),
    ],
)
async def test_a_recipient_has_the_guards_whose_views_it_answers(
    views: tuple[str, ...], guards: set[IdempotencyStrategy], fallback: bool
) -> None:
    reader = RouterReader(cast(Chain, Guarded(*views, fallback=fallback)), ROUTER)
    assert await reader.guards(message(recipient=to_bytes32(RECIPIENT))) == guards
    assert await reader.guards(message(recipient=bytes([1]) * 32)) == frozenset(), "no address"


def test_a_reason_is_told_as_it_is() -> None:
    assert explain_refusal(b"") != explain_refusal(b"\x00")


class Creating:
    """A chain whose router has emitted those events, one to a block from block 7,000 on."""

    def __init__(self, *events: MessageRouted | MessageUnfunded) -> None:
        self.events = events
        self.asked: list[tuple[int, int]] = []

    async def head(self) -> Any:
        return block(12_000)

    async def logs(self, first: int, last: int, *_: object) -> list[Log]:
        self.asked.append((first, last))
        return [
            Log(
                address=ROUTER,
                topics=event_log(event)[1],
                data=event_log(event)[2],
                block_number=number,
                block_hash=word("block"),
                transaction_hash=word("transaction"),
                log_index=0,
            )
            for number, event in enumerate(self.events, 7_000)
            if first <= number <= last
        ]


def created(sent: Message, event: type[MessageRouted | MessageUnfunded] = MessageRouted, **changes: Any) -> Any:
    values = {"message_id": sent.id, "retriable": True, "gmps": 1, "envelope": sent.encode(), **changes}
    return event(destination_chain=sent.destination_chain, **values)


DEPLOYED = ChainDeployment(
    chain_id=ALPHA, name="alpha", rpc_urls=("-",), start_block=3, confirmations=0, router=ROUTER, adapters={}, gmps={}
)


async def test_created_messages_are_read_in_order_without_lies() -> None:
    first, second = message(1), message(2)
    chain = Creating(
        created(first, MessageUnfunded),
        created(second, envelope=first.encode()),  # the envelope of another message
        created(second, envelope=b"\x07"),  # no envelope
        created(first),
        created(second),
    )
    found = [(type(event), sent) async for event, sent in created_messages(cast(Chain, chain), DEPLOYED)]
    assert found == [(MessageUnfunded, first), (MessageRouted, first), (MessageRouted, second)]
    assert chain.asked == [(3, 5_002), (5_003, 10_002), (10_003, 12_000)]


async def test_one_block_alone_is_read_where_it_is_known() -> None:
    chain = Creating(created(message(1)), created(message(2)))
    assert [sent async for _, sent in created_messages(cast(Chain, chain), DEPLOYED, block=7_001)] == [message(2)]
    assert chain.asked == [(7_001, 7_001)]
