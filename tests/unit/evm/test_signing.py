"""Keys come from the environment, a keystore or a remote signer; what a remote signer answers is not believed unseen."""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from eth_account import Account

from bridge.evm.settings import SignerSource
from bridge.evm.signing import (
    InvalidKeyError,
    LocalSigner,
    RemoteSigner,
    Signer,
    UnsignedTransaction,
    environment_signer,
    keystore_signer,
)
from bridge.protocol.ports import Fees, TransientError
from bridge.service.keys import opened
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
    with pytest.raises(InvalidKeyError, match="SOME_KEY is not set"):
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
    with pytest.raises(InvalidKeyError, match=r"key\.json can't be opened: the password in .*word is wrong"):
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
    with pytest.raises(TransientError, match=r"different transaction .*nonce 7 on chain 31337"):
        await RemoteSigner(server.url, ADDRESS).sign(TRANSACTION)


async def test_another_account_s_signature_is_not_taken(server: RpcServer) -> None:
    service = Service()
    service.key = "0x" + "22" * 32
    server.behaviour = service.answer
    with pytest.raises(TransientError, match="a different transaction from"):
        await RemoteSigner(server.url, ADDRESS).sign(TRANSACTION)


ANSWERS: dict[str, tuple[Answer, str]] = {
    "refusal": (error(-32000, "policy"), "rejected the request.*policy"),
    "nothing": ({"result": None}, "not a transaction"),
    "nonsense": ({"result": "0x1234"}, "a different transaction from"),
    "500": (web.Response(status=500), "did not respond"),
    "text": (web.Response(text="busy"), "did not respond"),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_remote_signer_that_does_not_sign_may_do_so_later(server: RpcServer, name: str) -> None:
    answer, complaint = ANSWERS[name]
    server.behaviour = lambda *_: answer
    with pytest.raises(TransientError, match=complaint):
        await RemoteSigner(server.url, ADDRESS).sign(TRANSACTION)


async def test_a_remote_signer_that_is_not_there_may_come_back() -> None:
    with pytest.raises(TransientError, match="did not respond"):
        await RemoteSigner("http://127.0.0.1:1", ADDRESS).sign(TRANSACTION)


@dataclass(frozen=True)
class Certificates:
    """PEM files: of the authority, of the service, and of a client that it knows."""

    authority: Path
    service: Path
    client: Path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    now = datetime.now(UTC)
    root = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority of a test")])

    def signed(subject: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool = False) -> bytes:
        made = (
            x509.CertificateBuilder()
            .subject_name(name if is_authority else x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)]))
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
            .sign(root, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM)

    def both(subject: str) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        file = folder / f"{subject}.pem"
        file.write_bytes(signed(subject, key) + key.private_bytes(encoding, form, serialization.NoEncryption()))
        return file

    authority = folder / "authority.pem"
    authority.write_bytes(signed("authority", root, is_authority=True))
    return Certificates(authority, both("service"), both("client"))


@pytest.fixture
async def known_clients_only(certificates: Certificates) -> AsyncIterator[str]:
    """The URL of a signer that asks each client for a certificate, as Web3signer can."""
    service, context = Service(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.service)
    context.load_verify_locations(certificates.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    started = await RpcServer(service.answer).start(tls=context)
    yield started.url
    await started.stop()


async def test_remote_signer_gets_the_configured_certificate(
    known_clients_only: str, certificates: Certificates
) -> None:
    named = {"remote": known_clients_only, "address": ADDRESS, "authority": certificates.authority}
    signer = opened(SignerSource.model_validate(named | {"certificate": certificates.client}))
    signed, local = await signer.sign(TRANSACTION), await LocalSigner.from_key(KEY).sign(TRANSACTION)
    assert signed.raw == local.raw
    with pytest.raises(TransientError, match="did not respond"):
        await opened(SignerSource.model_validate(named)).sign(TRANSACTION)
    with pytest.raises(TransientError, match="did not respond"):  # the service's certificate is checked, too
        await RemoteSigner(known_clients_only, ADDRESS).sign(TRANSACTION)


def test_certificates_that_can_not_be_used_are_named(tmp_path: Path, certificates: Certificates) -> None:
    nothing = tmp_path / "nothing.pem"
    for named in ({"certificate": nothing}, {"authority": nothing}, {"certificate": certificates.authority}):
        with pytest.raises(InvalidKeyError, match=r"\.pem can't be loaded as a remote signer's certificates"):
            RemoteSigner("https://127.0.0.1", ADDRESS, **named)
    with pytest.raises(ValueError, match="certificate and authority require remote to be an https:// URL"):
        SignerSource(remote="http://127.0.0.1", address=ADDRESS, certificate=certificates.client)


async def test_password_of_a_remote_signer_is_sent_and_hidden(server: RpcServer) -> None:
    url = server.url.replace("http://", "http://waybill:hidden@")
    await RemoteSigner(url, ADDRESS).sign(TRANSACTION)
    assert server.headers["Authorization"] == f"Basic {b64encode(b'waybill:hidden').decode()}"
    server.behaviour = lambda *_: web.Response(status=401)
    with pytest.raises(TransientError) as refused:
        await RemoteSigner(url, ADDRESS).sign(TRANSACTION)
    assert "hidden" not in str(refused.value)
