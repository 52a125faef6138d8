"""A message's payload as people read it: by its ABI where that is known, as text where it is text, else as bytes.

Payloads come from strangers. Nothing here trusts them, and templates escape what comes out of here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from eth_abi.abi import decode, is_encodable_type

from bridge.protocol.actions import ActionMessage
from bridge.protocol.addresses import AddressError, from_bytes32, to_bytes32
from bridge.protocol.events import UNDECODABLE
from bridge.protocol.message import Kind, Message

_MOST_SHOWN: Final = 4_096
"""Characters of one value; a payload may be as long as its sender likes."""

_MESSAGE_STRUCT: Final = (
    "(uint64,bytes32,bytes32,uint64,uint64,bytes32,bytes32,uint64,uint64,uint32,uint8,uint8,bytes32,bytes)"
)


class PayloadAbiError(ValueError):
    """A file of payload ABIs that can't be used; the text says which entry and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadAbi:
    """What payloads of some messages are encoded as."""

    types: tuple[str, ...]
    names: tuple[str, ...]
    recipient: bytes | None = None  # 32 bytes; None: any
    kind: Kind | None = None  # None: any

    def fits(self, message: Message) -> bool:
        """Whether it is meant for this message."""
        return self.recipient in (None, message.recipient) and self.kind in (None, message.kind)


@dataclass(frozen=True, slots=True)
class Field:
    """One value in a payload."""

    name: str
    type: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A payload as shown."""

    how: str  # "abi", "text" or "bytes"
    fields: tuple[Field, ...]  # of an ABI
    text: str  # of text or bytes
    length: int  # bytes


_OF_ROUTERS: Final = tuple(
    PayloadAbi(
        types=(_MESSAGE_STRUCT, "bytes32", "uint8"),
        names=("message", "payload hash", "state"),
        kind=kind,
    )
    for kind in (Kind.CANCELLATION, Kind.REPORT)
)


def read_abis(path: Path) -> tuple[PayloadAbi, ...]:
    """Reads ABIs of payloads from a TOML file (docs/explorer.md).

    Raises:
        PayloadAbiError: the file can't be used.
    """
    try:
        document = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PayloadAbiError(f"{path}: {error}") from error
    entries = document.get("payload", [])
    if not isinstance(entries, list) or document.keys() - {"payload"}:
        raise PayloadAbiError(f"{path} must hold [[payload]] tables and nothing else")
    return tuple(_read_abi(entry, f"{path}, payload {number}") for number, entry in enumerate(entries, 1))


def _read_abi(entry: dict[str, Any], where: str) -> PayloadAbi:
    unknown = entry.keys() - {"recipient", "kind", "values"}
    values = entry.get("values")
    if unknown or not isinstance(values, list) or not values:
        raise PayloadAbiError(f'{where}: give values = ["address owner", …], and perhaps recipient and kind')
    types, names = [], []
    for value in values:
        type_, _, name = str(value).strip().rpartition(" ")
        if not name or not is_encodable_type(type_.strip()):
            raise PayloadAbiError(f"{where}: {value!r} is not an ABI type and a name, such as 'uint256 amount'")
        types.append(type_.strip())
        names.append(name)
    try:
        recipient = to_bytes32(entry["recipient"]) if "recipient" in entry else None
        kind = Kind[entry["kind"].upper()] if "kind" in entry else None
    except (AddressError, KeyError, AttributeError) as error:
        raise PayloadAbiError(f"{where}: {error}") from error
    return PayloadAbi(types=tuple(types), names=tuple(names), recipient=recipient, kind=kind)


def decode_payload(message: Message, abis: Sequence[PayloadAbi]) -> Decoded:
    """The payload as shown; an ABI that does not fit the bytes is passed over."""
    payload = message.payload
    for abi in (*abis, *_OF_ROUTERS):
        if abi.fits(message):
            try:
                values = decode(abi.types, payload)
            except UNDECODABLE:
                continue
            fields = [Field(*triple) for triple in zip(abi.names, abi.types, map(_shown, values), strict=True)]
            return Decoded(how="abi", fields=tuple(fields), text="", length=len(payload))
    text = as_text(payload)
    how = "bytes" if text is None else "text"
    return Decoded(how=how, fields=(), text=_cut(f"0x{payload.hex()}" if text is None else text), length=len(payload))


def action_payload(message: Message, action: ActionMessage, change: str) -> Decoded:
    """The payload of a phase of an atomic action; `change` says what a participant is to do."""
    fields = [
        Field("phase", "enum", action.phase.name),
        Field("action", "bytes32", f"0x{action.action_id.hex()}"),
        Field("participant", "uint8", str(action.branch)),
    ]
    if action.level is not None:
        fields += [Field("level", "enum", action.level.name), Field("subject", "bytes32", f"0x{action.subject.hex()}")]
    if action.change:
        fields.append(Field("change", "bytes", _cut(change)))
    if action.state is not None:
        fields.append(Field("it says", "enum", action.state.name))
    if action.reason:
        fields.append(Field("reason", "bytes32", action.reason))
    return Decoded(how="abi", fields=tuple(fields), text="", length=len(message.payload))


def as_text(payload: bytes) -> str | None:
    """The payload as text, if it is nothing but printable text."""
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
