"""Encodes calls to Waybill's contracts, and decodes their return values and reverts.

Code that uses the `Chain` port must not depend on web3. It calls, for example, `ROUTER.encode("execute",
message_tuple)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from eth_abi.abi import decode, encode
from eth_abi.grammar import TupleType, parse
from eth_utils import keccak
from eth_utils.abi import (
    abi_to_signature,
    collapse_if_tuple,
    function_signature_to_4byte_selector,
)

from bridge.protocol.events import UNDECODABLE, Abi, load_abi
from bridge.protocol.gmps import gmp_label
from bridge.protocol.message import Message
from bridge.protocol.text import quoted, shortened


class Contract:
    """The functions and errors of one ABI."""

    def __init__(self, abi: Abi) -> None:
        """Reads an ABI. Overloaded functions are addressed by their full signature."""
        self._functions: dict[str, tuple[bytes, list[str], list[str]]] = {}
        self._errors: dict[bytes, tuple[str, list[str], list[str]]] = {}
        for item in abi:
            if item["type"] not in ("function", "error"):
                continue
            signature = abi_to_signature(item)  # type: ignore[arg-type]  # eth_typing wants its own TypedDict
            selector = function_signature_to_4byte_selector(signature)
            inputs = _types(item["inputs"])
            if item["type"] == "error":
                self._errors[selector] = (item["name"], [field["name"] for field in item["inputs"]], inputs)
            else:
                self._functions[item["name"]] = self._functions[signature] = (
                    selector,
                    inputs,
                    _types(item["outputs"]),
                )

    def encode(self, function: str, *arguments: Any) -> bytes:
        """Returns a function's call data. Structs are tuples of their members, in order.

        Raises:
            KeyError: the contract has no such function.
            eth_abi.exceptions.EncodingError: an argument does not match its type.
        """
        selector, inputs, _ = self._functions[function]
        return selector + encode(inputs, arguments)

    def decode(self, function: str, answer: bytes) -> Any:
        """Returns the return value of a call, or a tuple if there are several values.

        Raises:
            UNDECODABLE: the data is not a return value of this function.
        """
        values = decode(self._functions[function][2], answer)
        return values[0] if len(values) == 1 else values

    def outputs(self, function: str) -> tuple[str, ...]:
        """Returns the ABI types of a function's return values."""
        return tuple(self._functions[function][2])

    def selector(self, function: str) -> bytes:
        """Returns a function's four-byte selector."""
        return self._functions[function][0]

    def error(self, data: bytes) -> tuple[str, Mapping[str, Any]] | None:
        """Returns the name and arguments of a custom error, or None if this contract does not declare it."""
        known = self._errors.get(data[:4])
        if known is None:
            return None
        name, names, types = known
        try:
            return name, dict(zip(names, decode(types, data[4:]), strict=True))
        except UNDECODABLE:
            return None


def _types(fields: list[dict[str, Any]]) -> list[str]:
    return [collapse_if_tuple(field) for field in fields]


_FUNCTION: Final = re.compile(r"(?P<name>\w+)(?P<inputs>\(.*?\))(?: returns (?P<outputs>\(.*\)))?")


def contract(*functions: str) -> Contract:
    """Returns a contract with the given functions, such as ``"delivered(bytes32) returns (bool)"``.

    Structs are written as tuples of their types.
    """
    return Contract([_function(text) for text in functions])


def topic(event: str) -> bytes:
    """Returns topic 0 of an event such as ``"Dispatch(address,uint32,bytes32,bytes)"``."""
    return keccak(text=event)


def _function(text: str) -> dict[str, Any]:
    found = _FUNCTION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a function signature")
    return {
        "type": "function",
        "name": found["name"],
        "inputs": _fields(found["inputs"]),
        "outputs": _fields(found["outputs"] or "()"),
    }


def _fields(types: str) -> list[dict[str, Any]]:
    if types == "()":
        return []
    parsed = parse(types)
    if not isinstance(parsed, TupleType):
        raise TypeError(f"{types!r} is not a parenthesised list of types")
    return [{"name": "", "type": component.to_type_str()} for component in parsed.components]


ROUTER: Final = Contract(load_abi("Router"))
PROFILES: Final = Contract(load_abi("Profiles"))
INBOX: Final = Contract(load_abi("Inbox"))
ADAPTER: Final = Contract(load_abi("IAdapter"))
MULTICALL: Final = Contract(load_abi("BoundedMulticall"))


_DEEPEST: Final = 16  # errors nest, and a lying node could nest them endlessly
_MOST_SHOWN: Final = 520
"""Hex digits shown of a reason that cannot be decoded; a router copies no more than that."""


def message_tuple(message: Message) -> tuple[Any, ...]:
    """Returns a message as the contracts' struct."""
    return (
        message.source_chain,
        message.source_router,
        message.sender,
        message.nonce,
        message.destination_chain,
        message.destination_router,
        message.recipient,
        message.gas_limit,
        message.sent_at,
        message.ttl,
        int(message.kind),
        message.quorum,
        message.replaces,
        message.payload,
    )


