"""Reads routers: the authoritative state of a message on both of its chains."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from eth_utils import function_signature_to_4byte_selector

from bridge.protocol.addresses import AddressError, from_bytes32
from bridge.protocol.classification import classify_revert
from bridge.protocol.contracts import ADAPTER, ROUTER, contract, explain_refusal, explain_revert, message_tuple
from bridge.protocol.deployment import ChainDeployment, Deployment
from bridge.protocol.events import (
    Creation,
    EventDecodingError,
    decode_event,
    topic_of,
)
from bridge.protocol.gmps import Gmp, gmps_from_bits
from bridge.protocol.guarantee import IdempotencyStrategy
from bridge.protocol.indexed import PausedThing
from bridge.protocol.message import EnvelopeError, Message, decode_envelope
from bridge.protocol.ports import Call, CallRevertedError, Chain, Dispatch, Receipt, read_view
from bridge.protocol.status import Status

_RECEIVED, _EXECUTION = topic_of("MessageReceived"), topic_of("MessageExecuted")
_CREATIONS = (topic_of("MessageRouted"), topic_of("MessageUnfunded"))
_LOG_RANGE = 5_000  # blocks
_EXECUTED = 1
_OUTCOMES = {1: Status.EXECUTED, 2: Status.EXPIRED, 3: Status.CANCELLED}
_SUPPORTS_INTERFACE = function_signature_to_4byte_selector("supportsInterface(bytes4)") + bytes(32)

_GUARDS = contract("currentStateHash(bytes32) returns (bytes32)", "lastSequence(bytes32) returns (uint64)")
_GUARD_VIEWS = {
    IdempotencyStrategy.MESSAGE_ID_PLUS_STATE_HASH: "currentStateHash",
    IdempotencyStrategy.MESSAGE_ID_PLUS_NONCE: "lastSequence",
}
"""View functions that identify `StateHashGuard` and `OrderedGuard`."""

_WORD = 32  # bytes
_NO_GMP = 0

_OVER = frozenset({"AlreadyExecuted", "AlreadyEnded", "MessageHasExpired"})
_REFUSED = frozenset({"ExecutionReverted", "InsufficientGas"})
_BEYOND_QUORUM = _REFUSED | {"AlreadyExecuted", "AlreadyEnded"}
_ZERO_ADDRESS = "0x" + "00" * 20


@dataclass(frozen=True, slots=True)
class Progress:
    """A message's progress on its destination."""

    receipts: frozenset[Gmp]
    executed: bool
    ended: bool  # executed, expired or cancelled
    outcome: Status | None = None  # EXECUTED, EXPIRED or CANCELLED once it has ended


class TrialResult(StrEnum):
    """The result of a simulated `execute`."""

    READY = "READY"  # the execution would succeed
    WAITING = "WAITING"  # the router does not allow it yet
    REFUSED = "REFUSED"  # the recipient rejects it
    REJECTED = "REJECTED"  # a guard rejects it with a code whose disposition is REJECT
    SETTLED = "SETTLED"  # the message is executed, expired or cancelled


@dataclass(frozen=True, slots=True)
class Trial:
    """A simulated `execute`."""

    result: TrialResult
    why: str = ""  # the router's reason if it would revert
    missing: int | None = None  # missing receipts; None if unknown


@dataclass(frozen=True, slots=True)
class SentMessage:
    """The source router's record of a retriable message."""

    sender: str
    attempts: int  # retries so far


def shows_delivery(receipt: Receipt, router: str, dispatch: Dispatch) -> bool:
    """Returns whether a transaction receipt shows that the router recorded a dispatch's delivery.

    This saves a view call.
    """
    event = (_RECEIVED, dispatch.message_id, _word(dispatch.source_chain), _word(dispatch.gmp))
    return receipt.succeeded and any(
        log.topics == event and log.address.lower() == router.lower() for log in receipt.logs
    )


def shows_execution(receipt: Receipt, router: str, message_id: bytes) -> bool:
    """Returns whether a transaction receipt shows that the router executed the message."""
    return receipt.succeeded and any(
        log.topics[:2] == (_EXECUTION, message_id) and log.address.lower() == router.lower() for log in receipt.logs
    )


def _missing(name: str, arguments: Mapping[str, Any]) -> int | None:
    """Returns the number of missing receipts according to an error of `execute`, or None for other errors."""
    if name == "QuorumNotReached":
        return int(arguments["quorum"]) - int(arguments["receipts"])
    return 0 if name in _BEYOND_QUORUM else None


