"""CCIP messages, read from `CCIPMessageSent` on the source, and packed into the bytes that verifiers sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from eth_abi.abi import decode, encode
from eth_utils import decode_hex, keccak
from eth_utils.address import to_checksum_address

from bridge.gmps.base_adapter import NotOursError, read_event
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.contracts import contract, topic
from bridge.protocol.ports import Dispatch, Log

_RECEIPTS: Final = "(address,uint32,uint32,uint256,bytes)[]"
_SENT: Final = ("address", "uint256", "bytes", _RECEIPTS, "bytes[]")
_TOKENS: Final = "(uint256,bytes,bytes,bytes,bytes,bytes)[]"
_MESSAGE: Final = f"(uint64,uint64,uint64,uint32,uint32,bytes4,bytes32,bytes,bytes,bytes,bytes,bytes,{_TOKENS},bytes)"
_RESULTS: Final = ("address[]", "bytes[]")

MESSAGE_SENT: Final = topic(f"CCIPMessageSent(uint64,address,bytes32,{','.join(_SENT)})")

OFF_RAMP: Final = contract(
    "execute(bytes,address[],bytes[],uint32)",
    f"executeSingleMessage({_MESSAGE},bytes32,address[],bytes[],uint32)",
    "getExecutionState(bytes32) returns (uint8)",
    "getCCVsForMessage(bytes) returns (address[],address[],uint8)",
)

SUCCESS: Final = 2  # execution states of the off-ramp
FAILURE: Final = 3

_ENCODING: Final = 1  # version of the packed encoding
_EXECUTION_GAS: Final = slice(25, 29)  # positions of fixed-size values in the packed bytes
_RECEIVER_GAS: Final = slice(29, 33)
_FINALITY: Final = slice(33, 37)
_VERIFIERS_HASH: Final = slice(37, 69)


@dataclass(frozen=True, slots=True, kw_only=True)
class CcipMessage:
    """A CCIP message without tokens, since Waybill never sends tokens.

    Its id is the hash of its packed bytes. The packed bytes end with the data.
    """

    header: bytes  # the packed bytes up to the length of the data
    data: bytes

    @classmethod
    def of_log(cls, log: Log, on_ramp: str) -> Self | None:
        """Returns the message in an on-ramp's log, or None if the log is a different event.

        Raises:
            NotOursError: the packed encoding differs from that of Waybill's messages, or the message carries tokens.
        """
        values = read_event(log, on_ramp, MESSAGE_SENT, _SENT, indexed=3)
        if values is None:
            return None
        packed = values[2]
        if keccak(packed) != log.topics[3]:
            raise NotOursError(
                f"the packed bytes hash to 0x{keccak(packed).hex()}, not to the message id 0x{log.topics[3].hex()}"
            )
        *parts, tokens, data = _split(packed)
        if tokens:
            raise NotOursError(f"the message carries tokens ({len(tokens)} bytes), which Waybill never sends")
        message = cls(header=packed[: len(packed) - len(data) - 2], data=data)
        if len(parts[1]) != 20 or len(parts[3]) != 20:
            raise NotOursError(
                f"off-ramp and receiver have {len(parts[1])} and {len(parts[3])} bytes, not the 20 of an EVM address"
            )
        return message

    @classmethod
    def of_dispatch(cls, dispatch: Dispatch) -> Self:
        """Returns the message that carried a dispatched envelope."""
        return cls(header=decode_hex(str(dispatch.evidence["header"])), data=dispatch.envelope)

    @property
    def packed(self) -> bytes:
        """Returns the encoding that verifiers sign and the off-ramp expects."""
        return self.header + len(self.data).to_bytes(2, "big") + self.data

    @property
    def id(self) -> bytes:
        """Returns CCIP's id of the message."""
        return keccak(self.packed)

    @property
    def destination_selector(self) -> int:
        """Returns CCIP's selector of the destination chain."""
        return int.from_bytes(self.header[9:17], "big")

    @property
    def gas_limit(self) -> int:
        """Returns the receiver's gas limit. An execution may raise it, but not lower it."""
        return int.from_bytes(self.header[_RECEIVER_GAS], "big")

    @property
    def sender(self) -> str:
        """Returns the sender's address on the source chain.

        Raises:
            AddressError: the sender is not an EVM address.
        """
        return from_bytes32(_split(self.packed)[2])

    @property
    def receiver(self) -> str:
        """Returns the receiver's address on the destination chain."""
        return to_checksum_address(_split(self.packed)[3])

    @property
    def off_ramp(self) -> str:
        """Returns the address of the only off-ramp that can execute the message, as stated by the on-ramp."""
        return to_checksum_address(_split(self.packed)[1])

    def to_tuple(self) -> tuple[Any, ...]:
        """Returns the message as the off-ramp's struct."""
        numbers = tuple(int.from_bytes(self.header[at : at + 8], "big") for at in (1, 9, 17))
        gas = int.from_bytes(self.header[_EXECUTION_GAS], "big")
        *addresses, blob, _, data = _split(self.packed)
        fixed = (*numbers, gas, self.gas_limit, self.header[_FINALITY], self.header[_VERIFIERS_HASH])
        return *fixed, *addresses, blob, [], data


def encode_results(resolvers: Sequence[str], results: Sequence[bytes]) -> bytes:
    """Encodes an attestation: each verifier's resolver, as listed by the receiver, and its result."""
    return encode(_RESULTS, (resolvers, results))


def decode_results(attestation: bytes) -> tuple[Sequence[str], Sequence[bytes]]:
    """Decodes an attestation; see `encode_results`."""
    resolvers, results = decode(_RESULTS, attestation)
    return resolvers, results


def _split(packed: bytes) -> list[bytes]:
    """Returns the variable-size values: on-ramp, off-ramp, sender, receiver, blob, tokens, data.

    Raises:
        NotOursError: the bytes are not a packed message of the known version.
    """
    if packed[:1] != bytes([_ENCODING]):
        raise NotOursError(f"unknown packed message version {packed[:1].hex() or '(empty)'}")
    values, at = [], _VERIFIERS_HASH.stop
    for size_of_length in (1, 1, 1, 1, 2, 2, 2):
        start = at + size_of_length
        at = start + int.from_bytes(packed[at:start], "big")
        values.append(packed[start:at])
    if at != len(packed):
        raise NotOursError(f"the packed message has {len(packed)} bytes, but its length fields add up to {at}")
    return values
