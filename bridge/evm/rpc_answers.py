"""The meaning of a JSON-RPC endpoint's response. Only a well-formed result of the right request counts as a result.

Clients use different texts and codes for the same error, so both are examined.

RpcError
├── TransientRpcError      no usable response; the same request may succeed later
│   ├── UndecodableError   the response is not well-formed, unlike those of honest nodes
│   └── RateLimitedError   the endpoint limits the rate of requests
├── RangeTooLargeError     the request must ask for fewer blocks
├── StateUnavailableError  the endpoint has pruned the state of that block
├── UnknownBlockError      the endpoint does not have that block (any more)
├── RefusedError           the node rejected the request, or does not support it
├── NoAccessError          the endpoint denies access, for example without an API key
└── WrongChainError        the endpoint serves a different chain
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

from eth_abi.exceptions import DecodingError

T = TypeVar("T")


class Meaning(Enum):
    """What an error means for the request."""

    REVERTED = auto()  # a contract call reverted
    ALREADY_KNOWN = auto()  # the node has this transaction
    NONCE_USED = auto()  # a transaction with that nonce is included, perhaps this one
    UNDERPRICED = auto()  # the offered fee is too low
    NO_FUNDS = auto()
    MALFORMED = auto()  # no node will ever accept the transaction
    NOT_UNDERSTOOD = auto()  # this node does not support the request or its method
    NO_SUCH_BLOCK = auto()  # this node lacks the block, perhaps since a reorg
    NO_STATE = auto()  # this node has pruned the block's state
    RATE_LIMITED = auto()  # requests come too fast
    TOO_MUCH_ASKED = auto()  # the range of blocks is too large
    LIMITED = auto()  # one of the last two; the text does not distinguish them
    UNAVAILABLE = auto()  # this node cannot answer now
    UNKNOWN = auto()


ANOTHER_NODE: Final = frozenset(
    {Meaning.NO_SUCH_BLOCK, Meaning.NO_STATE, Meaning.RATE_LIMITED, Meaning.LIMITED, Meaning.UNAVAILABLE}
)
"""Meanings of errors after which another node may return a result."""

# Regular expressions for error texts in lower case; the first match decides. Reverts come first, because their text contains
# whatever a contract wrote. Rate limits come before ranges, whose texts mention limits and maxima too.
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

# Codes for texts that match nothing.
_CODES: Final[Mapping[int, Meaning]] = {
    429: Meaning.RATE_LIMITED,
    -32005: Meaning.LIMITED,
    -32603: Meaning.UNAVAILABLE,
    -32600: Meaning.NOT_UNDERSTOOD,
    -32601: Meaning.NOT_UNDERSTOOD,
    -32602: Meaning.NOT_UNDERSTOOD,
    -32700: Meaning.NOT_UNDERSTOOD,
}

_REVERT_CODE: Final = 3  # geth's, which most nodes adopted


def meaning_of(code: int, text: str) -> Meaning:
    """Classifies a node's error by its JSON-RPC code and text."""
    if code == _REVERT_CODE:
        return Meaning.REVERTED
    words = text.lower()
    for meaning, pattern in _PATTERNS:
        if pattern.search(words):
            return meaning
    return _CODES.get(code, Meaning.UNKNOWN)


CHANGING: Final = frozenset({"eth_sendRawTransaction"})
"""Requests that change the chain. They are not sent to a second endpoint just because the first is slow."""

_TAGS: Final = frozenset({"safe", "finalized"})


class Request(NamedTuple):
    """The method and parameters of a request."""

    method: str
    params: Sequence[Any] = ()

    @property
    def is_of_tag(self) -> bool:
        """Whether the request refers to a block by a tag such as `finalized`, which not every chain supports."""
        return self.method == "eth_getBlockByNumber" and self.params[0] in _TAGS

    @property
    def is_of_range(self) -> bool:
        """Whether the request is for logs of more than one block, so that its range can be reduced."""
        if self.method != "eth_getLogs":
            return False
        criteria = self.params[0]
        return "blockHash" not in criteria and criteria.get("fromBlock") != criteria.get("toBlock")


class RpcError(Exception):
    """An endpoint gave no result.

    Attributes:
        meaning: what the error means for the request.
        code: the JSON-RPC error code, or None without a JSON-RPC error.
        data: data of the JSON-RPC error; for a revert, the revert data in one of several forms.
    """

    usual: ClassVar[Meaning] = Meaning.UNKNOWN

    def __init__(self, text: str, *, meaning: Meaning | None = None, code: int | None = None, data: Any = None) -> None:
        super().__init__(text)
        self.meaning = meaning or self.usual
        self.code = code
        self.data = data


