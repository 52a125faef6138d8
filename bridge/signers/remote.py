"""A key that never comes here: a service signs, over JSON-RPC's `eth_signTransaction`, as Web3signer and geth offer it.

What comes back is not believed: it must be the very transaction that was asked for, signed by the very account.
"""

from __future__ import annotations

from typing import Any, Final

import httpx
from eth_account import Account
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_utils import keccak
from eth_utils.address import to_checksum_address
from hexbytes import HexBytes

from bridge.ports import TransientError
from bridge.sending.signing import SignedTransaction, UnsignedTransaction

_SECONDS: Final = 10.0  # that one signature may take


class RemoteSigner:
    """See `bridge.sending.Signer`."""

    def __init__(self, url: str, address: str) -> None:
        """Signs as one account of a service.

        Args:
            url: of the service's JSON-RPC.
            address: the account.
        """
        self._url = url
        self._address = to_checksum_address(address)

    @property
    def address(self) -> str:
        """See `Signer.address`."""
        return self._address

    async def sign(self, transaction: UnsignedTransaction) -> SignedTransaction:
        """See `Signer.sign`.

        Raises:
            TransientError: the service does not answer, refuses, or answers with another transaction.
        """
        asked = {
            "from": self._address,
            "to": to_checksum_address(transaction.to),
            "type": "0x2",
            "chainId": hex(transaction.chain_id),
            "nonce": hex(transaction.nonce),
            "value": hex(transaction.value),
            "data": "0x" + transaction.data.hex(),
            "gas": hex(transaction.gas),
            "maxFeePerGas": hex(transaction.fees.max_fee),
            "maxPriorityFeePerGas": hex(transaction.fees.priority_fee),
        }
        raw = _raw(await self._request(asked))
        if not _is_as_asked(raw, transaction, self._address):
            raise TransientError(
                f"the remote signer of {self._address} answered with another transaction than nonce"
                f" {transaction.nonce} on chain {transaction.chain_id}; it is not sent"
            )
        return SignedTransaction(keccak(raw), raw)

    async def _request(self, transaction: dict[str, str]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": "eth_signTransaction", "params": [transaction]}
        try:
            async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False) as http:
                answer = await http.post(self._url, json=body)
            answer.raise_for_status()
            document = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise TransientError(f"the remote signer of {self._address} does not answer: {_said(error)}") from error
        if not isinstance(document, dict) or document.get("error") is not None:
            reason = document.get("error") if isinstance(document, dict) else document
            raise TransientError(f"the remote signer of {self._address} refuses: {reason}")
        return document.get("result")


def _raw(result: Any) -> bytes:
    """The signed bytes: Web3signer answers with them, geth with an object that holds them."""
    text: Any = result.get("raw") if isinstance(result, dict) else result
    try:
        return bytes(HexBytes(text))
    except (TypeError, ValueError) as error:
        raise TransientError(f"the remote signer's answer is no transaction: {error}") from error


def _is_as_asked(raw: bytes, asked: UnsignedTransaction, address: str) -> bool:
    try:
        signed = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
        by = Account.recover_transaction(raw)
    except Exception:  # noqa: BLE001  # whatever can't be read is not what was asked for
        return False
    found = (
        *(signed[name] for name in ("chainId", "nonce", "value", "gas", "maxFeePerGas", "maxPriorityFeePerGas")),
        bytes(HexBytes(signed["to"])),
        bytes(HexBytes(signed["data"])),
    )
    wanted = (
        *(asked.chain_id, asked.nonce, asked.value, asked.gas, asked.fees.max_fee, asked.fees.priority_fee),
        bytes(HexBytes(asked.to)),
        asked.data,
    )
    return found == wanted and not signed["accessList"] and by == address


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
