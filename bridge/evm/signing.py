"""Keys that sign transactions: in this process, in a keystore file, or behind a signing service."""

from __future__ import annotations

import json
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import httpx
import orjson
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_utils import keccak, to_hex
from eth_utils.address import to_checksum_address
from hexbytes import HexBytes

from bridge.protocol.ports import Call, Fees, TransientError, UnansweredError
from bridge.records.transactions import NOOP_GAS

_SECONDS: Final = 10.0  # seconds for one signature


class SignatureRefusedError(TransientError):
    """A signing service rejected this transaction, but may sign others."""


class InvalidKeyError(ValueError):
    """The text is not a valid private key. The error message never contains the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsignedTransaction:
    """An EIP-1559 transaction without its signature."""

    chain_id: int
    nonce: int
    to: str
    data: bytes
    value: int  # wei
    gas: int
    fees: Fees

    def as_dict(self) -> dict[str, Any]:
        """Returns the transaction as eth_account and JSON-RPC name its fields."""
        return {
            "type": 2,
            "chainId": self.chain_id,
            "nonce": self.nonce,
            "to": to_checksum_address(self.to),
            "value": self.value,
            "data": self.data,
            "gas": self.gas,
            "maxFeePerGas": self.fees.max_fee,
            "maxPriorityFeePerGas": self.fees.priority_fee,
        }


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A signed transaction's bytes and hash."""

    hash: bytes
    raw: bytes = field(repr=False)


class Signer(Protocol):
    """Signs with a key that is held by this process, a keystore file or a remote service."""

    @property
    def address(self) -> str:
        """Returns the account's address with its EIP-55 checksum."""

    async def sign(self, transaction: UnsignedTransaction) -> SignedTransaction:
        """Signs a transaction.

        Raises:
            SignatureRefusedError: the signer rejects this transaction.
            UnansweredError: the signer did not respond.
        """


class LocalSigner:
    """Signs with a key in this process."""

    def __init__(self, account: LocalAccount) -> None:
        self._account = account

    @classmethod
    def from_key(cls, key: str) -> LocalSigner:
        """Creates the signer of a private key, given as 0x and 64 hex digits.

        Raises:
            InvalidKeyError: the text is not a private key.
        """
        try:
            return cls(Account.from_key(key))
        except Exception:  # noqa: BLE001  # eth_account raises many kinds, and their texts quote the key
            raise InvalidKeyError(
                f"not a private key: expected 0x followed by 64 hex digits, got {len(key)} characters"
            ) from None

    @property
    def account(self) -> LocalAccount:
        """Returns the account, for signing data other than transactions."""
        return self._account

    @property
    def address(self) -> str:
        """See `Signer.address`."""
        return str(self._account.address)

    async def sign(self, transaction: UnsignedTransaction) -> SignedTransaction:
        """See `Signer.sign`."""
        signed = self._account.sign_transaction(transaction.as_dict())
        return SignedTransaction(bytes(signed.hash), bytes(signed.raw_transaction))


def noop_of(address: str) -> Call:
    """Returns a call without effect, for a transaction whose only purpose is to use up a nonce."""
    return Call(to=address, data=b"", gas=NOOP_GAS)


def environment_signer(variable: str) -> LocalSigner:
    """Returns a signer with the key in an environment variable.

    Raises:
        InvalidKeyError: the variable is not set, or is not a private key.
    """
    key = os.environ.get(variable)
    if not key:
        raise InvalidKeyError(f"variable {variable} is not set; it must hold a signer's private key")
    try:
        return LocalSigner.from_key(key)
    except InvalidKeyError as error:
        raise InvalidKeyError(f"variable {variable}: {error}") from None


def keystore_signer(keystore: Path, password_file: Path) -> LocalSigner:
    """Returns a signer with the key in a version 3 keystore file of geth, Foundry or eth-account.

    Decryption takes about a second.

    Raises:
        InvalidKeyError: a file can't be read, the keystore is invalid, or the password is wrong.
    """
    try:
        document = json.loads(keystore.read_text(encoding="utf-8"))
        password = password_file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise InvalidKeyError(f"keystore {keystore} with password file {password_file}: {error}") from None
    try:
        return LocalSigner(Account.from_key(Account.decrypt(document, password)))
    except Exception as error:  # noqa: BLE001  # eth_account raises many kinds; a wrong password is a ValueError
        is_wrong = "MAC mismatch" in str(error)
        why = f"the password in {password_file} is wrong; correct it" if is_wrong else str(error)
        raise InvalidKeyError(f"keystore {keystore} can't be opened: {why}") from None


