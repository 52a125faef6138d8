"""The contracts of a simulated chain, as far as the bridge can tell them from the real ones.

The router speaks the real ABI. A GMP is one address: on the source it emits what it took; on the destination it takes the
envelope with its attestation. Some GMPs want two transactions for a delivery, as Axelar does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from eth_abi.abi import decode, encode
from eth_utils import keccak
from eth_utils.abi import collapse_if_tuple
from eth_utils.address import to_checksum_address

from bridge.protocol.addresses import from_bytes32
from bridge.protocol.contracts import ADAPTER, ROUTER
from bridge.protocol.events import (
    SIGNATURES,
    Event,
    MessageExecuted,
    MessageReceived,
    MessageRetried,
    MessageRouted,
    load_abi,
    topic_of,
)
from bridge.protocol.gmps import Gmp, bits_from_gmps
from bridge.protocol.message import Kind, Message, decode_envelope
from bridge.protocol.ports import Call
from tests.support.simulation.reverts import RevertedError, refusal

ROUTER_ADDRESS: Final = to_checksum_address("0x" + "70" * 20)
MULTICALL_ADDRESS: Final = to_checksum_address("0x" + "71" * 20)
RECIPIENT: Final = "0x" + "1b" * 20
LIAR: Final = "0x" + "1c" * 20
"""A recipient that accepts every call without a transaction, unless it is hushed, and burns the gas of every transaction."""

_NOBODY: Final = "0x" + "00" * 20
GMPS: Final = (Gmp.HYPERLANE, Gmp.AXELAR, Gmp.WORMHOLE)
TWO_STEPS: Final = frozenset({Gmp.AXELAR})
QUOTE: Final = 10  # wei
ALLOWANCE: Final = 86_400  # seconds that the tripwire may pause a GMP for

DISPATCHED: Final = keccak(text="SimulatedDispatch(bytes)")
APPROVE: Final = b"aprv"
DELIVER: Final = b"dlvr"

NOT_APPROVED: Final = keccak(text="Error(string)")[:4] + encode(["string"], ["not approved"])

NUMBER_USED: Final = keccak(text="Error(string)")[:4] + encode(["string"], ["number used"])

Emitted = tuple[str, tuple[bytes, ...], bytes]
"""Address, topics and data of an event."""


@dataclass(slots=True)
class State:
    """Everything that contracts and accounts of a chain hold; copied with each block, so that blocks can fall."""

    chain_id: int
    timestamp: int = 0
    nonces: dict[str, int] = field(default_factory=dict)
    balances: dict[str, int] = field(default_factory=dict)
    lanes: dict[int, int] = field(default_factory=dict)  # messages created, by destination
    sent: dict[bytes, tuple[str, int]] = field(default_factory=dict)  # retriable ones: sender and retries
    receipts: dict[bytes, frozenset[Gmp]] = field(default_factory=dict)
    executed: dict[bytes, int] = field(default_factory=dict)
    approved: frozenset[tuple[Gmp, bytes]] = frozenset()
    refusing: bool = False  # whether recipients revert
    reason: bytes = b""  # with what
    paused: frozenset[Gmp] = frozenset()
    counting: frozenset[Gmp] = frozenset()  # GMPs that know a message by its number on its lane, as LayerZero does
    used: frozenset[tuple[Gmp, int, int]] = frozenset()  # what those have delivered: GMP, source, number
    hushed: bool = False  # whether the liar refuses calls too
    retriers: dict[str, str] = field(default_factory=dict)  # by sender in small letters
    pauses: dict[int, int] = field(default_factory=dict)  # until when the tripwire has paused a GMP, Unix seconds
    is_trial: bool = False  # whether what is done is a call without a transaction: contracts can tell, by tx.gasprice

    def copy(self) -> State:
        """The same, to be changed."""
        return State(
            self.chain_id,
            self.timestamp,
            dict(self.nonces),
            dict(self.balances),
            dict(self.lanes),
            dict(self.sent),
            dict(self.receipts),
            dict(self.executed),
            self.approved,
            self.refusing,
            self.reason,
            self.paused,
            self.counting,
            self.used,
            self.hushed,
            dict(self.retriers),
            dict(self.pauses),
            self.is_trial,
        )

    def trial(self) -> State:
        """The same, for a call without a transaction."""
        copied = self.copy()
        copied.is_trial = True
        return copied

    def become(self, other: State) -> None:
        """Takes over what the other one holds."""
        for one in fields(self):
            setattr(self, one.name, getattr(other, one.name))


@functools.cache  # there are a few of them, asked for thousands of times
def gmp_address(gmp: Gmp) -> str:
    """Where a GMP is, on every chain."""
    return to_checksum_address("0x" + f"{int(gmp):02x}" * 20)


def proof_of(gmp: Gmp, envelope: bytes) -> bytes:
    """What a GMP's contract on the destination wants to see."""
    return keccak(bytes([gmp]) + envelope)


