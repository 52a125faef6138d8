"""Messages of atomic actions, encoded as contracts/atomic does."""

from __future__ import annotations

from dataclasses import astuple, replace

from eth_abi.abi import encode
from eth_utils import keccak
from eth_utils.address import to_checksum_address

from bridge.atomic.reader import Coordinator
from bridge.atomic.records import BranchState, Level, Phase, Window
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.message import Kind, Message
from tests.support.actions import WINDOW

COORDINATOR = Coordinator(31337, to_checksum_address("0x" + "c0" * 20))
PARTICIPANTS = ("0x" + "0" * 38 + "01", "0x" + "0" * 38 + "02")
SUBJECT = bytes(31) + b"\1"

_INSTRUCTION = "(uint8,uint8,uint64,uint8,bytes32,(uint32,uint32,uint32,uint32,uint32),bytes)"
_REPLY = "(uint8,bytes32,uint8,uint8,bytes32)"


def action_id_of(number: int) -> bytes:
    """The id of an action of that coordinator."""
    return keccak(encode(["uint64", "address", "uint64"], [COORDINATOR.chain, COORDINATOR.address, number]))


def freeze() -> bytes:
    """A change that `AtomicAssets` reads."""
    return encode(["uint8", "address", "uint128"], [0, "0x" + "00" * 20, 0])


def instruction(
    made: Message, phase: Phase, *, number: int, branch: int, window: Window = WINDOW, change: bytes = b""
) -> Message:
    """A message of the coordinator to a participant; the rest is as `made` has it."""
    said = (phase, Level.ALL_OR_NOTHING, number, branch, SUBJECT, astuple(window), change)
    return replace(
        made,
        sender=to_bytes32(COORDINATOR.address),
        recipient=to_bytes32(PARTICIPANTS[branch]),
        payload=encode([_INSTRUCTION], [said]),
        kind=Kind.LOCK_MANAGEMENT,
    )


def reply(made: Message, phase: Phase, state: BranchState, *, number: int, branch: int, reason: bytes = b"") -> Message:
    """A message of a participant to the coordinator."""
    said = (phase, action_id_of(number), branch, state, reason.ljust(32, b"\0"))
    return replace(
        made,
        source_chain=made.destination_chain,
        source_router=made.destination_router,
        destination_chain=made.source_chain,
        destination_router=made.source_router,
        sender=to_bytes32(PARTICIPANTS[branch]),
        recipient=to_bytes32(COORDINATOR.address),
        payload=encode([_REPLY], [said]),
        kind=Kind.LOCK_MANAGEMENT,
    )
