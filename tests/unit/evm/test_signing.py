"""Keys come from the environment, a keystore or a remote signer; what a remote signer answers is not believed unseen."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from eth_account import Account

from bridge.domain.ports import Fees, TransientError
from bridge.evm.signing import (
    InvalidKeyError,
    LocalSigner,
    RemoteSigner,
    Signer,
    UnsignedTransaction,
    environment_signer,
    keystore_signer,
)
from tests.unit.evm.rpc_server import Answer, RpcServer, error

KEY = "0x" + "11" * 32
ADDRESS = Account.from_key(KEY).address
TRANSACTION = UnsignedTransaction(
    chain_id=31337, nonce=7, to="0x" + "ab" * 20, data=b"\x01\x02", value=5, gas=90_000, fees=Fees(30, 2)
)


async def test_a_key_in_a_variable_signs_as_the_key_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    signer = environment_signer("SOME_KEY")
    assert signer.address == ADDRESS
    assert await signer.sign(TRANSACTION) == await LocalSigner.from_key(KEY).sign(TRANSACTION)


def test_a_variable_without_a_key_is_named_and_its_text_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidKeyError, match="SOME_KEY is to hold"):
        environment_signer("SOME_KEY")
    monkeypatch.setenv("SOME_KEY", "hidden")
    with pytest.raises(InvalidKeyError, match="SOME_KEY: not a private key") as caught:
        environment_signer("SOME_KEY")
    assert "hidden" not in str(caught.value)


def test_a_keystore_opens_with_its_password_alone(tmp_path: Path) -> None:
    keystore, word = tmp_path / "key.json", tmp_path / "word"
    keystore.write_text(json.dumps(Account.encrypt(bytes.fromhex(KEY[2:]), "right", kdf="pbkdf2", iterations=1_000)))
    word.write_text("right\n")
    assert keystore_signer(keystore, word).address == ADDRESS
    word.write_text("wrong")
    with pytest.raises(InvalidKeyError, match=r"key\.json can't be opened"):
        keystore_signer(keystore, word)
    with pytest.raises(InvalidKeyError, match="No such file"):
        keystore_signer(tmp_path / "none.json", word)
    keystore.write_text("{}")
    with pytest.raises(InvalidKeyError, match="can't be opened"):
        keystore_signer(keystore, word)


class Service:
    """A remote signer on a real socket, with one account, that may misbehave."""

    def __init__(self) -> None:
        self.key = KEY
        self.changes: dict[str, Any] = {}
        self.shape: str = "web3signer"

    async def answer(self, method: str, params: list[Any]) -> Answer:
        assert method == "eth_signTransaction"
        (asked,) = params
        assert asked["from"] == ADDRESS
        numbers = {"chainId", "nonce", "value", "gas", "maxFeePerGas", "maxPriorityFeePerGas"}
        fields = {name: int(asked[name], 16) for name in numbers} | {
            "to": asked["to"],
            "data": asked["data"],
            "type": 2,
        }
        raw = Account.from_key(self.key).sign_transaction({**fields, **self.changes}).raw_transaction.to_0x_hex()
        return {"result": raw if self.shape == "web3signer" else {"raw": raw, "tx": {}}}


@pytest.fixture
async def server() -> AsyncIterator[RpcServer]:
    started = await RpcServer(Service().answer).start()
    yield started
    await started.stop()


@pytest.mark.parametrize("shape", ["web3signer", "geth"])
async def test_a_remote_signer_gives_the_very_transaction(server: RpcServer, shape: str) -> None:
    service = Service()
    service.shape = shape
    server.behaviour = service.answer
    signer: Signer = RemoteSigner(server.url, ADDRESS.lower())
    signed, local = await signer.sign(TRANSACTION), await LocalSigner.from_key(KEY).sign(TRANSACTION)
    assert (signer.address, signed.hash, signed.raw) == (ADDRESS, local.hash, local.raw)


@pytest.mark.parametrize(
    "changes",
    [
        {"to": b"\xcd" * 20},
        {"value": 6},
        {"nonce": 8},
        {"data": "0x0103"},
        {"chainId": 1},
        {"gas": 1_000_000},
        {"maxFeePerGas": 31},
        {"maxPriorityFeePerGas": 3},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_another_transaction_than_was_asked_for_is_not_taken(server: RpcServer, changes: dict[str, Any]) -> None:
    service = Service()
    service.changes = changes
    server.behaviour = service.answer
    with pytest.raises(TransientError, match="another transaction than nonce 7 on chain 31337"):
        await RemoteSigner(server.url, ADDRESS).sign(TRANSACTION)


async def test_another_account_s_signature_is_not_taken(server: RpcServer) -> None:
    service = Service()
    service.key = "0x" + "22" * 32
    server.behaviour = service.answer
    with pytest.raises(TransientError, match="another transaction"):
        await RemoteSigner(server.url, ADDRESS).sign(TRANSACTION)


ANSWERS: dict[str, tuple[Answer, str]] = {
    "refusal": (error(-32000, "policy"), "refuses.*policy"),
    "nothing": ({"result": None}, "no transaction"),
    "nonsense": ({"result": "0x1234"}, "another transaction"),
    "500": (web.Response(status=500), "does not answer"),
    "text": (web.Response(text="busy"), "does not answer"),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_remote_signer_that_does_not_sign_may_do_so_later(server: RpcServer, name: str) -> None:
    answer, complaint = ANSWERS[name]
    server.behaviour = lambda *_: answer
    with pytest.raises(TransientError, match=complaint):
        await RemoteSigner(server.url, ADDRESS).sign(TRANSACTION)


async def test_a_remote_signer_that_is_not_there_may_come_back() -> None:
    with pytest.raises(TransientError, match="does not answer"):
        await RemoteSigner("http://127.0.0.1:1", ADDRESS).sign(TRANSACTION)