class RemoteSigner:
    """A `Signer` whose key stays in a JSON-RPC service with `eth_signTransaction`, such as Web3signer or geth.

    The response is checked: it must be the requested transaction, signed by the right account.
    """

    def __init__(
        self, url: str, address: str, *, certificate: Path | None = None, authority: Path | None = None
    ) -> None:
        """Creates a signer for one account of a service.

        Args:
            url: JSON-RPC URL of the service. A user and password in the URL are sent as basic authentication.
            address: the account.
            certificate: a PEM file with the client certificate and key that the service requires.
            authority: a PEM file with the CA of the service's certificate; by default the CAs that Python trusts.

        Raises:
            InvalidKeyError: a file can't be read, or contains no certificate.
        """
        self._url = url
        self._address = to_checksum_address(address)
        self._tls = _client_tls(certificate, authority)

    @property
    def address(self) -> str:
        """See `Signer.address`."""
        return self._address

    async def sign(self, transaction: UnsignedTransaction) -> SignedTransaction:
        """See `Signer.sign`.

        Raises:
            SignatureRefusedError: the service rejects the request, or returns a different transaction.
            UnansweredError: the service does not respond.
        """
        fields = {
            name: value if isinstance(value, str) else to_hex(value) for name, value in transaction.as_dict().items()
        }
        fields["from"] = self._address
        raw = _raw(await self._request(fields))
        if not _is_as_asked(raw, transaction, self._address):
            raise SignatureRefusedError(
                f"the remote signer of {self._address} returned a different transaction from the "
                f"requested one (nonce {transaction.nonce} on chain {transaction.chain_id}); it was not sent"
            )
        return SignedTransaction(keccak(raw), raw)

    async def _request(self, transaction: dict[str, str]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": "eth_signTransaction", "params": [transaction]}
        try:
            async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False, verify=self._tls) as http:
                answer = await http.post(self._url, json=body)
            answer.raise_for_status()
            document = orjson.loads(answer.content)
        except (httpx.HTTPError, ValueError) as error:
            raise UnansweredError(
                f"the remote signer of {self._address} did not respond: {_describe(error)}"
            ) from error
        if not isinstance(document, dict) or document.get("error") is not None:
            reason = document.get("error") if isinstance(document, dict) else document
            raise SignatureRefusedError(f"the remote signer of {self._address} rejected the request: {reason}")
        return document.get("result")


def _client_tls(certificate: Path | None, authority: Path | None) -> ssl.SSLContext | bool:
    """Returns the TLS context for the service. True means httpx's default, without a client certificate."""
    if certificate is None and authority is None:
        return True
    try:
        context = ssl.create_default_context(cafile=authority)
        if certificate is not None:
            context.load_cert_chain(certificate)
    except OSError as error:  # ssl.SSLError is one
        files = " and ".join(str(file) for file in (certificate, authority) if file is not None)
        raise InvalidKeyError(f"{files} can't be loaded as a remote signer's certificates: {error}") from None
    return context


def _raw(result: Any) -> bytes:
    """Returns the signed bytes from a result. Web3signer returns them directly; geth wraps them in an object."""
    text: Any = result.get("raw") if isinstance(result, dict) else result
    try:
        return bytes(HexBytes(text))
    except (TypeError, ValueError) as error:
        raise SignatureRefusedError(f"the remote signer's response is not a transaction: {error}") from error


def _is_as_asked(raw: bytes, asked: UnsignedTransaction, address: str) -> bool:
    try:
        signed = TypedTransaction.from_bytes(HexBytes(raw))
        by = Account.recover_transaction(raw)
    except Exception:  # noqa: BLE001  # anything that can't be decoded is not the requested transaction
        return False
    return by == address and signed.hash() == TypedTransaction.from_dict(asked.as_dict()).hash()


def _describe(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):  # the text would contain the URL with its password
        return f"HTTP {error.response.status_code}"
    return str(error) or type(error).__name__
