"""What a JSON-RPC endpoint's answer means. Nothing but a well-formed result of the right request counts as one.

RpcError
├── TransientRpcError   no usable answer; the same request may succeed later
├── RangeTooLargeError  ask for fewer blocks
├── StateUnavailableError  the endpoint has no state of that block any more
├── UnknownBlockError   the endpoint does not have that block (any more)
├── RefusedError        the endpoint will never answer this request
└── WrongChainError     the endpoint serves another chain
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from indexer.errors import IndexerError


class RpcError(IndexerError):
    """An endpoint did not answer as asked."""


class TransientRpcError(RpcError):
    """No usable answer: unreachable, overloaded, rate limited, truncated. The same request may succeed later."""


class RangeTooLargeError(RpcError):
    """The endpoint wants a smaller range of blocks.

    Attributes:
        hint: how many blocks it says it would take, or None.
    """

    def __init__(self, text: str, hint: int | None) -> None:
        super().__init__(text)
        self.hint = hint


class UnknownBlockError(RpcError):
    """The endpoint does not have that block: it lags, or the block is no longer on its chain."""


class StateUnavailableError(RpcError):
    """The endpoint knows the block, but has pruned its state: ask one with an archive."""


class RefusedError(RpcError):
    """The endpoint will never answer this request, such as an unknown method."""


class WrongChainError(RpcError):
    """The endpoint serves another chain than the deployment says."""


# Every client and provider has words of its own. Order matters: a range complaint often comes with a rate limit's code.
_RANGE: Final = re.compile(
    r"range (is )?too (large|wide|big)|(block|log)s? range|too many (blocks|results|logs)|more than \d+ (results|logs)"
    r"|response (size|is too)|query (timeout|returned)|limited to (a )?\d+|exceeds? (the )?(max|limit|range)"
    r"|max(imum)? \w*\s?(block )?range|please limit|(?<!rate )limit exceeded",
    re.IGNORECASE,
)
_UNKNOWN_BLOCK: Final = re.compile(
    r"(unknown|missing) (block|header)|(block|header)( \w+)* not found|(block|header) for hash|beyond (current )?head",
    re.IGNORECASE,
)
_NO_STATE: Final = re.compile(
    r"missing trie node|(historical|required)? ?state .*(not|un)[ -]?available|no historical|state .*pruned|old data not"
    r"|state does not exist|distance to target block exceeds",
    re.IGNORECASE,
)
_REFUSED_CODES: Final = frozenset({-32601, -32600, -32700})
_HEX_RANGE: Final = re.compile(r"\[?(0x[0-9a-f]+)\s*(?:,|-|to)\s*(0x[0-9a-f]+)\]?", re.IGNORECASE)
_DECIMAL_RANGE: Final = re.compile(r"\b(\d{3,})\s*(?:-|to)\s*(\d{3,})\b")
_BLOCK_COUNT: Final = re.compile(
    r"(?:max(?:imum)?|limit(?:ed)?|up to|exceeds?)\D{0,40}?(\d[\d,]*)\s*(k\b)?|(\d[\d,]*)\s*(k\b)? block", re.IGNORECASE
)


def answers_of(body: bytes, where: str) -> Any:
    """The JSON document in a body.

    Raises:
        TransientRpcError: the body is no JSON: cut off, or a proxy's error page.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise TransientRpcError(
            f"{where}: the answer is no JSON ({error}); its first bytes are {body[:80]!r}"
        ) from error


def result_of(answer: Any, request_id: int, where: str) -> Any:
    """The result in one answer.

    Args:
        answer: the JSON document.
        request_id: of the request it must belong to.
        where: endpoint and method, for errors.

    Raises:
        RpcError: it is an error, or no answer to that request.
    """
    if not isinstance(answer, dict):
        raise TransientRpcError(f"{where}: the answer is no JSON-RPC answer: {str(answer)[:80]}")
    if answer.get("error") is not None:
        raise error_of(answer["error"], where)
    if answer.get("id") != request_id:
        raise TransientRpcError(f"{where}: the answer belongs to request {answer.get('id')!r}, not {request_id}")
    if "result" not in answer:
        raise TransientRpcError(f"{where}: the answer has neither result nor error")
    return answer["result"]


def parsed_result(body: bytes, request_id: int, where: str) -> Any:
    """The result in the body of a response to a single request; arguments and errors as for `result_of`."""
    return result_of(answers_of(body, where), request_id, where)


def error_of(error: Any, where: str) -> RpcError:
    """The exception for a JSON-RPC error object."""
    details = error if isinstance(error, Mapping) else {"message": str(error)}
    code = details.get("code")
    message = str(details.get("message", ""))
    if isinstance(details.get("data"), str):
        message += f" {details['data']}"
    text = f"{where}: {message} (code {code})"
    if _NO_STATE.search(message):
        return StateUnavailableError(text)
    if _UNKNOWN_BLOCK.search(message):
        return UnknownBlockError(text)
    if _RANGE.search(message):
        return RangeTooLargeError(text, range_hint(message))
    if code in _REFUSED_CODES:
        return RefusedError(text)
    return TransientRpcError(text)


def range_hint(message: str) -> int | None:
    """How many blocks an error's text says would be taken."""
    for pattern, base in ((_HEX_RANGE, 16), (_DECIMAL_RANGE, 10)):
        if found := pattern.search(message):
            blocks = int(found[2], base) - int(found[1], base) + 1
            return blocks if blocks > 0 else None
    if "result" not in message and (found := _BLOCK_COUNT.search(message)):
        number, thousands = (found[1], found[2]) if found[1] else (found[3], found[4])
        blocks = int(number.replace(",", "")) * (1000 if thousands else 1)
        return blocks if blocks > 0 else None
    return None