class TransientRpcError(RpcError):
    """No usable response: the endpoint is unreachable or overloaded, or the response was truncated.

    The same request may succeed later.
    """

    usual = Meaning.UNAVAILABLE


class UndecodableError(TransientRpcError):
    """A response is not well-formed. Honest nodes never return such a response."""


class DisagreementError(TransientRpcError):
    """Endpoints responded, but too few of them agree."""


class RateLimitedError(TransientRpcError):
    """The endpoint limits the rate of requests.

    Attributes:
        retry_after: seconds until the endpoint accepts requests again, or None if unknown.
    """

    usual = Meaning.RATE_LIMITED

    def __init__(self, text: str, retry_after: float | None = None, **facts: Any) -> None:
        super().__init__(text, **facts)
        self.retry_after = retry_after


class RangeTooLargeError(RpcError):
    """The endpoint requires a smaller range of blocks.

    Attributes:
        hint: number of blocks that the endpoint says it accepts, or None.
    """

    usual = Meaning.TOO_MUCH_ASKED

    def __init__(self, text: str, hint: int | None = None, **facts: Any) -> None:
        super().__init__(text, **facts)
        self.hint = hint


class UnknownBlockError(RpcError):
    """The endpoint does not have the block, either because it lags or because the block is no longer on its chain."""

    usual = Meaning.NO_SUCH_BLOCK


class StateUnavailableError(RpcError):
    """The endpoint knows the block but has pruned its state. An archive node would have it."""

    usual = Meaning.NO_STATE


class RefusedError(RpcError):
    """A node rejected the request.

    The contract reverted, the node rejected the transaction, or the node does not support the request.
    """


class NoAccessError(RpcError):
    """The endpoint denies access: it requires a key, or the URL is wrong."""


class WrongChainError(RpcError):
    """The endpoint serves a different chain from the one in the deployments file."""


class NoUrlError(WrongChainError):
    """An endpoint's URL is invalid."""


_KINDS: Final[Mapping[Meaning, type[RpcError]]] = {
    Meaning.NO_SUCH_BLOCK: UnknownBlockError,
    Meaning.NO_STATE: StateUnavailableError,
    Meaning.RATE_LIMITED: RateLimitedError,
    Meaning.UNAVAILABLE: TransientRpcError,
    Meaning.UNKNOWN: TransientRpcError,
}

_HEX_RANGE: Final = re.compile(r"\[?(0x[0-9a-f]+)\s*(?:,|-|to)\s*(0x[0-9a-f]+)\]?", re.IGNORECASE)
_DECIMAL_RANGE: Final = re.compile(r"\b(\d{3,})\s*(?:-|to)\s*(\d{3,})\b")
_BLOCK_COUNT: Final = re.compile(
    r"(?:max(?:imum)?|limit(?:ed)?|up to|exceeds?)\D{0,40}?(\d[\d,]*)\s*(k\b)?|(\d[\d,]*)\s*(k\b)? block", re.IGNORECASE
)


def result_of(answer: Any, request: Request, where: str) -> Any:
    """Returns the result in a JSON-RPC response.

    Args:
        answer: JSON document of the response.
        request: the request.
        where: endpoint and method, for errors.

    Raises:
        RpcError: the response is an error, or is not a JSON-RPC response.
    """
    if not isinstance(answer, Mapping):
        raise TransientRpcError(f"{where}: the body is not a JSON-RPC response: {str(answer)[:80]}")
    if answer.get("error") is not None:
        raise error_of(answer["error"], request, where)
    if "result" not in answer:
        raise TransientRpcError(f"{where}: the response has neither a result nor an error")
    return answer["result"]


def error_of(error: Any, request: Request, where: str) -> RpcError:
    """Returns the exception for a JSON-RPC error object. A non-standard object is quoted verbatim."""
    details = error if isinstance(error, Mapping) else {"message": str(error)}
    given = details.get("code")
    code = given if isinstance(given, int) else 0
    data, message = details.get("data"), str(details.get("message", ""))
    meaning = meaning_of(code, f"{message} {data}" if isinstance(data, str) else message)
    text = f"{where}: {message}{f' {data}' if isinstance(data, str) else ''} (code {code})"
    facts: dict[str, Any] = {"meaning": meaning, "code": code, "data": data}
    if meaning in (Meaning.TOO_MUCH_ASKED, Meaning.LIMITED):
        if request.is_of_range or (request.method == "eth_getLogs" and meaning is Meaning.TOO_MUCH_ASKED):
            return RangeTooLargeError(text, range_hint(message), **facts)
        return RateLimitedError(text, **facts)  # a limit, and the request has no range to reduce
    if meaning is Meaning.UNKNOWN and request.method in CHANGING:
        return RefusedError(text, **facts)
    return _KINDS.get(meaning, RefusedError)(text, **facts)


