"""Whether a message can arrive at all: in time, and with the gas that relayers give. What can't is not paid for."""

from __future__ import annotations

from typing import Final

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from bridge.client.requests import RouteRequest, TooMuchGasError, TtlTooShortError
from bridge.domain.finality import FinalityRule
from bridge.domain.invariants import Reliability
from bridge.domain.ports import Call, CallRevertedError, Chain, TerminalError
from bridge.protocol.addresses import AddressError, from_bytes32
from bridge.protocol.deployment import ChainDeployment
from bridge.protocol.message import Kind, Message

# What the router needs to execute, in gas: for the transaction and its bookkeeping, and for each byte of the payload.
_EXECUTION_GAS: Final = 60_000
_GAS_PER_BYTE: Final = 25
_RECEIVE: Final = keccak(text="receiveMessage(bytes32,bytes,bytes)")[:4]

USUAL_GMP_SECONDS: Final = Reliability().gmp_time
"""What a GMP usually takes once a message is final on its source, as relayers assume unless they are told otherwise."""


async def refuse_short_ttl(chain: Chain, source: ChainDeployment, request: RouteRequest) -> None:
    """Makes sure that a message can arrive within its TTL. Heartbeats are exempt: the next one replaces them.

    Raises:
        TtlTooShortError: it would expire before relayers could deliver it; nothing was sent.
        TransientError: the chain does not answer.
    """
    if request.ttl == 0 or request.kind is Kind.HEARTBEAT:
        return
    finality = await seconds_to_finality(chain, source)
    if request.ttl < finality + USUAL_GMP_SECONDS:
        raise TtlTooShortError(request.ttl, source.name, finality, USUAL_GMP_SECONDS)


async def refuse_much_gas(chain: Chain, router: str, draft: Message, most: int | None) -> None:
    """Makes sure that a relayer can execute a message: the gas limit asked for, and what its recipient would use now.

    Args:
        chain: the destination.
        router: the destination's.
        draft: the message; nonce and time do not matter.
        most: gas that relayers give a transaction at most; None asks nothing.

    Raises:
        TooMuchGasError: it needs more; nothing was sent.
        TransientError: the chain does not answer.
    """
    if most is None:
        return
    length = len(draft.payload)
    own = _EXECUTION_GAS + _GAS_PER_BYTE * length
    if draft.gas_limit * 64 // 63 + own > most:
        by = f"a gas limit of {draft.gas_limit}"
        raise TooMuchGasError(draft.gas_limit * 64 // 63 + own, most, length=length, by=by)
    chain_id = draft.source_chain.to_bytes((draft.source_chain.bit_length() + 7) // 8, "big")
    sender = (
        b"\x00\x01\x00\x00" + bytes([len(chain_id)]) + chain_id + b"\x14" + draft.sender[-20:]
    )  # as ERC-7930 has it
    data = _RECEIVE + encode(["bytes32", "bytes", "bytes"], [bytes(32), sender, draft.payload])
    try:
        used = await chain.estimate_gas(Call(to=from_bytes32(draft.recipient), data=data), router)
    except (CallRevertedError, TerminalError, AddressError):
        return  # it may be refused now and taken later, and a recipient may know the message by its id
    if used * 64 // 63 + own > most:
        raise TooMuchGasError(used * 64 // 63 + own, most, length=length, by="as its recipient is now")


async def seconds_to_finality(chain: Chain, deployed: ChainDeployment) -> float:
    """How long a chain's blocks take at present until relayers act on them: the age of the newest that they act on.

    Raises:
        TransientError: the chain does not answer.
    """
    head = await chain.head()
    rule = FinalityRule.of(deployed)
    final = await chain.block(max(rule.last(head, await rule.tagged(chain)), 0))
    return 0.0 if final is None else float(head.timestamp - final.timestamp)
