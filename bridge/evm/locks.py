"""Reads a message's lock from its recipient (`contracts/interfaces/ILockedRecipient.sol`)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from bridge.protocol.contracts import Contract
from bridge.protocol.events import load_abi
from bridge.protocol.ports import Call, CallRevertedError, Chain

LOCKED_RECIPIENT: Final = Contract(load_abi("ILockedRecipient"))


class MessageLock(IntEnum):
    """The state of a message's lock. The numbers are those of the contract."""

    NONE = 0
    HELD = 1
    EXPIRED = 2
    LOST = 3


async def message_lock(chain: Chain, recipient: str, payload: bytes) -> MessageLock:
    """Reads a message's lock from its recipient. Returns NONE if the recipient does not have the view function.

    Raises:
        TransientError: the chain does not respond.
    """
    try:
        answer = await chain.call(Call(to=recipient, data=LOCKED_RECIPIENT.encode("lockFor", payload)))
    except CallRevertedError:
        return MessageLock.NONE
    number = int.from_bytes(answer[:32], "big")
    return MessageLock(number) if len(answer) == 64 and number in list(MessageLock) else MessageLock.NONE


def retake_lock_call(recipient: str, payload: bytes) -> Call:
    """Returns the call that retakes a message's expired lock."""
    return Call(to=recipient, data=LOCKED_RECIPIENT.encode("retakeLock", payload))