def create_message(
    state: State,
    sender: str,
    destination: int,
    *,
    quorum: int,
    payload: bytes,
    kind: Kind,
    ttl: int = 0,
    recipient: str = RECIPIENT,
) -> Message:
    """The lane's next message, as `route` composes it."""
    state.lanes[destination] = state.lanes.get(destination, 0) + 1
    return Message(
        source_chain=state.chain_id,
        source_router=_word(ROUTER_ADDRESS),
        sender=_word(sender),
        nonce=state.lanes[destination],
        destination_chain=destination,
        destination_router=_word(ROUTER_ADDRESS),
        recipient=_word(recipient),
        gas_limit=100_000,
        sent_at=state.timestamp,
        ttl=ttl,
        kind=kind,
        quorum=quorum,
        replaces=bytes(32),
        payload=payload,
    )


def route(state: State, message: Message, sender: str, gmps: Sequence[Gmp], *, retriable: bool) -> list[Emitted]:
    """Dispatches a new message over GMPs."""
    if retriable:
        state.sent[message.id] = (sender, 0)
    event = MessageRouted(
        message_id=message.id,
        destination_chain=message.destination_chain,
        retriable=retriable,
        gmps=bits_from_gmps(gmps),
        envelope=message.encode(),
    )
    return [*_dispatched(message, gmps), event_log(event)]


def refuse(state: State, *, refusing: bool, reason: bytes = b"") -> list[Emitted]:
    """From now on recipients revert, with that; or no more."""
    state.refusing, state.reason = refusing, reason
    return []


def hush(state: State, *, hushed: bool) -> list[Emitted]:
    """From now on the liar refuses calls without a transaction; or accepts them again. A cheap call for all its messages."""
    state.hushed = hushed
    return []


def appoint(state: State, sender: str, retrier: str) -> list[Emitted]:
    """A sender names who may retry its messages; nobody asks the one that is named."""
    state.retriers[sender.lower()] = retrier
    return []


def pause(state: State, gmp: Gmp, *, paused: bool) -> list[Emitted]:
    """From now on what that GMP has delivered does not count, and it delivers nothing; or both again."""
    state.paused = state.paused | {gmp} if paused else state.paused - {gmp}
    return []


def deliver(state: State, gmp: Gmp, envelope: bytes) -> list[Emitted]:
    """A GMP brings an envelope, in as many transactions as it takes; one that the router refuses changes nothing."""
    state.approved |= {(gmp, keccak(envelope))}
    try:
        return _deliver(state, gmp, DELIVER + proof_of(gmp, envelope) + envelope)
    except RevertedError:
        return []


def retry(state: State, message: Message, gmps: Sequence[Gmp]) -> list[Emitted]:
    """The sender's own retry of a message that the router knows; nothing if a reorg took it."""
    if message.id not in state.sent:
        return []
    owner, attempts = state.sent[message.id]
    state.sent[message.id] = (owner, attempts + 1)
    return _retried(message, attempts + 1, gmps)


def transact(state: State, sender: str, call: Call) -> list[Emitted]:
    """Runs a transaction's call, and returns its events.

    Raises:
        RevertedError: a contract refused; the state must be thrown away.
    """
    if call.to == ROUTER_ADDRESS:
        return _call_router(state, sender, call)
    if call.to == MULTICALL_ADDRESS:
        return _multicall(state, call.data)
    for gmp in GMPS:
        if call.to == gmp_address(gmp):
            return _deliver(state, gmp, call.data)
    return []  # an account without code


def _call_router(state: State, sender: str, call: Call) -> list[Emitted]:
    match call.data[:4]:
        case selector if selector == ROUTER.selector("retryRoute"):
            return _retry(state, sender, call)
        case selector if selector == ROUTER.selector("execute"):
            return _execute_by_hand(state, call.data)
        case selector if selector == ROUTER.selector("pauseGmp"):
            gmp, until = _arguments("pauseGmp", call.data)
            state.pauses[gmp] = until
    return []


