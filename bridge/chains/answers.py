"""The error in a node's answer; what it means is for `bridge.protocol.node_errors` to say."""

from __future__ import annotations

import re
from typing import Any

from bridge.protocol.node_errors import Meaning, meaning_of


class RpcError(Exception):
    """A node answered a request with an error.

    Attributes:
        code: the JSON-RPC error code.
        text: the node's words.
        data: what it added; for a revert, the contract's answer in one of several forms.
    """

    def __init__(self, method: str, code: int, text: str, data: Any = None) -> None:
        super().__init__(f"{method} was refused: {text} (code {code})")
        self.method = method
        self.code = code
        self.text = text
        self.data = data

    @property
    def meaning(self) -> Meaning:
        """What the node means by it."""
        return meaning_of(self.code, self.text)

    @classmethod
    def from_json(cls, method: str, error: Any) -> RpcError:
        """The error in an answer; a shape that no standard knows becomes its own text."""
        if not isinstance(error, dict):
            return cls(method, 0, str(error))
        code = error.get("code")
        return cls(method, code if isinstance(code, int) else 0, str(error.get("message", error)), error.get("data"))


_HEX = re.compile(r"0x((?:[0-9a-fA-F]{2})*)")


def revert_data(error: RpcError) -> bytes:
    """What a contract reverted with, or nothing where the node does not say."""
    data = error.data
    if isinstance(data, dict):
        data = data.get("data") or data.get("result")
    found = _HEX.search(data) if isinstance(data, str) else None
    return bytes.fromhex(found[1]) if found else b""
