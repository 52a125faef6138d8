"""CCIP 1.6: `CCIPMessageSent` on the source; on the destination `OffRamp.execute`, and `manuallyExecute` after a failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from eth_abi.abi import decode, encode
from pydantic import Field

from bridge.domain.ports import Call, Dispatch, Log, Watch
from bridge.gmps.base_adapter import BaseAdapter, GmpContracts, read_event
from bridge.protocol.addresses import AddressError, from_bytes32, to_bytes32
from bridge.protocol.contracts import contract, topic
from bridge.protocol.deployment import Address, ChainDeployment
from bridge.protocol.events import UNDECODABLE
from bridge.protocol.gmps import Gmp

_HEADER: Final = "(bytes32,uint64,uint64,uint64,uint64)"
_SENT: Final = f"({_HEADER},address,bytes,bytes,bytes,address,uint256,uint256,(address,bytes,bytes,uint256,bytes)[])"  # on the source
_MESSAGE: Final = (
    f"({_HEADER},bytes,bytes,address,uint256,(bytes,address,uint32,bytes,uint256)[])"  # on the destination
)
_REPORTS: Final = f"(uint64,{_MESSAGE}[],bytes[][],bytes32[],uint256)[]"
_PROOF: Final = ("bytes32[]", "uint256")

MESSAGE_SENT: Final = topic(f"CCIPMessageSent(uint64,uint64,{_SENT})")

OFF_RAMP: Final = contract(
    "execute(bytes32[2],bytes)",
    f"manuallyExecute({_REPORTS},(uint256,uint32[])[][])",
    "getExecutionState(uint64,uint64) returns (uint8)",
    "getSourceChainConfig(uint64) returns ((address,bool,uint64,bool,bytes))",
    "latestConfigDetails(uint8) returns (((bytes32,uint8,uint8,bool),address[],address[]))",
)

EXECUTION_PLUGIN: Final = 1  # number of the oracles' configuration for executing; 0 is that for committing

SUCCESS: Final = 2
FAILURE: Final = 3

_EXTRA_ARGS_TAG: Final = bytes.fromhex("181dcf10")  # version 2: gas limit, and whether messages may overtake each other

# What a transaction may use at most by EIP-7825.
_MOST_GAS: Final = 2**24
# A failed execution is tried again with so many times its gas: a failure for want of gas would repeat itself otherwise.
_GAS_RAISE: Final = 2


class CcipContracts(GmpContracts):
    """CCIP 1.6 on one chain; `selector` is CCIP's own number for it."""

    GMP = Gmp.CCIP
    ADAPTER = "CcipAdapter"
    NUMBER_OF = ("selectorOf", "uint64")
    VERIFIED_BY = "the lane's committee of Chainlink's nodes"

    selector: int = Field(gt=0, lt=2**64)
    router: Address
    on_ramp: Address
    off_ramp: Address

    @property
    def number(self) -> int:
        """See `GmpContracts.number`."""
        return self.selector

    @property
    def arguments(self) -> tuple[tuple[str, Any], ...]:
        """See `GmpContracts.arguments`."""
        return (("address", self.router),)


@dataclass(frozen=True, slots=True, kw_only=True)
class CcipMessage:
    """A message as the off-ramp has it, without tokens: Waybill sends none."""

    id: bytes
    source_selector: int
    destination_selector: int
    sequence: int  # counts from 1 per pair of chains, for all senders together
    nonce: int  # 0: may be delivered in any order
    sender: str
    receiver: str
    data: bytes
    gas_limit: int  # gas that the receiver gets, neither less nor more

    @classmethod
    def of_log(cls, log: Log, on_ramp: str) -> Self | None:
        """The message that an on-ramp says it sent, or None if the log says something else, or of a message with tokens."""
        values = read_event(log, on_ramp, MESSAGE_SENT, [_SENT], indexed=2)
        if values is None:
            return None
        (message_id, source, destination, sequence, nonce), sender, data, receiver, arguments, _, _, _, tokens = values[
            0
        ]
        gas_limit = _gas_limit(arguments)
        if tokens or gas_limit is None:
            return None
        try:
            address = from_bytes32(receiver)
        except AddressError:
            return None
        return cls(
            id=message_id,
            source_selector=source,
            destination_selector=destination,
            sequence=sequence,
            nonce=nonce,
            sender=sender,
            receiver=address,
            data=data,
            gas_limit=gas_limit,
        )

    @classmethod
    def of_dispatch(cls, dispatch: Dispatch) -> Self:
        """The message that carries a dispatched envelope."""
        evidence = dispatch.evidence
        return cls(
            id=bytes.fromhex(dispatch.transport_id[2:]),
            source_selector=int(evidence["source_selector"]),
            destination_selector=int(evidence["destination_selector"]),
            sequence=int(evidence["sequence"]),
            nonce=int(evidence["nonce"]),
            sender=str(evidence["sender"]),
            receiver=str(evidence["receiver"]),
            data=dispatch.envelope,
            gas_limit=int(evidence["gas_limit"]),
        )

    @property
    def evidence(self) -> dict[str, str | int]:
        """All of it but id and data. Selectors need all 64 bits, which not every reader of numbers has."""
        return {
            "source_selector": str(self.source_selector),
            "destination_selector": str(self.destination_selector),
            "sequence": self.sequence,
            "nonce": self.nonce,
            "sender": self.sender,
            "receiver": self.receiver,
            "gas_limit": str(self.gas_limit),
        }

    def to_tuple(self) -> tuple[Any, ...]:
        """As the off-ramp's struct."""
        header = (self.id, self.source_selector, self.destination_selector, self.sequence, self.nonce)
        return header, to_bytes32(self.sender), self.data, self.receiver, self.gas_limit, []