def view(state: State, call: Call) -> bytes:
    """What a call answers.

    Raises:
        RevertedError: a contract refuses.
    """
    if call.to == ROUTER_ADDRESS:
        for function, answer in _VIEWS.items():
            if call.data[:4] == ROUTER.selector(function):
                types, values = answer(state, _arguments(function, call.data))
                return encode(types, values)
    if call.data[:4] == ADAPTER.selector("quote"):
        return encode(["uint256"], [QUOTE])
    transact(state.trial(), _NOBODY, call)
    return b""


def _adapter_of(_state: State, arguments: Sequence[Any]) -> tuple[list[str], list[Any]]:
    return ["address"], [gmp_address(Gmp(arguments[0]))]


def _receipts_of(state: State, arguments: Sequence[Any]) -> tuple[list[str], list[Any]]:
    message_id = arguments[0]
    bits = bits_from_gmps(state.receipts.get(message_id, frozenset()))
    return ["uint16", "uint8"], [bits, int(message_id in state.executed)]


_VIEWS: Final[dict[str, Callable[[State, Sequence[Any]], tuple[list[str], list[Any]]]]] = {
    "hasReceived": lambda state, a: (["bool"], [Gmp(a[1]) in state.receipts.get(a[0], frozenset())]),
    "receiptsOf": _receipts_of,
    "sentMessage": lambda state, a: (["address", "uint32"], list(state.sent.get(a[0], ("0x" + "00" * 20, 0)))),
    "retrierOf": lambda state, a: (["address"], [state.retriers.get(a[0].lower(), _NOBODY)]),
    "enabledGmps": lambda _state, _a: (["uint16"], [bits_from_gmps(GMPS)]),
    "adapterOf": _adapter_of,
    "gmpPausedUntil": lambda state, a: (["uint48"], [state.pauses.get(a[0], 0)]),
    "tripwireAllowance": lambda _state, _a: (["uint256"], [ALLOWANCE]),
    "sentTo": lambda state, a: (["uint64", "uint32"], [state.lanes.get(a[0], 0), 0]),
}


def _multicall(state: State, data: bytes) -> list[Emitted]:
    """Each call by itself, from the contract's own address; one that reverts changes nothing."""
    (calls,) = _arguments("multicall", data)
    succeeded, events = 0, list[Emitted]()
    for index, (target, gas, inner) in enumerate(calls):
        attempted = state.copy()
        try:
            events += transact(attempted, MULTICALL_ADDRESS, Call(to=to_checksum_address(target), data=inner, gas=gas))
        except RevertedError:
            continue
        state.become(attempted)
        succeeded |= 1 << index
    if not succeeded:
        raise refusal("NoCallSucceeded()")
    return [*events, (MULTICALL_ADDRESS, (keccak(text="CallsMade(uint256)"),), succeeded.to_bytes(32, "big"))]


def _retry(state: State, sender: str, call: Call) -> list[Emitted]:
    (request,) = _arguments("retryRoute", call.data)
    stated_id, fields, _, fees, _ = request
    message = _message(fields)
    if message.id != stated_id:
        raise refusal("MessageIdMismatch(bytes32,bytes32)", stated_id, message.id)
    if message.id not in state.sent:
        raise refusal("NotRetriable(bytes32)", message.id)
    owner, attempts = state.sent[message.id]
    if sender.lower() not in (owner.lower(), state.retriers.get(owner.lower(), owner).lower()):
        raise refusal("NotSenderOrRetrier(bytes32,address,address)", message.id, sender, owner)
    if sum(fee for _, fee in fees) != call.value:
        raise refusal("FeesDifferFromValue(uint256,uint256)", sum(fee for _, fee in fees), call.value)
    gmps = [Gmp(number) for number, _ in fees]
    state.sent[message.id] = (owner, attempts + 1)
    return _retried(message, attempts + 1, gmps)


def _retried(message: Message, attempt: int, gmps: Sequence[Gmp]) -> list[Emitted]:
    event = MessageRetried(
        message_id=message.id,
        destination_chain=message.destination_chain,
        attempt=attempt,
        gmps=bits_from_gmps(gmps),
    )
    return [*_dispatched(message, gmps), event_log(event)]