def _word(number: int) -> bytes:
    return number.to_bytes(32, "big")


class Demand(NamedTuple):
    """A recipient's requirements, which apply independently of a message's own quorum."""

    quorum: int
    gmps: frozenset[Gmp] | None  # GMPs whose receipts count; None: all


class RouterReader:
    """Reads one router.

    Methods raise `UnansweredError` if the chain does not respond or the contract does not exist.
    """

    def __init__(self, chain: Chain, router: str) -> None:
        self._chain = chain
        self.address = router

    async def has_received(self, message_id: bytes, gmp: Gmp, *, block: int | None = None) -> bool:
        """Returns whether the router has the GMP's receipt for the message, at the head or at the end of a block."""
        return bool(await self._ask("hasReceived", message_id, int(gmp), block=block))

    async def progress(self, message_id: bytes, *, block: int | None = None) -> Progress:
        """Returns the message's progress, at the head or at the end of a block."""
        bits, execution = await self._ask("receiptsOf", message_id, block=block)
        outcome = _OUTCOMES.get(execution)
        return Progress(gmps_from_bits(bits), executed=execution == _EXECUTED, ended=execution != 0, outcome=outcome)

    async def is_expired(self, message: Message) -> bool:
        """Returns whether a message's TTL has elapsed at the head of the router's chain."""
        return message.expires_at is not None and (await self._chain.head()).timestamp > message.expires_at

    async def paused_until(self, thing: PausedThing, number: int) -> int:
        """Returns when the newest pause of a GMP, or of the lanes to and from a chain, ends (Unix seconds)."""
        view = "gmpPausedUntil" if thing is PausedThing.GMP else "lanePausedUntil"
        return int(await self._ask(view, number))

    async def demand(self, recipient: str, source_chain: int) -> Demand:
        """Returns a recipient's requirements for messages from a chain: its own policy, otherwise the lane's floor."""
        quorum, gmps = await self._ask("policyOf", recipient, source_chain)
        return (
            Demand(quorum, gmps_from_bits(gmps)) if quorum else Demand(await self._ask("floorOf", source_chain), None)
        )

    async def missing_receipts(self, message: Message) -> int:
        """Returns the number of receipts that an execution still needs, by quorum and recipient's policy.

        Raises:
            CallRevertedError: the router would not execute the message now, whatever the number of receipts.
        """
        try:
            await self._chain.call(self.execute_call(message))
        except CallRevertedError as error:
            name, arguments = ROUTER.error(error.data) or ("", {})
            missing = _missing(name, arguments)
            if missing is None:
                raise
            return missing
        return 0

    async def try_execution(self, message: Message, *, block: int | None = None) -> Trial:
        """Simulates the message's execution, at the head or at the end of a block."""
        try:
            await self._chain.call(self.execute_call(message), block=block)
        except CallRevertedError as error:
            name, arguments = ROUTER.error(error.data) or ("", {})
            result = (
                TrialResult.SETTLED
                if name in _OVER
                else TrialResult.REFUSED
                if name in _REFUSED
                else TrialResult.WAITING
            )
            why, known = await self._refusal(error, message), classify_revert(error.data)
            if known is not None and result is TrialResult.REFUSED:
                result, why = TrialResult.REJECTED, f"{known.codes[0]}: {why}"
            return Trial(result, why, _missing(name, arguments))
        return Trial(TrialResult.READY, missing=0)

    async def _refusal(self, error: CallRevertedError, message: Message) -> str:
        """Returns the reason why an execution would revert.

        If the revert has none, checks whether the recipient has code.
        """
        name, arguments = ROUTER.error(error.data) or ("", {})
        if name != "ExecutionReverted" or arguments["reason"]:
            return explain_revert(error.data)
        try:
            recipient = from_bytes32(message.recipient)
            if not await is_contract(self._chain, recipient):
                return (
                    f"recipient {recipient} has no code, so the message can't be executed: send a new message "
                    "to a contract"
                )
        except AddressError:
            pass
        return f"{name}: {explain_refusal(b'')}"

    async def guards(self, message: Message) -> frozenset[IdempotencyStrategy]:
        """Returns the recipient's guards, recognised by their views."""
        try:
            recipient = from_bytes32(message.recipient)
        except AddressError:
            return frozenset()
        return frozenset({strategy for strategy in _GUARD_VIEWS if await self._has_view(recipient, strategy)})

    async def _has_view(self, recipient: str, strategy: IdempotencyStrategy) -> bool:
        call = Call(to=recipient, data=_GUARDS.encode(_GUARD_VIEWS[strategy], bytes(32)))
        try:
            return len(await self._chain.call(call)) == _WORD  # a fallback function returns nothing
        except CallRevertedError:
            return False

    async def sent_message(self, message_id: bytes) -> SentMessage | None:
        """Returns a message's sender and number of retries, or None if this router did not create it as retriable."""
        sender, attempts = await self._ask("sentMessage", message_id)
        return None if sender == _ZERO_ADDRESS else SentMessage(sender.lower(), attempts)

    async def retrier_of(self, sender: str) -> str | None:
        """Returns the retrier that a sender appointed, or None."""
        retrier = await self._ask("retrierOf", sender)
        return None if retrier == _ZERO_ADDRESS else str(retrier).lower()

    async def enabled_gmps(self) -> frozenset[Gmp]:
        """Returns the GMPs that have an adapter on this router."""
        return gmps_from_bits(await self._ask("enabledGmps"))

    async def adapter_of(self, gmp: Gmp) -> str:
        """Returns the address of the GMP's adapter."""
        return str(await self._ask("adapterOf", int(gmp)))

    async def quote(self, message: Message, gmp: Gmp) -> int:
        """Returns the GMP's current fee for the message, in wei.

        Raises:
            CallRevertedError: the GMP can't carry the message.
        """
        adapter = await self.adapter_of(gmp)
        arguments = (message.destination_chain, message.destination_router, message.encode(), message.gas_limit)
        return int(await read_view(self._chain, ADAPTER, adapter, "quote", *arguments))

    def retry_call(self, message: Message, fees: Sequence[tuple[int, int]], refund_to: str) -> Call:
        """Returns the call that retries the message, with a fee in wei for each GMP."""
        named = [(int(gmp), fee) for gmp, fee in fees]
        data = ROUTER.encode("retryRoute", (message.id, message_tuple(message), 1, named, refund_to))
        return Call(to=self.address, data=data, value=sum(fee for _, fee in fees))

    async def retry_refusal(self, message: Message) -> str | None:
        """Returns the name of the error with which the router would reject the sender's retry now, or None.

        Simulates a retry over a nonexistent GMP. The router checks the GMP last, so the simulation always
        fails, but reports an earlier error first.
        """
        try:
            sender = from_bytes32(message.sender)
        except AddressError:
            return None
        try:
            await self._chain.call(self.retry_call(message, [(_NO_GMP, 0)], sender), sender=sender)
        except CallRevertedError as error:
            name, _ = ROUTER.error(error.data) or (None, {})
            return name
        return None

    def execute_call(self, message: Message) -> Call:
        """Returns the call that executes a message whose quorum is reached."""
        return Call(to=self.address, data=ROUTER.encode("execute", message_tuple(message)))

    async def _ask(self, function: str, *arguments: object, block: int | None = None) -> Any:
        return await read_view(self._chain, ROUTER, self.address, function, *arguments, block=block)


