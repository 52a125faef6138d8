"""Retries by a sending contract on behalf of accounts that it appointed (`IRouterClient`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridge.protocol.contracts import Contract, message_tuple
from bridge.protocol.events import load_abi
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import Message
from bridge.protocol.ports import Call, CallRevertedError, Chain

_CLIENT: Final = Contract(load_abi("AtomicCoordinator"))
"""A contract that inherits `retry` and `isRetrier` from RouterClient, as every client does."""


def contract_retry_call(message: Message, sender: str, fees: Sequence[tuple[Gmp, int]], refund_to: str) -> Call:
    """Returns the call that makes a contract retry its own message for one of its retriers (`IRouterClient.retry`)."""
    named = [(int(gmp), fee) for gmp, fee in fees]
    data = _CLIENT.encode("retry", (message.id, message_tuple(message), 1, named, refund_to))
    return Call(to=sender, data=data, value=sum(fee for _, fee in fees))


async def is_contract_retrier(chain: Chain, sender: str, account: str) -> bool:
    """Returns whether a message's sender is a contract that allows the account to retry its messages."""
    try:
        answer = await chain.call(Call(to=sender, data=_CLIENT.encode("isRetrier", account)))
    except CallRevertedError:
        return False
    return answer == (1).to_bytes(32, "big")
