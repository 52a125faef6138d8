"""What an endpoint answers is understood for what it is, whatever the provider's words are."""

from __future__ import annotations

from typing import Any

import pytest

from indexer.sources.answers import (
    RangeTooLargeError,
    RefusedError,
    RpcError,
    TransientRpcError,
    UnknownBlockError,
    error_of,
    result_of,
)
from indexer.sources.rpc import shown


@pytest.mark.parametrize(
    ("code", "message", "kind", "hint"),
    [
        (-32005, "query returned more than 10000 results", RangeTooLargeError, None),
        (
            -32005,
            "query returned more than 10000 results. Try with this block range [0x10, 0x20].",
            RangeTooLargeError,
            17,
        ),
        (-32602, "block range too large, max is 1000", RangeTooLargeError, 1000),
        (-32614, "eth_getLogs is limited to a 10,000 range", RangeTooLargeError, 10_000),
        (-32602, "You can make eth_getLogs requests with up to a 2K block range", RangeTooLargeError, 2_000),
        (-32000, "exceed maximum block range: 5000", RangeTooLargeError, 5_000),
        (-32000, "requested too many blocks from 1 to 20000, maximum is set to 2048", RangeTooLargeError, 2_048),
        (-32000, "query timeout exceeded", RangeTooLargeError, None),
        (-32005, "limit exceeded", RangeTooLargeError, None),
        (-32005, "rate limit exceeded", TransientRpcError, None),
        (429, "Your app has exceeded its compute units per second capacity", TransientRpcError, None),
        (-32603, "internal error", TransientRpcError, None),
        (-32000, "unknown block", UnknownBlockError, None),
        (-32000, "header not found", UnknownBlockError, None),
        (-32602, "block range extends beyond current head block", UnknownBlockError, None),
        (-32601, "the method eth_foo does not exist", RefusedError, None),
    ],
)
def test_an_error_is_classified_by_code_and_words(
    code: int, message: str, kind: type[RpcError], hint: int | None
) -> None:
    error = error_of({"code": code, "message": message}, "here")
    assert type(error) is kind
    assert getattr(error, "hint", None) == hint


@pytest.mark.parametrize(
    "answer", [None, [], "text", {"id": 7}, {"id": 8, "result": []}, {"result": []}, {"id": None, "result": []}]
)
def test_what_is_not_an_answer_to_the_request_is_no_result(answer: Any) -> None:
    with pytest.raises(TransientRpcError):
        result_of(answer, 7, "here")


def test_an_error_beside_a_result_is_an_error() -> None:
    with pytest.raises(RpcError, match="busy"):
        result_of({"id": 7, "result": [], "error": {"code": -32000, "message": "busy"}}, 7, "here")


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://node.example/v3/0123456789abcdef", "https://node.example/…"),
        ("https://user:secret@node.example", "https://…@node.example"),
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
    ],
)
def test_keys_in_urls_are_not_shown(url: str, text: str) -> None:
    assert shown(url) == text
