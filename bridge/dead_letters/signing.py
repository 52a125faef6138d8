"""Signatures for dead letters, over EIP-712 typed data so that a wallet shows the signed fields to its owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_typing import Hash32
from eth_utils import decode_hex, keccak

from bridge.records.dead_letters import LogRecord

_DOMAIN: Final = {"name": "Waybill dead letters", "version": "1"}
_DOMAIN_TYPES: Final = {
    "name": "string",
    "version": "string",
    "chainId": "uint256",
    "verifyingContract": "address",
}
_RECORD: Final = {
    "DeadLetterRecord": [
        {"name": "sequence", "type": "uint64"},
        {"name": "previous", "type": "bytes32"},
        {"name": "hash", "type": "bytes32"},
    ]
}
_DECISION: Final = {
    "DeadLetterDecision": [
        {"name": "dlqEntryId", "type": "string"},
        {"name": "letterHash", "type": "bytes32"},
        {"name": "decisionAt", "type": "string"},
        {"name": "decisionMaker", "type": "string"},
        {"name": "decisionAccount", "type": "address"},
        {"name": "decisionType", "type": "string"},
        {"name": "newMessageId", "type": "bytes32"},
        {"name": "rationale", "type": "string"},
    ]
}


class KeySealer:
    """Signs with a key in this process. See `bridge.records.dead_letters.Sealer`."""

    def __init__(self, account: LocalAccount) -> None:
        self._account = account

    @property
    def address(self) -> str:
        """See `Sealer.address`."""
        return str(self._account.address)

    def seal(self, record: LogRecord) -> bytes:
        """See `Sealer.seal`."""
        return _sign(self._account, record_typed_data(record))

    def sign(self, digest: bytes) -> bytes:
        """Signs 32 bytes: the digest of a heartbeat or a primary record."""
        return bytes(self._account.unsafe_sign_hash(Hash32(digest)).signature)


class UnsealedError(Exception):
    """The record has no signature by its signer for its current place in the log."""

    def __init__(self, record: LogRecord) -> None:
        super().__init__(f"record {record.sequence} of {record.event_id} is not sealed by {record.signer or 'anybody'}")
        self.record = record


class WalletSealer:
    """Supplies the signature of an external key. See `bridge.records.dead_letters.Sealer`."""

    def __init__(self, address: str, seal: bytes = b"") -> None:
        """Creates a sealer. `seal` is the account's signature, or empty if the account has not signed yet."""
        self._address = address
        self._seal = seal

    @property
    def address(self) -> str:
        """See `Sealer.address`."""
        return self._address

    def seal(self, record: LogRecord) -> bytes:
        """See `Sealer.seal`.

        Raises:
            UnsealedError: the account did not sign this record, perhaps because a different record now has its
                place in the log.
        """
        if _signer(record_typed_data(record), self._seal) != self._address:
            raise UnsealedError(record)
        return self._seal


def sign_decision(account: LocalAccount, decision: Mapping[str, Any]) -> bytes:
    """Returns the operator's 65-byte signature of a decision's document."""
    return _sign(account, decision_typed_data(decision))


def record_signer(record: LogRecord) -> str | None:
    """Returns the account that signed a record, or None if the signature is invalid."""
    return _signer(record_typed_data(record), record.signature)


def decision_signer(decision: Mapping[str, Any]) -> str | None:
    """Returns the account that signed a decision's document, or None if the signature is invalid."""
    try:
        return _signer(decision_typed_data(decision), decode_hex(decision["signature"]))
    except (KeyError, ValueError):
        return None


def decision_digest(decision: Mapping[str, Any]) -> bytes:
    """Returns the 32-byte digest that is signed, as passed to a contract's `isValidSignature` (ERC-1271)."""
    signable = encode_typed_data(full_message=decision_typed_data(decision))
    return keccak(b"\x19" + signable.version + signable.header + signable.body)


def decision_typed_data(decision: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the document that a wallet or a key signs (``eth_signTypedData_v4``).

    It has the chain and the contract that define who may decide, which a wallet shows. The hash of the letter's first
    record ties the decision to that letter.
    """
    message = {field["name"]: decision.get(field["name"], "") for field in _DECISION["DeadLetterDecision"]}
    message["newMessageId"] = decision.get("newMessageId") or f"0x{bytes(32).hex()}"
    return _typed_data(_DECISION, message, {name: decision[name] for name in ("chainId", "verifyingContract")})


def record_typed_data(record: LogRecord) -> dict[str, Any]:
    """Returns the typed data for a record's place in the log (``eth_signTypedData_v4``).

    It names no chain, since a log holds letters of all chains; the previous record's hash says which log it is.
    """
    words = {"previous": f"0x{record.previous.hex()}", "hash": f"0x{record.hash.hex()}"}
    return _typed_data(_RECORD, {"sequence": record.sequence, **words}, {})


def _typed_data(types: Mapping[str, Any], message: Mapping[str, Any], place: Mapping[str, Any]) -> dict[str, Any]:
    domain = {**_DOMAIN, **place}
    (primary,) = types
    return {
        "types": {"EIP712Domain": [{"name": name, "type": _DOMAIN_TYPES[name]} for name in domain], **types},
        "primaryType": primary,
        "domain": domain,
        "message": message,
    }


def _sign(account: LocalAccount, document: dict[str, Any]) -> bytes:
    return bytes(account.sign_message(encode_typed_data(full_message=document)).signature)


def _signer(document: dict[str, Any], signature: bytes) -> str | None:
    try:
        return str(Account.recover_message(encode_typed_data(full_message=document), signature=signature))
    except Exception:  # noqa: BLE001  # eth_account raises many kinds for bytes that are no signature
        return None
