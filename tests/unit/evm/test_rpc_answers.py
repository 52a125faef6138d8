"""What an endpoint answers is understood for what it is, whatever the provider's words are."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from bridge.evm.endpoint_policy import without_secrets
from bridge.evm.rpc_answers import (
    Meaning,
    RangeTooLargeError,
    RateLimitedError,
    RefusedError,
    Request,
    RpcError,
    StateUnavailableError,
    TransientRpcError,
    UnknownBlockError,
    error_of,
    result_of,
    revert_data,
)
from tests.cases import for_each_case

CORPUS = tomllib.loads((Path(__file__).resolve().parents[2] / "golden" / "node_answers.toml").read_text())["answer"]
SELECTOR = "0xdeadbeef"
KINDS = {
    "NO_SUCH_BLOCK": UnknownBlockError,
    "NO_STATE": StateUnavailableError,
    "RATE_LIMITED": RateLimitedError,
    "TOO_MUCH_ASKED": RangeTooLargeError,
    "LIMITED": RangeTooLargeError,
    "MALFORMED": RefusedError,
    "NOT_UNDERSTOOD": RefusedError,
    "REVERTED": RefusedError,
    "ALREADY_KNOWN": RefusedError,
    "NONCE_USED": RefusedError,
    "UNDERPRICED": RefusedError,
    "NO_FUNDS": RefusedError,
}
LOGS = Request("eth_getLogs", [{"fromBlock": "0x1", "toBlock": "0x2"}])


def refusal(code: int, text: str, data: Any = None) -> RpcError:
    """The error for what a node says."""
    return error_of({"code": code, "message": text, "data": data}, Request("eth_call"), "here")


@for_each_case("said", CORPUS)
def test_what_a_client_says_is_the_error_that_its_meaning_is(said: dict[str, Any]) -> None:
    error = error_of({"code": said["code"], "message": said["text"]}, LOGS, "here")
    assert type(error) is KINDS.get(said["meaning"], TransientRpcError)


@for_each_case(
    "message, hint",
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
def test_block_limit_is_read_from_the_error_text(message: str, hint: int | None) -> None:
    error = error_of({"code": -32005, "message": message}, LOGS, "here")
    assert isinstance(error, RangeTooLargeError)
    assert error.hint == hint


@for_each_case("answer", [None, [], "text", {"id": 7}])
def test_what_is_not_an_answer_is_no_result(answer: Any) -> None:
    with pytest.raises(TransientRpcError):
        result_of(answer, LOGS, "here")


def test_an_error_beside_a_result_is_an_error() -> None:
    with pytest.raises(RpcError, match="busy"):
        result_of({"id": 7, "result": [], "error": {"code": -32000, "message": "busy"}}, LOGS, "here")


@for_each_case(
    "url, text",
    [
        ("https://node.example/v3/0123456789abcdef", "https://node.example/…"),
        ("https://user:secret@node.example", "https://node.example"),
        ("http://second:port", "http://second"),
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
    ],
)
def test_keys_in_urls_are_not_shown(url: str, text: str) -> None:
    assert without_secrets(url) == text


@for_each_case("said", CORPUS)
def test_a_clients_words_have_their_meaning(said: dict[str, Any]) -> None:
    assert refusal(said["code"], said["text"]).meaning is Meaning[said["meaning"]]


def test_the_corpus_holds_every_client_and_every_meaning() -> None:
    clients = {"geth", "erigon", "nethermind", "besu", "reth", "anvil", "providers"}
    assert clients <= {said["client"] for said in CORPUS}
    assert {said["meaning"] for said in CORPUS} == set(Meaning.__members__)


@for_each_case("reason", ["nonce too low", "insufficient funds", "already known", "rate limit", "block range"])
def test_revert_reason_can_not_hide_the_revert(reason: str) -> None:
    assert refusal(3, reason).meaning is Meaning.REVERTED
    assert refusal(-32000, f"execution reverted: {reason}").meaning is Meaning.REVERTED


@for_each_case(
    "data",
    [
        SELECTOR,
        {"data": SELECTOR},
        {"result": SELECTOR, "txHash": "0xab"},
        f"Reverted {SELECTOR}",
    ],
)
def test_revert_data_is_found_where_each_client_puts_it(data: object) -> None:
    assert revert_data(refusal(3, "execution reverted", data)) == bytes.fromhex("deadbeef")


@for_each_case("data", [None, "", "Reverted", {}, [], 7, "0x"])
def test_a_revert_without_data_has_none(data: object) -> None:
    assert revert_data(refusal(3, "execution reverted", data)) == b""


@for_each_case("body", ["text", None, [], {"message": None}, {"code": "x"}])
def test_an_error_of_no_known_form_is_kept_as_text(body: object) -> None:
    assert isinstance(error_of(body, Request("eth_call"), "here").meaning, Meaning)
