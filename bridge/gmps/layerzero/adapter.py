"""LayerZero V2's adapter: `PacketSent` on the source, and the endpoint's `lzReceive` once the packet is verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from eth_utils import keccak
from pydantic import Field

from bridge.gmps.base_adapter import BaseAdapter, GmpContracts, read_event
from bridge.gmps.layerzero.verification import LayerZeroUln
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.contracts import contract, topic
from bridge.protocol.deployment import Address, ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, Dispatch, Log, TransientError, Watch

PACKET_SENT: Final = topic("PacketSent(bytes,bytes,address)")

ENDPOINT: Final = contract(
    "inboundNonce(address,uint32,bytes32) returns (uint64)",
    "inboundPayloadHash(address,uint32,bytes32,uint64) returns (bytes32)",
    "lazyInboundNonce(address,uint32,bytes32) returns (uint64)",
    "lzReceive((uint32,bytes32,uint64),address,bytes32,bytes,bytes)",
)

_HEADER_LENGTH: Final = 81
_PREFIX_LENGTH: Final = 113  # header and guid; the message follows
_VERSION: Final = 1


class LayerZeroContracts(GmpContracts):
    """LayerZero V2's contracts on one chain. `eid` is LayerZero's identifier of the chain."""

    GMP = Gmp.LAYERZERO
    ADAPTER = "LayerZeroAdapter"
    NUMBER = "eid"
    NUMBER_OF = ("eidOf", "uint32")
    ARGUMENTS = (("address", "endpoint"),)
    ASKED_FOR_NUMBER = ("endpoint", "eid")
    VERIFICATION = LayerZeroUln
    VERIFIED_BY = "LayerZero's default libraries and DVNs, perhaps a single one, which LayerZero may change"
    ONE_MAY_VERIFY = True

    eid: int = Field(gt=0, lt=2**32)
    endpoint: Address


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet.

    Lengths in bytes: version 1, nonce 8, source eid 4, sender 32, destination eid 4, receiver 32, guid 32; then
    the message.
    """

    encoded: bytes

    @classmethod
    def of_log(cls, log: Log, endpoint: str) -> Self | None:
        """Returns the packet in an endpoint's log, or None if the log is a different event."""
        values = read_event(log, endpoint, PACKET_SENT, ["bytes", "bytes", "address"], indexed=0)
        if values is None or len(values[0]) < _PREFIX_LENGTH or values[0][0] != _VERSION:
            return None
        return cls(values[0])

    @classmethod
    def of_dispatch(cls, dispatch: Dispatch) -> Self:
        """Returns the packet that carried a dispatched envelope."""
        return cls(bytes.fromhex(str(dispatch.evidence["prefix"])) + dispatch.envelope)

    @property
    def prefix(self) -> bytes:
        """Returns all bytes before the message."""
        return self.encoded[:_PREFIX_LENGTH]

    @property
    def header(self) -> bytes:
        """Returns the bytes that, together with the payload hash, identify a packet to verifiers."""
        return self.encoded[:_HEADER_LENGTH]

    @property
    def payload_hash(self) -> bytes:
        """Returns the hash of guid and message."""
        return keccak(self.encoded[_HEADER_LENGTH:])

    @property
    def nonce(self) -> int:
        """Returns the packet's position on its path, starting at 1."""
        return int.from_bytes(self.encoded[1:9], "big")

    @property
    def source_eid(self) -> int:
        """Returns LayerZero's identifier of the source chain."""
        return int.from_bytes(self.encoded[9:13], "big")

    @property
    def sender(self) -> bytes:
        """Returns the sending contract as 32 bytes."""
        return self.encoded[13:45]

    @property
    def destination_eid(self) -> int:
        """Returns LayerZero's identifier of the destination chain."""
        return int.from_bytes(self.encoded[45:49], "big")

    @property
    def receiver(self) -> str:
        """Returns the receiving contract's address.

        Raises:
            AddressError: the bytes are not an EVM address.
        """
        return from_bytes32(self.encoded[49:81])

    @property
    def guid(self) -> bytes:
        """Returns LayerZero's id of the packet."""
        return self.encoded[81:113]

    @property
    def message(self) -> bytes:
        """Returns the payload that the sender passed to the endpoint."""
        return self.encoded[_PREFIX_LENGTH:]

    @property
    def path(self) -> tuple[str, int, bytes]:
        """Returns receiver, source eid and sender, which identify a sequence of nonces."""
        return self.receiver, self.source_eid, self.sender


class LayerZeroAdapter(BaseAdapter):
    """Delivers packets with `lzReceive`, which anyone may call.

    A failed delivery reverts completely and can be repeated. If LayerZero's executor tried first and failed, it
    emitted an alert event, and the packet can still be delivered. There is no attestation to submit: verifiers
    write to the destination themselves, and a delivery is retried until they have done so.
    """

    CONTRACTS = LayerZeroContracts
    DELIVERY_GAS = 350_000

    def _watch(self, source: ChainDeployment) -> Watch:
        return Watch((LayerZeroContracts.of(source).endpoint,), (PACKET_SENT,))

    def _read_dispatch(self, source: ChainDeployment, log: Log) -> Dispatch | None:
        packet = Packet.of_log(log, LayerZeroContracts.of(source).endpoint)
        if packet is None or packet.sender not in source.senders(self.gmp):
            return None
        _ = packet.receiver  # raises unless it is an EVM address
        identity, prefix = f"0x{packet.guid.hex()}", packet.prefix.hex()
        return self._dispatch(source, log, packet.message, identity, packet.destination_eid, prefix=prefix)

    async def _next_transaction(self, dispatch: Dispatch, attestation: bytes) -> Call | None:  # noqa: ARG002  # the verification is on chain
        destination = self._deployment.chain(dispatch.destination_chain)
        endpoint = LayerZeroContracts.of(destination).endpoint
        packet = Packet.of_dispatch(dispatch)
        verified = await self._read(destination, endpoint, ENDPOINT, "inboundPayloadHash", *packet.path, packet.nonce)
        if verified == bytes(32):
            # Receiving a packet clears its hash. A packet that was never verified has a nonce above the highest one
            # received.
            if packet.nonce <= await self._read(destination, endpoint, ENDPOINT, "lazyInboundNonce", *packet.path):
                return None
            raise TransientError(f"the LayerZero verifiers have not committed packet {dispatch.transport_id} yet")
        origin = (packet.source_eid, packet.sender, packet.nonce)
        data = ENDPOINT.encode("lzReceive", origin, packet.receiver, packet.guid, packet.message, b"")
        return self._with_gas(Call(to=endpoint, data=data, by_anyone=True), dispatch.envelope)


ADAPTER: Final = LayerZeroAdapter
