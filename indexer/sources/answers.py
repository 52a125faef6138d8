"""What a JSON-RPC endpoint's answer means. Nothing but a well-formed result of the right request counts as one.

RpcError
├── TransientRpcError   no usable answer; the same request may succeed later
│   └── RateLimitedError   the endpoint wants to be asked more slowly
├── RangeTooLargeError  ask for fewer blocks
├── StateUnavailableError  the endpoint has no state of that block any more
├── UnknownBlockError   the endpoint does not have that block (any more)
├── RefusedError        the endpoint will never answer this request
├── NoAccessError       the endpoint answers nothing to us, such as without a key
└── WrongChainError     the endpoint serves another chain
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from json import JSONDecodeError, JSONDecoder
from typing import Any, ClassVar, Final

import orjson

from bridge.protocol.node_errors import Meaning, meaning_of
from indexer.model.errors import IndexerError


class RpcError(IndexerError):
    """An endpoint did not answer as asked.

    Attributes:
        blames_endpoint: whether it says something about the endpoint, rather than about the request.
    """

    blames_endpoint: ClassVar[bool] = False


class TransientRpcError(RpcError):
    """No usable answer: unreachable, overloaded, truncated. The same request may succeed later."""

    blames_endpoint: ClassVar[bool] = True


class RateLimitedError(TransientRpcError):
    """The endpoint wants to be asked more slowly.

    Attributes:
        retry_after: seconds for which it wants to be left alone, or None where it does not say.
    """

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


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


class NoAccessError(RpcError):
    """The endpoint answers nothing to us: it wants a key, or its URL is none."""

    blames_endpoint: ClassVar[bool] = True


class WrongChainError(RpcError):
    """The endpoint serves another chain than the deployment says."""

    blames_endpoint: ClassVar[bool] = True


_FIRST: Final = 1 << 18  # characters in which the short answers before a long one mostly end
_NO_BLANK: Final = re.compile(r"[^ \t\n\r]")
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


def answers_together(body: bytes, ids: Sequence[int], where: str) -> tuple[list[Any], bytes]:
    """The answers in the body of a response to a batch.

    Args:
        body: of which the last answer may be long, and is left as it is.
        ids: of the requests.
        where: endpoint and method, for errors.

    Returns:
        All answers but the last, as JSON, and the bytes of the last.

    Raises:
        RpcError: there are not as many answers.
    """
    text = body.strip()
    if text.startswith(b"[") and text.endswith(b"]"):
        for length in (_FIRST, len(text)):
            with suppress(JSONDecodeError):
                found, end = _leading(text[:length].decode("latin-1"), ids[:-1])  # which leaves every byte in its place
                return found, text[end:-1]
    answers = answers_of(body, where)
    if not isinstance(answers, list):
        result_of(answers, -1, where)  # an error for the whole batch
        raise TransientRpcError(f"{where}: a batch of {len(ids)} requests got one answer")
    by_id = {answer.get("id"): answer for answer in answers if isinstance(answer, dict)}
    return [by_id.get(id_) for id_ in ids[:-1]], orjson.dumps(by_id.get(ids[-1]))


def _leading(text: str, ids: Sequence[int]) -> tuple[list[Any], int]:
    """The first answers of an array, and where the next begins.

    Raises:
        JSONDecodeError: they are not those of these requests, in this order.
    """
    found: list[Any] = []
    at = _past_blanks(text, 1)
    for id_ in ids:
        answer, at = JSONDecoder().raw_decode(text, at)
        at = _past_blanks(text, at)
        if not isinstance(answer, dict) or answer.get("id") != id_ or text[at : at + 1] != ",":
            raise JSONDecodeError("another answer than the next", text, at)
        found.append(answer)
        at = _past_blanks(text, at + 1)
    return found, at


def _past_blanks(text: str, at: int) -> int:
    found = _NO_BLANK.search(text, at)
    return found.start() if found else len(text)


def error_of(error: Any, where: str) -> RpcError:
    """The exception for a JSON-RPC error object."""
    details = error if isinstance(error, Mapping) else {"message": str(error)}
    code = details.get("code")
    message = str(details.get("message", ""))
    if isinstance(details.get("data"), str):
        message += f" {details['data']}"
    text = f"{where}: {message} (code {code})"
    match meaning_of(code if isinstance(code, int) else 0, message):
        case Meaning.TOO_MUCH_ASKED | Meaning.LIMITED:
            return RangeTooLargeError(text, range_hint(message))
        case Meaning.RATE_LIMITED:
            return RateLimitedError(text)
        case Meaning.NO_STATE:
            return StateUnavailableError(text)
        case Meaning.NO_SUCH_BLOCK:
            return UnknownBlockError(text)
        case Meaning.MALFORMED | Meaning.NOT_UNDERSTOOD | Meaning.REVERTED:
            return RefusedError(text)
        case _:
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
