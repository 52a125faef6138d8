"""The vault's calls and events, from its ABI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bridge.protocol.contracts import Contract
from bridge.protocol.events import EventSignature, load_abi

_ABI: Final = load_abi("RelayerVault")

VAULT: Final = Contract(_ABI)

_EVENTS: Final[Mapping[bytes, EventSignature]] = {
    signature.topic: signature
    for item in _ABI
    if item["type"] == "event" and item["name"] in ("Paid", "Earned", "Refunded")
    for signature in (EventSignature.from_abi(item),)
}

PAYMENT_TOPICS: Final = tuple(_EVENTS)
"""Topics 0 of the events about payments."""


def decode_payment_event(topics: Sequence[bytes], data: bytes) -> tuple[str, Mapping[str, Any]] | None:
    """Name and values of an event about a payment; None if it is another one.

    Raises:
        EventDecodingError: topics or data do not fit it.
    """
    signature = _EVENTS.get(bytes(topics[0])) if topics else None
    return None if signature is None else (signature.name, signature.values(topics, data))
