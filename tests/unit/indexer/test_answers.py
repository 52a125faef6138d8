"""What an endpoint answers is understood for what it is, whatever the provider's words are."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from indexer.sources.answers import (
    RangeTooLargeError,
    RateLimitedError,
    RefusedError,
    RpcError,
    StateUnavailableError,
    TransientRpcError,
    UnknownBlockError,
    error_of,
    result_of,
)
from indexer.sources.endpoint import shown

CORPUS = tomllib.loads((Path(__file__).resolve().parents[2] / "golden" / "node_answers.toml").read_text())["answer"]
KINDS = {
    "NO_SUCH_BLOCK": UnknownBlockError,
    "NO_STATE": StateUnavailableError,
    "RATE_LIMITED": RateLimitedError,
    "TOO_MUCH_ASKED": RangeTooLargeError,
    "LIMITED": RangeTooLargeError,
    "MALFORMED": RefusedError,
    "NOT_UNDERSTOOD": RefusedError,
    "REVERTED": RefusedError,
}


@pytest.mark.parametrize("said", CORPUS, ids=[f"{said['client']}: {said['text'][:50]}" for said in CORPUS])
def test_what_a_client_says_is_the_error_that_its_meaning_is(said: dict[str, Any]) -> None:
    error = error_of({"code": said["code"], "message": said["text"]}, "here")
    assert type(error) is KINDS.get(said["meaning"], TransientRpcError)


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("query returned more than 10000 results", None),
        ("query returned more than 10000 results. Try with this block range [0x10, 0x20].", 17),
        ("block range too large, max is 1000", 1000),
        ("eth_getLogs is limited to a 10,000 range", 10_000),
        ("You can make eth_getLogs requests with up to a 2K block range", 2_000),
        ("exceed maximum block range: 5000", 5_000),
        ("requested too many blocks from 1 to 20000, maximum is set to 2048", 2_048),
        ("query timeout exceeded", None),
        ("limit exceeded", None),
    ],
)
def test_how_many_blocks_would_be_answered_is_taken_from_the_words(message: str, hint: int | None) -> None:
    error = error_of({"code": -32005, "message": message}, "here")
    assert isinstance(error, RangeTooLargeError)
    assert error.hint == hint


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
