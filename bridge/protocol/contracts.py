"""Calls into Waybill's contracts as bytes, and their answers and reverts as values.

For code that talks through a port and must not know web3: `ROUTER.encode("execute", message_tuple)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_utils.abi import (
    abi_to_signature,
    collapse_if_tuple,
    function_signature_to_4byte_selector,
)
from eth_utils.address import is_address

from bridge.protocol.events import Abi, load_abi
from bridge.protocol.message import Message
from bridge.protocol.text import quoted, shortened


class Contract:
    """The functions and errors of one ABI."""

    def __init__(self, abi: Abi) -> None:
        """Reads an ABI; overloaded functions are known by their full signature only."""
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
        """The data of a call; structs are tuples in the order of their members.

        Raises:
            KeyError: the contract has no such function.
            eth_abi.exceptions.EncodingError: an argument does not fit its type.
        """
        selector, inputs, _ = self._functions[function]
        return selector + encode(inputs, arguments)

    def decode(self, function: str, answer: bytes) -> Any:
        """What a call returned: the value, or a tuple of values if there are several.

        Raises:
            eth_abi.exceptions.DecodingError: the answer is not of this function.
        """
        values = decode(self._functions[function][2], answer)
        return values[0] if len(values) == 1 else values

    def selector(self, function: str) -> bytes:
        """The first four bytes of a call."""
        return self._functions[function][0]

    def error(self, data: bytes) -> tuple[str, Mapping[str, Any]] | None:
        """The name and arguments of a custom error, or None if it is not one of this contract's."""
        known = self._errors.get(data[:4])
        if known is None:
            return None
        name, names, types = known
        try:
            return name, dict(zip(names, decode(types, data[4:]), strict=True))
        except DecodingError:
            return None


def _types(fields: list[dict[str, Any]]) -> list[str]:
    return [collapse_if_tuple(field) for field in fields]


ROUTER: Final = Contract(load_abi("Router"))
INBOX: Final = Contract(load_abi("Inbox"))
ADAPTER: Final = Contract(load_abi("IAdapter"))
MULTICALL: Final = Contract(load_abi("BoundedMulticall"))

_STANDARD_ERRORS: Final = Contract(
    [
        {"type": "error", "name": "Error", "inputs": [{"name": "message", "type": "string"}]},
        {"type": "error", "name": "Panic", "inputs": [{"name": "code", "type": "uint256"}]},
    ]
)


_MOST_SHOWN: Final = 520
"""Hex digits of a reason that nobody can decode; a router copies no more of one."""


def message_tuple(message: Message) -> tuple[Any, ...]:
    """A message as the contracts' struct."""
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


def explain_revert(data: bytes) -> str:
    """What a contract refused with, for people: ``NotRetriable(messageId=0x…)``, or the bytes if nobody knows them.

    What a contract says in its own words is a stranger's text, and quoted.
    """
    if not data:
        return "reverted without a reason"
    for contract in (ROUTER, INBOX, ADAPTER, _STANDARD_ERRORS):
        found = contract.error(data)
        if found is not None:
            name, arguments = found
            return f"{name}({', '.join(f'{key}={_readable(value)}' for key, value in arguments.items())})"
    return f"reverted with 0x{shortened(data.hex(), _MOST_SHOWN)}"


def _readable(value: Any) -> str:
    if isinstance(value, str):
        return value if is_address(value) else quoted(value)
    if not isinstance(value, bytes):
        return str(value)
    # Reasons nest: `ExecutionReverted` carries what the recipient reverted with. A word is an id or an address.
    return f"0x{value.hex()}" if len(value) == 32 else explain_revert(value)
