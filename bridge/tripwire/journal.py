"""What the tripwire did: a log that is only appended to, each record chained to the one before by its hash, and signed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from eth_account import Account
from eth_account.messages import SignableMessage, encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from bridge.domain.dead_letters import NO_RECORD, canonical

_TYPES: Final = {
    "EIP712Domain": [{"name": "name", "type": "string"}, {"name": "version", "type": "string"}],
    "TripwireRecord": [
        {"name": "sequence", "type": "uint64"},
        {"name": "previous", "type": "bytes32"},
        {"name": "hash", "type": "bytes32"},
    ],
}


class Deed(StrEnum):
    """What happened."""

    EVIDENCE = "EVIDENCE"  # a receipt is forged; the document has the evidence
    WIDENED = "WIDENED"  # the GMP lied on two destinations, so that it is to be paused on this one too
    PAUSED = "PAUSED"
    NOT_PAUSED = "NOT_PAUSED"  # the document says why
    UNDONE = "UNDONE"  # the pause's block fell: it is made again
    FINDING = "FINDING"  # something that pauses nothing: people are told


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record in its place."""

    sequence: int  # 1 is the first
    previous: bytes  # hash of the record before
    key: str  # the same happening has the same key, and is kept once
    deed: Deed
    incident: str  # empty for a finding
    at: float  # Unix seconds
    document: Mapping[str, Any]
    signer: str = ""
    signature: bytes = b""

    @property
    def hash(self) -> bytes:
        """What the next record names, and what is signed."""
        place = [self.sequence, self.key, self.deed.value, self.incident, repr(self.at)]
        return keccak(self.previous + keccak(canonical(self.document)) + canonical(place))

    def signed(self, account: LocalAccount) -> Record:
        """The record with its signature."""
        signature = bytes(account.sign_message(self._signable()).signature)
        return replace(self, signer=str(account.address), signature=signature)

    def _signable(self) -> SignableMessage:
        message = {"sequence": self.sequence, "previous": self.previous, "hash": self.hash}
        domain = {"name": "Waybill tripwire", "version": "1"}
        return encode_typed_data(
            full_message={"types": _TYPES, "primaryType": "TripwireRecord", "domain": domain, "message": message}
        )

    @property
    def signed_by(self) -> str | None:
        """The account that signed it, or None if the signature is none."""
        try:
            return str(Account.recover_message(self._signable(), signature=self.signature))
        except Exception:  # noqa: BLE001  # eth_account raises many kinds for bytes that are no signature
            return None


def violations(records: Iterable[Record], signers: frozenset[str] = frozenset()) -> Iterator[str]:
    """What does not fit: the log was changed by another account.

    Args:
        records: the whole log, in order.
        signers: accounts whose signatures count; none named is any.
    """
    previous = NO_RECORD
    for number, record in enumerate(records, 1):
        if (record.sequence, record.previous) != (number, previous):
            yield f"record {record.sequence} is not the one that follows record {number - 1}"
        if record.signed_by != record.signer or (signers and record.signer not in signers):
            yield f"record {record.sequence} is not signed by {record.signer or 'anybody'}"
        previous = record.hash