async def created_messages(
    chain: Chain, deployed: ChainDeployment, block: int | None = None
) -> AsyncGenerator[tuple[Creation, Message]]:
    """Yields each message that a chain's router created, oldest first, together with its creation event.

    A message that was created unfunded is yielded again once it is funded. Events whose envelope does not match
    their id are skipped; only a lying node produces them.

    Args:
        chain: source chain.
        deployed: contracts on that chain.
        block: the only block to read; with None, all blocks since the router's deployment are read.
    """
    first, head = (deployed.start_block, (await chain.head()).number) if block is None else (block, block)
    for start in range(first, head + 1, _LOG_RANGE):
        for log in await chain.logs(start, min(start + _LOG_RANGE - 1, head), [deployed.router], _CREATIONS):
            try:
                event = decode_event(log.topics, log.data)
                if not isinstance(event, Creation):
                    continue
                message = decode_envelope(event.envelope).message
            except (EventDecodingError, EnvelopeError):
                continue
            if message.id == event.message_id:
                yield event, message


async def is_contract(chain: Chain, address: str) -> bool:
    """Returns whether the address has code."""
    try:
        return bool(await chain.call(Call(to=address, data=_SUPPORTS_INTERFACE)))
    except CallRevertedError:
        return True


def readers_of(deployment: Deployment, chains: Mapping[int, Chain]) -> dict[int, RouterReader]:
    """Returns the router readers of a deployment's chains by chain id, for the given chains."""
    return {
        deployed.chain_id: RouterReader(chains[deployed.chain_id], deployed.router)
        for deployed in deployment.chains
        if deployed.chain_id in chains
    }