def range_hint(message: str) -> int | None:
    """Returns the number of blocks that an error's text allows, or None."""
    for pattern, base in ((_HEX_RANGE, 16), (_DECIMAL_RANGE, 10)):
        if found := pattern.search(message):
            blocks = int(found[2], base) - int(found[1], base) + 1
            return blocks if blocks > 0 else None
    if "result" not in message and (found := _BLOCK_COUNT.search(message)):
        number, thousands = (found[1], found[2]) if found[1] else (found[3], found[4])
        blocks = int(number.replace(",", "")) * (1000 if thousands else 1)
        return blocks if blocks > 0 else None
    return None


_HEX: Final = re.compile(r"0x((?:[0-9a-fA-F]{2})*)")


def revert_data(error: RpcError) -> bytes:
    """Returns the revert data of a contract call, or empty bytes if the node does not report it."""
    data = error.data
    if isinstance(data, dict):
        data = data.get("data") or data.get("result")
    found = _HEX.search(data) if isinstance(data, str) else None
    return bytes.fromhex(found[1]) if found else b""


def decoder_of(what: str, decoder: Callable[[Any], T]) -> Callable[[Any], T]:
    """Returns a decoder that raises `UndecodableError` for every result that `decoder` rejects.

    `what` describes the result in the error.
    """

    def decode(answer: Any) -> T:
        try:
            return decoder(answer)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, DecodingError) as error:
            if answer == "0x":
                raise UndecodableError(
                    f"{what} is empty: there is no contract at that address, or this node does not have it. "
                    "Check that the deployments file is for this network"
                ) from error
            raise UndecodableError(f"{what} can't be decoded ({type(error).__name__}: {error})") from error

    return decode


# Texts with which servers reject batches, or long ones.
_NO_BATCHES: Final = frozenset({400, 405, 413, 415, 422, 501})
_TOO_OFTEN: Final = frozenset({429, 503})


class BatchRefusedError(Exception):
    """The server does not accept batches."""


def check_batch(answer: Any, where: str) -> None:
    """Raises the error for a response to a batch that is not a list with one response per request.

    Raises:
        BatchRefusedError: the server accepts no batches, or only smaller ones.
    """
    if isinstance(answer, Mapping) and answer.get("error") is not None:
        error = error_of(answer["error"], Request("a batch"), where)
        if error.meaning not in ANOTHER_NODE:
            raise BatchRefusedError(str(error))


def check_status(
    status: int, retry_after: str | None, body: bytes, where: str, *, requests: int = 1, now: float = 0.0
) -> None:
    """Checks the status of an HTTP response.

    Args:
        status: HTTP status.
        retry_after: the Retry-After header.
        body: response body. Some providers put their JSON-RPC error into it; a proxy's error page is not JSON.
        where: endpoint and method, for error messages.
        requests: number of requests in the batch.
        now: Unix seconds.

    Raises:
        RpcError: the status is an error, and the body contains no JSON-RPC response.
        BatchRefusedError: the server accepts no batches, or only smaller ones.
    """
    if status == 200:
        return
    if status in (401, 403):
        raise NoAccessError(f"{where}: the endpoint requires an API key (HTTP {status})")
    if status in _TOO_OFTEN and (seconds := _seconds_of(retry_after, now)):
        raise RateLimitedError(f"{where}: HTTP {status}, retry after {seconds:.0f} s", seconds)
    if body.lstrip().startswith((b"{", b"[")):
        return
    if requests > 1 and status in _NO_BATCHES:
        raise BatchRefusedError(f"HTTP {status}")
    raise TransientRpcError(f"{where}: HTTP {status}")


def _seconds_of(retry_after: str | None, now: float) -> float | None:
    """Returns the seconds in a Retry-After header (RFC 9110, section 10.2.3), or None if it is absent or invalid."""
    if retry_after is None:
        return None
    try:
        seconds = float(retry_after) if retry_after.strip().isdigit() else _seconds_until(retry_after, now)
    except ValueError:
        return None
    return seconds if seconds > 0 else None


def _seconds_until(date: str, now: float) -> float:
    moment: datetime = parsedate_to_datetime(date)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now