@dataclass(frozen=True, slots=True)
class Revert:
    """A custom error of Waybill's or the GMPs' contracts, with its values.

    Attributes:
        name: name of the error, such as ``NotRetriable``.
        values: values by parameter name; empty if they can't be decoded, since events and ``TooFewDispatched``
            truncate errors to 256 bytes.
        text: name and values as text: ``NotRetriable(messageId=0x…)``.
        by: owner of the contracts that declare the error: ``waybill``, or names of GMPs.
        meaning: description of the error in the contracts' documentation, or empty.
        advice: advice to the user, if known.
        inner: nested errors, such as each GMP's own error in ``TooFewDispatched``.
    """

    name: str
    values: Mapping[str, Any]
    text: str
    by: tuple[str, ...]
    meaning: str
    advice: str
    inner: tuple[Revert, ...]


@cache
def _known_errors() -> Mapping[bytes, Mapping[str, Any]]:
    """Returns every error that can be decoded, by selector."""
    errors: list[dict[str, Any]] = [*load_abi("Errors"), *_STANDARD_ERRORS]
    return {function_signature_to_4byte_selector(abi_to_signature(error)): error for error in errors}  # type: ignore[arg-type]  # as above


_STANDARD_ERRORS: Final = (
    {
        "type": "error",
        "name": "Error",
        "inputs": [{"name": "message", "type": "string"}],
        "by": ["solidity"],
        "meaning": "The contract gives its reason as text.",
    },
    {
        "type": "error",
        "name": "Panic",
        "inputs": [{"name": "code", "type": "uint256"}],
        "by": ["solidity"],
        "meaning": "A check of the compiler's failed: 0x01 assert, 0x11 overflow, 0x12 division by zero, 0x21 no such enum value,"
        " 0x32 index out of bounds, 0x41 out of memory.",
    },
)


def decode_revert(data: bytes, depth: int = 0) -> Revert | None:
    """Returns the custom error in revert data, or None if neither Waybill nor the GMPs declare it.

    Args:
        data: the revert data of a call.
        depth: nesting depth of this error. The deepest levels are not decoded.
    """
    known = _known_errors().get(data[:4]) if depth < _DEEPEST else None
    if known is None:
        return None
    name, inputs = known["name"], known["inputs"]
    inner: list[Revert] = []
    try:
        values = dict(zip([field["name"] for field in inputs], decode(_types(inputs), data[4:]), strict=True))
    except UNDECODABLE as error:
        why = (
            "not UTF-8" if isinstance(error, UnicodeDecodeError) else "cut off"
        )  # text from a foreign contract may be any bytes
        values, text = {}, f"{name}, {why}: 0x{shortened(data.hex(), _MOST_SHOWN)}"
    else:
        fields = [f"{field['name']}={_readable(field, values[field['name']], inner, depth)}" for field in inputs]
        text = f"{name}({', '.join(fields)})"
    return Revert(
        name=name,
        values=values,
        text=text,
        by=tuple(known["by"]),
        meaning=known.get("meaning", ""),
        advice=known.get("advice", ""),
        inner=tuple(inner),
    )


def explain_revert(data: bytes) -> str:
    """Describes revert data: ``NotRetriable(messageId=0x…)``, or the bytes if the error is unknown.

    A contract's own error text is untrusted, so it is quoted.
    """
    revert = decode_revert(data)
    return revert.text if revert else _undecoded(data)


def _undecoded(data: bytes) -> str:
    return f"reverted with 0x{shortened(data.hex(), _MOST_SHOWN)}" if data else "reverted without a reason"


def explain_refusal(reason: bytes) -> str:
    """Returns the reason why a recipient rejected a message, from its revert data.

    Empty data has three possible causes.
    """
    if reason:
        return explain_revert(reason)
    return "reverted without a reason: its gas limit was too low, there is no contract at its address, or it gave none"


def _readable(field: Mapping[str, Any], value: Any, inner: list[Revert], depth: int) -> str:
    """Returns a value as text. Adds nested errors to `inner`."""
    kind: str = field["type"]
    if kind.endswith("]"):
        member = {**field, "type": kind[: kind.rindex("[")]}
        return f"[{', '.join(_readable(member, one, inner, depth) for one in value)}]"
    if kind == "tuple":
        parts = [
            f"{part['name']}={_readable(part, one, inner, depth)}"
            for part, one in zip(field["components"], value, strict=True)
        ]
        return f"{{{', '.join(parts)}}}"
    if kind == "string":
        return quoted(value)
    if kind == "bytes":
        revert = decode_revert(value, depth + 1)
        inner.extend([revert] if revert else [])
        return revert.text if revert else _undecoded(value)
    if field["name"] == "gmp" and kind == "uint8":
        return gmp_label(value)
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