def _deliver(state: State, gmp: Gmp, data: bytes) -> list[Emitted]:
    action, proof, envelope = data[:4], data[4:36], data[36:]
    if proof != proof_of(gmp, envelope):
        raise refusal("Error(string)", "bad proof")
    if action == APPROVE:
        state.approved |= {(gmp, keccak(envelope))}
        return []
    if gmp in TWO_STEPS and (gmp, keccak(envelope)) not in state.approved:
        raise RevertedError(NOT_APPROVED)
    message = decode_envelope(envelope).message
    if gmp in state.paused or state.pauses.get(int(gmp), 0) > state.timestamp:
        raise refusal("GmpPaused(uint8,uint48)", int(gmp), 0)
    received = state.receipts.get(message.id, frozenset())
    number = (gmp, message.source_chain, message.nonce)
    if gmp in state.counting and number in state.used:
        raise RevertedError(NUMBER_USED)
    if gmp in received:
        raise refusal("AlreadyReceived(bytes32,uint8)", message.id, int(gmp))
    state.used |= {number} if gmp in state.counting else set()
    state.receipts[message.id] = received | {gmp}
    end = []
    if (
        len(state.receipts[message.id] - state.paused) >= message.quorum
        and message.id not in state.executed
        and not _has_expired(state, message)
    ):
        if state.refusing or from_bytes32(message.recipient).lower() == LIAR:
            failed = {"message_id": message.id, "source_chain": message.source_chain, "reason": state.reason}
            end = [_log("ExecutionFailed", failed)]
        else:
            state.executed[message.id] = 1
            end = [_executed(message)]
    event = MessageReceived(
        message_id=message.id,
        source_chain=message.source_chain,
        gmp=int(gmp),
        receipts=len(received) + 1,
        quorum=message.quorum,
        payload_hash=keccak(message.payload),
    )
    return [event_log(event), *end]


def _execute_by_hand(state: State, data: bytes) -> list[Emitted]:
    (fields,) = _arguments("execute", data)
    message = _message(fields)
    received = state.receipts.get(message.id, frozenset())
    if message.id in state.executed:
        raise refusal("AlreadyExecuted(bytes32)", message.id)
    if _has_expired(state, message):
        raise refusal("MessageHasExpired(bytes32,uint64,uint32)", message.id, message.sent_at, message.ttl)
    counted = len(received - state.paused)
    if counted < message.quorum:
        raise refusal("QuorumNotReached(bytes32,uint8,uint8)", message.id, counted, message.quorum)
    lies = from_bytes32(message.recipient).lower() == LIAR
    if state.refusing or (lies and (state.hushed or not state.is_trial)):
        raise refusal("ExecutionReverted(bytes32,bytes)", message.id, state.reason)
    state.executed[message.id] = 1
    return [_executed(message)]


def _has_expired(state: State, message: Message) -> bool:
    return message.expires_at is not None and state.timestamp > message.expires_at


def _executed(message: Message) -> Emitted:
    return event_log(
        MessageExecuted(
            message_id=message.id,
            source_chain=message.source_chain,
            recipient=from_bytes32(message.recipient),
            payload_hash=keccak(message.payload),
        )
    )


def _dispatched(message: Message, gmps: Sequence[Gmp]) -> list[Emitted]:
    return [(gmp_address(gmp), (DISPATCHED,), message.encode()) for gmp in gmps]


def event_log(event: Event) -> Emitted:
    """An event as the router emits it."""
    return _log(type(event).__name__, asdict(event))


def _log(event: str, values: Mapping[str, Any]) -> Emitted:
    signature = SIGNATURES[topic_of(event)]
    indexed = tuple(encode([kind], [values[name]]) for name, kind in signature.indexed)
    data = encode([kind for _, kind in signature.unindexed], [values[name] for name, _ in signature.unindexed])
    return ROUTER_ADDRESS, (signature.topic, *indexed), data


_INPUTS: Final = {
    item["name"]: [collapse_if_tuple(field) for field in item["inputs"]]
    for item in (*load_abi("Router"), *load_abi("BoundedMulticall"))
    if item["type"] == "function"
}


def _arguments(function: str, data: bytes) -> Sequence[Any]:
    return decode(_INPUTS[function], data[4:])


def _message(fields: Sequence[Any]) -> Message:
    names = list(Message.__dataclass_fields__)
    values = dict(zip(names, fields, strict=True))
    return Message(**{**values, "kind": Kind(values["kind"])})


def _word(address: str) -> bytes:
    return bytes(12) + bytes.fromhex(address[2:])
