"""What a node means by an error: clients word and number the same thing differently, so both are looked at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class Meaning(Enum):
    """What an error says about the request."""

    REVERTED = auto()  # a contract refused
    ALREADY_KNOWN = auto()  # the node has this very transaction
    NONCE_USED = auto()  # a transaction with that nonce is included, perhaps this one
    UNDERPRICED = auto()  # another fee, or a calmer chain, is needed
    NO_FUNDS = auto()
    MALFORMED = auto()  # no node will ever take it
    NOT_UNDERSTOOD = auto()  # by this node: its code says that the request or its method is none
    NO_SUCH_BLOCK = auto()  # this node does not have that block, or not any more
    NO_STATE = auto()  # this node knows the block, and has pruned its state
    RATE_LIMITED = auto()  # asked more slowly, it would be answered
    TOO_MUCH_ASKED = auto()  # a smaller range of blocks would be answered
    LIMITED = auto()  # one of the last two, and the words don't say which
    UNAVAILABLE = auto()  # this node can't answer now
    UNKNOWN = auto()


ANOTHER_NODE: Final = frozenset(
    {Meaning.NO_SUCH_BLOCK, Meaning.NO_STATE, Meaning.RATE_LIMITED, Meaning.LIMITED, Meaning.UNAVAILABLE}
)
"""Where another node may answer what this one did not."""

# Regular expressions of words, in small letters, that tell what an error means. In order, and the first that fits decides: a
# revert comes first, because its text holds whatever a contract wrote; what the pace of requests is about, before ranges,
# which have limits and maxima too.
_WORDINGS: Final[tuple[tuple[Meaning, tuple[str, ...]], ...]] = (
    (
        Meaning.REVERTED,
        (
            "execution reverted",  # geth, anvil, reth, besu, erigon
            "vm execution error",  # nethermind, openethereum
            "vm exception while processing transaction: revert",  # hardhat, ganache
            "transaction reverted",
            "gas required exceeds allowance",  # geth, when estimating
            "invalid opcode",
            "out of gas: ",  # anvil: "EVM error OutOfGas" has no blank
            "evm error outofgas",
        ),
    ),
    (
        Meaning.ALREADY_KNOWN,
        (
            "already known",  # geth, reth
            "alreadyknown",  # nethermind
            "known transaction",  # besu, old geth
            "already imported",  # anvil, openethereum
            "already exists",  # zksync
        ),
    ),
    (
        Meaning.NONCE_USED,
        (
            "nonce too low",  # geth, anvil, reth
            "nonce is too low",  # openethereum
            "transaction nonce is below",  # besu
            "oldnonce",  # nethermind
            "nonce has already been used",  # providers' own
        ),
    ),
    (
        Meaning.UNDERPRICED,
        (
            "underpriced",  # geth, anvil, reth, besu
            "feetoolow",  # nethermind
            "fee too low",
            "gas price too low",
            "gas price below",
            "less than block base fee",  # geth: max fee per gas less than block base fee
            "gas price less than",
        ),
    ),
    (
        Meaning.NO_FUNDS,
        (
            "insufficient funds",  # geth, anvil, reth
            "insufficientfunds",  # nethermind
            "insufficient balance",
            "upfront cost exceeds",  # besu
            "have enough funds",  # hardhat
        ),
    ),
    (Meaning.MALFORMED, ("block tag",)),  # "unknown block tag finalized": of no block at all
    (
        Meaning.NO_SUCH_BLOCK,
        (
            "(unknown|missing) (block|header)",
            r"(block|header)( \S+)* not found",  # geth, behind a load balancer
            "(block|header) for hash",
            "beyond (current )?head",  # geth, of a range that ends above its head
            "blockoutofrange",  # anvil, above its head
        ),
    ),
    (
        Meaning.NO_STATE,
        (
            "missing trie node",  # geth, pruned
            "state .*(not|un)[ -]?available",
            "no historical",
            "state .*pruned",
            "old data not",
            "state does not exist",
            "distance to target block exceeds",  # reth
        ),
    ),
    (
        Meaning.RATE_LIMITED,
        (
            r"rate[ -]?limit",
            "too many requests",
            "request limit",
            "request count exceeded",  # infura
            "requests per ",
            "per second",
            "compute units",  # alchemy
            "throttled",
            "quota",
        ),
    ),
    (
        Meaning.TOO_MUCH_ASKED,
        (
            "query returned more than",  # infura, geth's fork of it
            "(block|log)s? range",  # reth, alchemy, ankr, cloudflare: "max block range", "block range is too wide", …
            "range (is )?too (large|wide|big)",
            "too many (blocks|results|logs)",
            r"more than \d+ (results|logs)",
            "exceeds max results",  # reth
            "exceeds? (the )?(maximum )?range",
            "logs matched by query exceeds limit",
            "response size",  # alchemy
            "response is too",
            "query timeout",  # quicknode
            r"limited to (a )?\d",  # quicknode: "eth_getLogs is limited to a 10,000 range"
            "please limit",
        ),
    ),
    (Meaning.LIMITED, ("limit exceeded",)),
    (
        Meaning.UNAVAILABLE,
        (
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
    ),
    (
        Meaning.MALFORMED,
        (
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
    ),
)
_PATTERNS: Final = tuple((meaning, re.compile("|".join(wordings))) for meaning, wordings in _WORDINGS)

# Where the words say nothing, the code may.
_CODES: Final[Mapping[int, Meaning]] = {
    429: Meaning.RATE_LIMITED,
    -32005: Meaning.LIMITED,
    -32603: Meaning.UNAVAILABLE,
    -32600: Meaning.NOT_UNDERSTOOD,
    -32601: Meaning.NOT_UNDERSTOOD,
    -32602: Meaning.NOT_UNDERSTOOD,
    -32700: Meaning.NOT_UNDERSTOOD,
}

_REVERT_CODE: Final = 3  # geth's, taken over by most


def meaning_of(code: int, text: str) -> Meaning:
    """What a node means by an error with that JSON-RPC code and text."""
    if code == _REVERT_CODE:
        return Meaning.REVERTED
    words = text.lower()
    for meaning, pattern in _PATTERNS:
        if pattern.search(words):
            return meaning
    return _CODES.get(code, Meaning.UNKNOWN)
