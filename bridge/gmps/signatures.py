"""Parts of the GMPs' own contracts, written down as Solidity does."""

from __future__ import annotations

import re
from typing import Any, Final

from eth_abi.grammar import TupleType, parse
from eth_utils import keccak

from bridge.protocol.contracts import Contract

_FUNCTION: Final = re.compile(r"(?P<name>\w+)(?P<inputs>\(.*?\))(?: returns (?P<outputs>\(.*\)))?")


def contract(*functions: str) -> Contract:
    """A contract with some functions, such as ``"delivered(bytes32) returns (bool)"``; structs as tuples of their types."""
    return Contract([_function(text) for text in functions])


def topic(event: str) -> bytes:
    """Topic 0 of an event, such as ``"Dispatch(address,uint32,bytes32,bytes)"``."""
    return keccak(text=event)


def _function(text: str) -> dict[str, Any]:
    found = _FUNCTION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a function's signature")
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
        raise TypeError(f"{types!r} is not a list of types in brackets")
    return [_field(component) for component in parsed.components]


def _field(parsed: Any) -> dict[str, Any]:
    if not isinstance(parsed, TupleType):
        return {"name": "", "type": parsed.to_type_str()}
    dimensions = "".join(f"[{''.join(map(str, dimension))}]" for dimension in parsed.arrlist or ())
    return {"name": "", "type": f"tuple{dimensions}", "components": [_field(part) for part in parsed.components]}