class CcipAdapter(BaseAdapter):
    """A refused delivery succeeds as a transaction, and leaves the message to anyone who executes it manually.

    That may be done with more gas, and is refused as a whole if the message is refused again.
    The oracles commit roots of messages to the destination; the attestation is a message's place beneath its root. Only
    their transmitters may make the first execution.
    """

    CONTRACTS = CcipContracts
    DELIVERY_GAS = 300_000

    def _watch(self, source: ChainDeployment) -> Watch:
        return Watch((CcipContracts.of(source).on_ramp,), (MESSAGE_SENT,))

    def _read_dispatch(self, source: ChainDeployment, log: Log) -> Dispatch | None:
        message = CcipMessage.of_log(log, CcipContracts.of(source).on_ramp)
        if message is None or message.sender.lower() != source.adapter(self.gmp).lower():
            return None
        identity, number = f"0x{message.id.hex()}", message.destination_selector
        return self._dispatch(source, log, message.data, identity, number, **message.evidence)

    async def _next_transaction(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        destination = self._deployment.chain(dispatch.destination_chain)
        off_ramp = CcipContracts.of(destination).off_ramp
        message = CcipMessage.of_dispatch(dispatch)
        identity = (message.source_selector, message.sequence)
        state = await self._read(destination, off_ramp, OFF_RAMP, "getExecutionState", *identity)
        if state == SUCCESS:
            return None
        hashes, flags = decode(_PROOF, attestation)
        report: tuple[Any, ...] = (message.source_selector, [message.to_tuple()], [[]], hashes, flags)
        if state == FAILURE:
            gas_limit = max(message.gas_limit, min(message.gas_limit * _GAS_RAISE, _MOST_GAS // 2))
            data = OFF_RAMP.encode("manuallyExecute", [report], [[(gas_limit, [])]])
        else:
            gas_limit = message.gas_limit
            digest, _ = await self._execution_config(destination)
            context = (digest, message.sequence.to_bytes(32, "big"))
            data = OFF_RAMP.encode("execute", context, _encode_reports([report]))
        return Call(to=off_ramp, data=data, gas=self._gas(gas_limit, dispatch.envelope))

    async def _simulate(self, destination: ChainDeployment, call: Call) -> None:
        sender = None
        if call.data.startswith(OFF_RAMP.selector("execute")):
            _, transmitters = await self._execution_config(destination)
            sender = transmitters[0] if transmitters else None
        await self._chains[destination.chain_id].call(call, sender=sender)

    async def _execution_config(self, destination: ChainDeployment) -> tuple[bytes, Sequence[str]]:
        """The digest that executions name, and the accounts that may execute first."""
        off_ramp = CcipContracts.of(destination).off_ramp
        (info, _, transmitters) = await self._read(
            destination, off_ramp, OFF_RAMP, "latestConfigDetails", EXECUTION_PLUGIN
        )
        return info[0], transmitters

    def _gas(self, gas_limit: int, envelope: bytes) -> int:
        """Enough for the off-ramp to give the receiver exactly `gas_limit`: two calls on the way keep a 64th each."""
        needed = self.DELIVERY_GAS + self.DELIVERY_GAS_PER_BYTE * len(envelope) + gas_limit * 104 // 100
        return min(needed, _MOST_GAS)


def encode_proof(hashes: Sequence[bytes], flags: int) -> bytes:
    """An attestation: the hashes beside a message's way up to its root, and from which side each comes."""
    return encode(_PROOF, (hashes, flags))


def _encode_reports(reports: Sequence[Any]) -> bytes:
    return encode((_REPORTS,), (reports,))


def _gas_limit(arguments: bytes) -> int | None:
    """The gas limit in a message's extra arguments, or None if they are of another kind."""
    if not arguments.startswith(_EXTRA_ARGS_TAG):
        return None
    try:
        gas_limit: int = decode(("uint256", "bool"), arguments[len(_EXTRA_ARGS_TAG) :])[0]
    except UNDECODABLE:
        return None
    return gas_limit


ADAPTER: Final = CcipAdapter
