"""Formats payloads for display. A router's own payloads are decoded; others are shown as text or bytes.

Payloads are untrusted; templates escape the results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from eth_abi.abi import decode

from bridge.protocol.addresses import AddressError, from_bytes32
from bridge.protocol.events import UNDECODABLE
from bridge.protocol.message import Kind, Message

_MOST_SHOWN: Final = 4_096
"""Characters of one value; a payload may be as long as its sender likes."""

_ROUTER_TYPES: Final = (
    "(uint64,bytes32,bytes32,uint64,uint64,bytes32,bytes32,uint64,uint64,uint32,uint8,uint8,bytes32,bytes)",
    "bytes32",
    "uint8",
)
_ROUTER_NAMES: Final = ("message", "payload hash", "state")
"""The payload of a cancellation and of a report."""


@dataclass(frozen=True, slots=True)
class Field:
    """One value in a payload."""

    name: str
    type: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A payload as it is displayed."""

    how: str  # "abi", "text" or "bytes"
    fields: tuple[Field, ...]  # of an ABI
    text: str  # of text or bytes
    length: int  # bytes


def decode_payload(message: Message) -> Decoded:
    """Decodes a router's own payload by its ABI, and any other as text or bytes."""
    payload = message.payload
    if message.kind in (Kind.CANCELLATION, Kind.REPORT):
        try:
            values = decode(_ROUTER_TYPES, payload)
        except UNDECODABLE:
            pass
        else:
            fields = [Field(*triple) for triple in zip(_ROUTER_NAMES, _ROUTER_TYPES, map(_shown, values), strict=True)]
            return Decoded(how="abi", fields=tuple(fields), text="", length=len(payload))
    text = as_text(payload)
    how = "bytes" if text is None else "text"
    return Decoded(how=how, fields=(), text=_cut(f"0x{payload.hex()}" if text is None else text), length=len(payload))


def as_text(payload: bytes) -> str | None:
    """Returns the payload as text if it is printable, else None."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    harmless = all(character.isprintable() or character in "\n\t" for character in text)
    return text if text and harmless else None


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return _cut(_word(value))
    if isinstance(value, tuple | list):
        return _cut(f"({', '.join(_shown(item) for item in value)})")
    text = str(value)
    return _cut(text if text.isprintable() else ascii(text))


def _word(value: bytes) -> str:
    try:
        return from_bytes32(value) if any(value) else f"0x{value.hex()}"
    except AddressError:
        return f"0x{value.hex()}"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text)} characters)"
