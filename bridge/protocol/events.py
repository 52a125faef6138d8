"""Waybill's events: one class per event, decoded from logs with the generated ABI."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, get_args

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils import keccak

UNDECODABLE: Final = (DecodingError, OverflowError, UnicodeDecodeError)
"""The errors that `eth_abi` raises for bytes that do not decode as the given types."""

Abi = list[dict[str, Any]]


class EventDecodingError(ValueError):
    """A log has the topic of a Waybill event, but its data can't be decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfMessage:
    """The fields of every event about a message."""

    message_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDestination(OfMessage):
    """The fields of a destination router's events about a message."""

    source_chain: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation(OfMessage):
    """A message as created by its source router. `gmps` is a bit set."""

    destination_chain: int
    retriable: bool
    gmps: int
    envelope: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageIdCreated(OfMessage):
    """`route` created a message."""

    sender: str
    nonce: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRouted(Creation):
    """Attempt 0 was dispatched. `gmps` is the bit set of the GMPs that accepted it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageUnfunded(Creation):
    """An ERC-7786 sender created a message without paying its fees.

    `gmps` is the bit set of the GMPs that will carry it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRetried(OfMessage):
    """Attempt 1, 2, … was dispatched."""

    destination_chain: int
    attempt: int
    gmps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchFailed(OfMessage):
    """One GMP rejected the message or failed."""

    gmp: int
    attempt: int
    reason: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived(OnDestination):
    """A receipt was recorded. `receipts` is the number of valid receipts, including this one."""

    gmp: int
    receipts: int
    quorum: int
    payload_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageExecuted(OnDestination):
    """The recipient accepted the message."""

    recipient: str
    payload_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFailed(OnDestination):
    """The recipient reverted or returned a wrong value. Receipts are kept."""

    reason: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionDeferred(OnDestination):
    """The delivery had less gas left than the message's limit."""

    gas_limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageExpired(OnDestination):
    """The message expired before it was executed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateReceipt(OnDestination):
    """A GMP delivered a message that had already expired or been cancelled; only the receipt was recorded."""

    gmp: int
    state: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationRequested(OfMessage):
    """Emitted on the source chain when the sender requests a cancellation; the router rejects retries from then on."""

    cancellation_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCancelled(OnDestination):
    """The cancellation arrived before the message was executed, so the message will never be executed."""

    cancellation_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationRejected(OnDestination):
    """Emitted on the destination chain when a cancellation arrives after the message has ended. Nothing changes."""

    cancellation_id: bytes
    state: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReported(OfMessage):
    """Emitted on the source chain when the destination reports a message's outcome."""

    destination_chain: int
    outcome: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeContradicted(OfMessage):
    """Emitted on the source chain when a second report contradicts the first, which stays in force."""

    destination_chain: int
    first: int
    second: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateAbsorbed(OfMessage):
    """An adapter absorbed a repeated delivery. Nothing changed."""

    gmp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePauseSet:
    """The lanes to and from `chain` are paused until a time in Unix seconds. A time in the past ends the pause."""

    chain: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpPauseSet:
    """The GMP is paused until a time in Unix seconds. A time in the past ends the pause."""

    gmp: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySet:
    """A recipient set its policy for messages from `chain`."""

    recipient: str
    chain: int
    quorum: int
    gmps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorSet:
    """The minimum quorum was set for messages from `chain` to recipients without a policy."""

    chain: int
    floor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterAdded:
    """`adapter` became the adapter of a GMP that had none."""

    gmp: int
    adapter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterReplaced:
    """`adapter` replaces `previous`, whose receipts still count."""

    gmp: int
    adapter: str
    previous: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRevoked:
    """`adapter` was revoked. Its receipts no longer count."""

    gmp: int
    adapter: str
    epoch: int


MessageEvent = (
    MessageIdCreated
    | MessageRouted
    | MessageUnfunded
    | MessageRetried
    | DispatchFailed
    | MessageReceived
    | MessageExecuted
    | ExecutionFailed
    | ExecutionDeferred
    | MessageExpired
    | LateReceipt
    | CancellationRequested
    | MessageCancelled
    | CancellationRejected
    | OutcomeReported
    | OutcomeContradicted
    | DuplicateAbsorbed
)
"""Events about one message."""

RouterEvent = LanePauseSet | GmpPauseSet | PolicySet | FloorSet | AdapterAdded | AdapterReplaced | AdapterRevoked
"""Events about lanes, GMPs and recipients."""

Event = MessageEvent | RouterEvent

_RECORDS: Final[Mapping[str, type[Event]]] = {record.__name__: record for record in get_args(Event)}


def load_abi(contract: str) -> Abi:
    """Returns the ABI of one of Waybill's contracts or interfaces, generated from the compiler's output.

    Raises:
        FileNotFoundError: there is no such ABI in `bridge/protocol/abi`.
    """
    abi: Abi = json.loads((files("bridge.protocol") / "abi" / f"{contract}.json").read_text())
    return abi


@dataclass(frozen=True, slots=True)
class EventSignature:
    """The layout of one event in a log."""

    name: str
    topic: bytes
    indexed: tuple[tuple[str, str], ...]  # (field, ABI type)
    unindexed: tuple[tuple[str, str], ...]

    @classmethod
    def from_abi(cls, item: Mapping[str, Any]) -> EventSignature:
        """Returns the signature of an ABI item of type ``event``."""
        inputs = [(_snake_case(field["name"]), field["type"], field["indexed"]) for field in item["inputs"]]
        text = f"{item['name']}({','.join(kind for _, kind, _ in inputs)})"
        return cls(
            name=item["name"],
            topic=keccak(text=text),
            indexed=tuple((name, kind) for name, kind, is_indexed in inputs if is_indexed),
            unindexed=tuple((name, kind) for name, kind, is_indexed in inputs if not is_indexed),
        )

    def values(self, topics: Sequence[bytes], data: bytes) -> dict[str, Any]:
        """Returns the values of a log with this event's topic, by field.

        Raises:
            EventDecodingError: topics or data do not match the event.
        """
        if len(topics) != len(self.indexed) + 1:
            raise EventDecodingError(f"{self.name}: expected {len(self.indexed) + 1} topics, log has {len(topics)}")
        try:
            values = {
                name: decode([kind], bytes(topic))[0]
                for (name, kind), topic in zip(self.indexed, topics[1:], strict=True)
            }
            names = [name for name, _ in self.unindexed]
            kinds = [kind for _, kind in self.unindexed]
            values.update(zip(names, decode(kinds, bytes(data)), strict=True))
        except UNDECODABLE as error:
            raise EventDecodingError(f"{self.name}: {error}") from error
        return values


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _signatures() -> dict[bytes, EventSignature]:
    items = (item for contract in ("Router", "IAdapter") for item in load_abi(contract))
    found = (EventSignature.from_abi(item) for item in items if item["type"] == "event" and item["name"] in _RECORDS)
    return {signature.topic: signature for signature in found}


SIGNATURES: Final[Mapping[bytes, EventSignature]] = _signatures()
"""Waybill's events by topic 0."""


def topic_of(event: type[Event]) -> bytes:
    """Returns topic 0 of an event."""
    return next(topic for topic, signature in SIGNATURES.items() if signature.name == event.__name__)


def decode_event(topics: Sequence[bytes], data: bytes) -> Event | None:
    """Returns the event in a log, or None if the topic does not belong to Waybill.

    Raises:
        EventDecodingError: the topic is known, but topics or data do not match the event.
    """
    signature = SIGNATURES.get(bytes(topics[0])) if topics else None
    if signature is None:
        return None
    return _RECORDS[signature.name](**signature.values(topics, data))
