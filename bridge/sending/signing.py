"""Keys, and transactions signed with them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

import rlp
from coincurve import PrivateKey
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils import keccak
from eth_utils.address import to_canonical_address

from bridge.ports import Call, Fees
from bridge.records.transactions import NOOP_GAS

_EIP_1559: Final = b"\x02"  # the transaction's type, before its fields


class InvalidKeyError(ValueError):
    """Text that is no private key. The text itself is never shown."""


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


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """What a node takes, and the name it has from then on."""

    hash: bytes
    raw: bytes = field(repr=False)


class Signer(Protocol):
    """Whoever holds a key: this process, a keystore, or a service far away."""

    @property
    def address(self) -> str:
        """The account, with its EIP-55 checksum."""

    async def sign(self, transaction: UnsignedTransaction) -> SignedTransaction:
        """Signs.

        Raises:
            TransientError: the signer does not answer.
        """


class LocalSigner:
    """A key held in this process; libsecp256k1 signs, with a nonce that follows from key and transaction (RFC 6979)."""

    def __init__(self, account: LocalAccount) -> None:
        self._account = account
        self._key = PrivateKey(
            bytes(account.key)
        )  # opened once: eth_account does it for each signature, which costs more

    @classmethod
    def from_key(cls, key: str) -> LocalSigner:
        """The signer of a private key, 0x and 64 hex digits.

        Raises:
            InvalidKeyError: the text is none.
        """
        try:
            return cls(Account.from_key(key))
        except Exception:  # noqa: BLE001  # eth_account raises many kinds, and their texts quote the key
            raise InvalidKeyError(
                f"not a private key: 0x and 64 hex digits are needed, {len(key)} characters were given"
            ) from None

    @property
    def account(self) -> LocalAccount:
        """The key, for whoever signs something else than transactions with it."""
        return self._account

    @property
    def address(self) -> str:
        """See `Signer.address`."""
        return str(self._account.address)

    async def sign(self, transaction: UnsignedTransaction) -> SignedTransaction:
        """See `Signer.sign`."""
        fields = _fields(transaction)
        signature = self._key.sign_recoverable(keccak(_EIP_1559 + rlp.encode(fields)), hasher=None)
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:64], "big")
        raw = _EIP_1559 + rlp.encode([*fields, signature[64], r, s])
        return SignedTransaction(keccak(raw), raw)


def _fields(transaction: UnsignedTransaction) -> list[int | bytes | list[object]]:
    """What EIP-1559 has signed, in its order."""
    return [
        transaction.chain_id,
        transaction.nonce,
        transaction.fees.priority_fee,
        transaction.fees.max_fee,
        transaction.gas,
        to_canonical_address(transaction.to),
        transaction.value,
        transaction.data,
        [],  # no access list
    ]


def noop_of(address: str) -> Call:
    """The call that uses up a nonce and does nothing."""
    return Call(to=address, data=b"", gas=NOOP_GAS)
