"""What a node means by an error: clients word and number the same thing differently, so both are looked at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final


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

    @classmethod
    def from_json(cls, method: str, error: Any) -> RpcError:
        """The error in an answer; a shape that no standard knows becomes its own text."""
        if not isinstance(error, dict):
            return cls(method, 0, str(error))
        code = error.get("code")
        return cls(method, code if isinstance(code, int) else 0, str(error.get("message", error)), error.get("data"))


class Meaning(Enum):
    """What an error says about the request."""

    REVERTED = auto()  # a contract refused
    ALREADY_KNOWN = auto()  # the node has this very transaction
    NONCE_USED = auto()  # a transaction with that nonce is included, perhaps this one
    UNDERPRICED = auto()  # another fee, or a calmer chain, is needed
    NO_FUNDS = auto()
    TOO_MUCH_ASKED = auto()  # a smaller range of blocks would be answered
    UNAVAILABLE = auto()  # this node can't answer now, another one may
    MALFORMED = auto()  # no node will ever take it
    UNKNOWN = auto()


# Words, in small letters, that tell what an error means. In order, and the first that fits decides: a revert comes first,
# because its text holds whatever a contract wrote.
_WORDINGS: Final[Mapping[Meaning, tuple[str, ...]]] = {
    Meaning.REVERTED: (
        "execution reverted",  # geth, anvil, reth, besu, erigon
        "vm execution error",  # nethermind, openethereum
        "vm exception while processing transaction: revert",  # hardhat, ganache
        "transaction reverted",
        "gas required exceeds allowance",  # geth, when estimating
        "invalid opcode",
        "out of gas: ",  # anvil: "EVM error OutOfGas" has no blank
        "evm error outofgas",
    ),
    Meaning.ALREADY_KNOWN: (
        "already known",  # geth, reth
        "alreadyknown",  # nethermind
        "known transaction",  # besu, old geth
        "already imported",  # anvil, openethereum
        "already exists",  # zksync
    ),
    Meaning.NONCE_USED: (
        "nonce too low",  # geth, anvil, reth
        "nonce is too low",  # openethereum
        "transaction nonce is below",  # besu
        "oldnonce",  # nethermind
        "nonce has already been used",  # providers' own
    ),
    Meaning.UNDERPRICED: (
        "underpriced",  # geth, anvil, reth, besu
        "feetoolow",  # nethermind
        "fee too low",
        "gas price too low",
        "gas price below",
        "less than block base fee",  # geth: max fee per gas less than block base fee
        "gas price less than",
    ),
    Meaning.NO_FUNDS: (
        "insufficient funds",  # geth, anvil, reth
        "insufficientfunds",  # nethermind
        "insufficient balance",
        "upfront cost exceeds",  # besu
        "have enough funds",  # hardhat
    ),
    Meaning.TOO_MUCH_ASKED: (
        "query returned more than",  # infura, geth's fork of it
        "block range",  # reth, alchemy, ankr, cloudflare: "max block range", "block range is too wide", …
        "blocks range",
        "range is too large",
        "range too large",
        "exceeds max results",  # reth
        "too many results",
        "logs matched by query exceeds limit",
        "response size exceeded",  # alchemy
        "response is too big",
        "query timeout exceeded",  # quicknode
        "limited to a ",  # quicknode: "eth_getLogs is limited to a 10,000 range"
    ),
    Meaning.UNAVAILABLE: (
        "rate limit",
        "too many requests",
        "limit exceeded",
        "request count exceeded",
        "exceeded its compute units",  # alchemy
        "header not found",  # geth, behind a load balancer
        "block not found",
        "unknown block",
        "blockoutofrange",  # anvil, above its head
        "missing trie node",  # geth, pruned
        "state is not available",
        "timeout",
        "timed out",
        "temporarily",
        "syncing",
        "nonce too high",
        "nonce gap",
        "noncegap",  # nethermind
        "nonce is too distant",  # besu
        "txpool is full",
    ),
    Meaning.MALFORMED: (
        "invalid sender",
        "invalid signature",
        "invalid chain id",
        "wrong chain id",
        "intrinsic gas too low",
        "exceeds block gas limit",
        "gas limit reached",
        "gas limit too high",
        "oversized data",
        "max initcode size",
        "rlp",
        "failed to decode",
        "transaction type not supported",
        "exceeds the configured cap",
    ),
}

# Where the words say nothing, the code may.
_CODES: Final = {
    429: Meaning.UNAVAILABLE,
    -32005: Meaning.UNAVAILABLE,
    -32603: Meaning.UNAVAILABLE,
    -32600: Meaning.MALFORMED,
    -32601: Meaning.MALFORMED,
    -32602: Meaning.MALFORMED,
    -32700: Meaning.MALFORMED,
}

_REVERT_CODE = 3  # geth's, taken over by most
_HEX = re.compile(r"0x((?:[0-9a-fA-F]{2})*)")


def meaning_of(error: RpcError) -> Meaning:
    """What a node means by an error."""
    if error.code == _REVERT_CODE:
        return Meaning.REVERTED
    text = error.text.lower()
    for meaning, wordings in _WORDINGS.items():
        if any(wording in text for wording in wordings):
            return meaning
    return _CODES.get(error.code, Meaning.UNKNOWN)


def revert_data(error: RpcError) -> bytes:
    """What a contract reverted with, or nothing where the node does not say."""
    data = error.data
    if isinstance(data, dict):
        data = data.get("data") or data.get("result")
    found = _HEX.search(data) if isinstance(data, str) else None
    return bytes.fromhex(found[1]) if found else b""
