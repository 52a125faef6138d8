import tomllib
from pathlib import Path
from typing import Any

import pytest

from bridge.evm.answers import RpcError, revert_data
from bridge.protocol.node_errors import Meaning

SELECTOR = "0xdeadbeef"

CORPUS = tomllib.loads((Path(__file__).resolve().parents[2] / "golden" / "node_answers.toml").read_text())["answer"]


@pytest.mark.parametrize("said", CORPUS, ids=[f"{said['client']}: {said['text'][:50]}" for said in CORPUS])
def test_a_clients_words_have_their_meaning(said: dict[str, Any]) -> None:
    assert RpcError("eth_any", said["code"], said["text"]).meaning is Meaning[said["meaning"]]


def test_the_corpus_holds_every_client_and_every_meaning() -> None:
    clients = {"geth", "erigon", "nethermind", "besu", "reth", "anvil", "providers"}
    assert clients <= {said["client"] for said in CORPUS}
    assert {said["meaning"] for said in CORPUS} == set(Meaning.__members__)


@pytest.mark.parametrize(
    "reason", ["nonce too low", "insufficient funds", "already known", "rate limit", "block range"]
)
def test_what_a_contract_writes_into_its_reason_does_not_change_that_it_reverted(reason: str) -> None:
    assert RpcError("eth_call", 3, reason).meaning is Meaning.REVERTED
    assert RpcError("eth_call", -32000, f"execution reverted: {reason}").meaning is Meaning.REVERTED


@pytest.mark.parametrize(
    "data",
    [
        SELECTOR,
        {"data": SELECTOR},
        {"result": SELECTOR, "txHash": "0xab"},
        f"Reverted {SELECTOR}",
    ],
    ids=["geth", "nested", "ganache", "nethermind"],
)
def test_revert_data_is_found_where_each_client_puts_it(data: object) -> None:
    assert revert_data(RpcError("eth_call", 3, "execution reverted", data)) == bytes.fromhex("deadbeef")


@pytest.mark.parametrize("data", [None, "", "Reverted", {}, [], 7, "0x"])
def test_a_revert_without_data_has_none(data: object) -> None:
    assert revert_data(RpcError("eth_call", 3, "execution reverted", data)) == b""


@pytest.mark.parametrize("body", ["text", None, [], {"message": None}, {"code": "x"}])
def test_an_error_of_no_known_form_is_kept_as_text(body: object) -> None:
    assert isinstance(RpcError.from_json("eth_call", body).meaning, Meaning)
