"""Waybill's events, decoded from logs with the generated ABI. Those that the bridge reads have a class each."""

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


EVENTS: Final = (
    "MessageIdCreated",
    "MessageRouted",
    "MessageUnfunded",
    "MessageRetried",
    "DispatchFailed",
    "MessageReceived",
    "MessageExecuted",
    "ExecutionFailed",
    "ExecutionDeferred",
    "MessageExpired",
    "LateReceipt",
    "CancellationRequested",
    "MessageCancelled",
    "CancellationRejected",
    "OutcomeReported",
    "OutcomeContradicted",
    "DuplicateAbsorbed",
    "LanePauseSet",
    "GmpPauseSet",
    "PolicySet",
    "FloorSet",
    "AdapterAdded",
    "AdapterReplaced",
    "AdapterRevoked",
)
"""The events that the index reads. The contracts describe them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A message as created by its source router. `gmps` is a bit set."""

    message_id: bytes
    destination_chain: int
    retriable: bool
    gmps: int
    envelope: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRouted(Creation):
    """Attempt 0 was dispatched. `gmps` is the bit set of the GMPs that accepted it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageUnfunded(Creation):
    """An ERC-7786 sender created a message without paying its fees.

    `gmps` is the bit set of the GMPs that will carry it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRetried:
    """Attempt 1, 2, … was dispatched."""

    message_id: bytes
    destination_chain: int
    attempt: int
    gmps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived:
    """A receipt was recorded. `receipts` is the number of valid receipts, including this one."""

    message_id: bytes
    source_chain: int
    gmp: int
    receipts: int
    quorum: int
    payload_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageExecuted:
    """The recipient accepted the message."""

    message_id: bytes
    source_chain: int
    recipient: str
    payload_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateAbsorbed:
    """An adapter absorbed a repeated delivery. Nothing changed."""

    message_id: bytes
    gmp: int


Event = MessageRouted | MessageUnfunded | MessageRetried | MessageReceived | MessageExecuted | DuplicateAbsorbed
"""The events that the bridge itself reads."""

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
    found = (EventSignature.from_abi(item) for item in items if item["type"] == "event" and item["name"] in EVENTS)
    return {signature.topic: signature for signature in found}


SIGNATURES: Final[Mapping[bytes, EventSignature]] = _signatures()
"""Waybill's events by topic 0."""


_TOPICS: Final = {signature.name: topic for topic, signature in SIGNATURES.items()}


def topic_of(event: str) -> bytes:
    """Returns topic 0 of the event with that name."""
    return _TOPICS[event]


def decode_event(topics: Sequence[bytes], data: bytes) -> Event | None:
    """Returns the event in a log, or None if the bridge does not read events with that topic.

    Raises:
        EventDecodingError: the topic is known, but topics or data do not match the event.
    """
    signature = SIGNATURES.get(bytes(topics[0])) if topics else None
    if signature is None or signature.name not in _RECORDS:
        return None
    return _RECORDS[signature.name](**signature.values(topics, data))
