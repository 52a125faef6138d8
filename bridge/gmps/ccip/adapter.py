"""CCIP's adapter for versions 1.6 and 2.0: `CCIPMessageSent` on the source, `OffRamp.execute` on the destination.

A lane runs one version, and the versions' events have different topics. After a failed execution, 1.6 needs
`manuallyExecute` and 2.0 another `execute`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from eth_abi.abi import decode, encode
from eth_utils import decode_hex
from pydantic import Field

from bridge.gmps.base_adapter import BaseAdapter, GmpContracts, read_event
from bridge.gmps.ccip.ramps import find_ramps, wrong_selector
from bridge.gmps.ccip.v2 import MESSAGE_SENT_V2, OFF_RAMP_V2, CcipMessageV2, decode_results, is_v2
from bridge.gmps.ccip.verification import CcipVerifiers
from bridge.protocol.addresses import AddressError, from_bytes32, to_bytes32
from bridge.protocol.contracts import contract, topic
from bridge.protocol.deployment import Address, ChainDeployment
from bridge.protocol.events import UNDECODABLE
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, Chain, Dispatch, Log, TransientError, Watch

_HEADER: Final = "(bytes32,uint64,uint64,uint64,uint64)"
_SENT: Final = f"({_HEADER},address,bytes,bytes,bytes,address,uint256,uint256,(address,bytes,bytes,uint256,bytes)[])"  # on the source
_MESSAGE: Final = (
    f"({_HEADER},bytes,bytes,address,uint256,(bytes,address,uint32,bytes,uint256)[])"  # on the destination
)
_REPORTS: Final = f"(uint64,{_MESSAGE}[],bytes[][],bytes32[],uint256)[]"
_PROOF: Final = ("bytes32[]", "bool")

MESSAGE_SENT: Final = topic(f"CCIPMessageSent(uint64,uint64,{_SENT})")

OFF_RAMP: Final = contract(
    "execute(bytes32[2],bytes)",
    f"manuallyExecute({_REPORTS},(uint256,uint32[])[][])",
    "getExecutionState(uint64,uint64) returns (uint8)",
    "getSourceChainConfig(uint64) returns ((address,bool,uint64,bool,bytes))",
    "latestConfigDetails(uint8) returns (((bytes32,uint8,uint8,bool),address[],address[]))",
    "getDynamicConfig() returns ((address,uint32,address))",
    "getMerkleRoot(uint64,bytes32) returns (uint256)",
)

EXECUTION_PLUGIN: Final = 1  # plugin type of the execution configuration; 0 is the commit configuration

SUCCESS: Final = 2
FAILURE: Final = 3

_EXTRA_ARGS_TAG: Final = bytes.fromhex(
    "181dcf10"
)  # version 2: gas limit and whether messages may be executed out of order

# Gas limit of a transaction under EIP-7825.
_MAX_GAS: Final = 2**24
# A failed execution is retried with a multiple of its gas limit, in case it ran out of gas.
_GAS_FACTOR: Final = 2
# Upper bound of the gas per verifier result of 2.0: the committee's signatures and their calldata.
_RESULT_GAS: Final = 150_000
# Proof flags of a single leaf: every sibling hash comes from the proof.
_ONE_LEAF: Final = 0


class CcipContracts(GmpContracts):
    """CCIP's contracts on one chain; `selector` is CCIP's identifier of the chain."""

    GMP = Gmp.CCIP
    ADAPTER = "CcipAdapter"
    NUMBER_OF = ("selectorOf", "uint64")
    VERIFICATION = CcipVerifiers
    VERIFIED_BY = "the lane's committee of Chainlink nodes, which Chainlink may change"

    selector: int = Field(gt=0, lt=2**64)
    router: Address
    # Optional in a network file: `waybill deploy` reads missing ramps from CCIP's router.
    on_ramp: Address | None = None  # for 1.6
    off_ramp: Address | None = None  # for 1.6; a 2.0 message names its own
    on_ramp_v2: Address | None = None  # for 2.0

    @property
    def number(self) -> int:
        """See `GmpContracts.number`."""
        return self.selector

    @property
    def arguments(self) -> tuple[tuple[str, Any], ...]:
        """See `GmpContracts.arguments`."""
        return (("address", self.router),)

    @property
    def on_ramps(self) -> tuple[str, ...]:
        """The on-ramps of both versions that are configured."""
        return tuple(ramp for ramp in (self.on_ramp, self.on_ramp_v2) if ramp)

    @property
    def on_ramp_v1(self) -> str:
        """The on-ramp of 1.6.

        Raises:
            TransientError: the deployments file has none.
        """
        return _required_ramp(self.on_ramp, "onRamp")

    @property
    def off_ramp_v1(self) -> str:
        """The off-ramp of 1.6.

        Raises:
            TransientError: the deployments file has none.
        """
        return _required_ramp(self.off_ramp, "offRamp")

    async def look_up(self, chain: Chain, others: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
        """See `GmpContracts.look_up`."""
        ramps = {"onRamp": self.on_ramp, "onRampV2": self.on_ramp_v2, "offRamp": self.off_ramp}
        configured = {key: ramp for key, ramp in ramps.items() if ramp}
        resolved, problems = await find_ramps(chain, self.router, configured, others)
        return resolved, problems + await wrong_selector(chain, self.selector, resolved)


def _required_ramp(ramp: str | None, key: str) -> str:
    if ramp is None:
        raise TransientError(
            f"the deployments file has no gmps.ccip.{key}, which CCIP 1.6 messages need; run `waybill deploy` to write it once"
            " CCIP's router has one, then restart the relayer"
        )
    return ramp


@dataclass(frozen=True, slots=True, kw_only=True)
class CcipMessage:
    """A 1.6 message in the off-ramp's form."""

    id: bytes
    source_selector: int
    destination_selector: int
    sequence: int  # from 1, per pair of chains and shared by all senders
    nonce: int  # 0: unordered
    sender: str
    receiver: str
    data: bytes
    gas_limit: int  # exact gas for the receiver
    tokens: tuple[
        tuple[bytes, str, int, bytes, int], ...
    ] = ()  # source pool, token, gas, data, amount; Waybill sends none

    @classmethod
    def of_log(cls, log: Log, on_ramp: str) -> Self | None:
        """Returns the message in an on-ramp's log, or None for another event or a destination that is not an EVM chain."""
        values = read_event(log, on_ramp, MESSAGE_SENT, [_SENT], indexed=2)
        if values is None:
            return None
        (message_id, source, destination, sequence, nonce), sender, data, receiver, arguments, _, _, _, tokens = values[
            0
        ]
        gas_limit = _gas_limit(arguments)
        if gas_limit is None:
            return None
        try:
            address, converted_tokens = from_bytes32(receiver), tuple(_token(*token) for token in tokens)
        except (AddressError, *UNDECODABLE):
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
            tokens=converted_tokens,
        )

    @classmethod
    def of_dispatch(cls, dispatch: Dispatch) -> Self:
        """Returns the message that carried a dispatched envelope, without tokens."""
        evidence = dispatch.evidence
        return cls(
            id=decode_hex(dispatch.transport_id),
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
        """All fields but id and data.

        Selectors are strings, because not every JSON reader keeps 64-bit numbers exact.
        """
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
        """Returns the message as the off-ramp's struct."""
        header = (self.id, self.source_selector, self.destination_selector, self.sequence, self.nonce)
        return header, to_bytes32(self.sender), self.data, self.receiver, self.gas_limit, list(self.tokens)


class CcipAdapter(BaseAdapter):
    """Executes messages at the off-ramp.

    A delivery that the receiver rejects does not revert: the off-ramp records a failure, and anyone may then execute
    the message
    manually, with more gas. A manual execution that fails again reverts.

    With 1.6, oracles commit Merkle roots of messages to the destination, the attestation is a message's Merkle proof,
    and only
    their transmitters may make the first execution. With 2.0, the attestation is the verifiers' results, and anyone may
    execute.
    """

    CONTRACTS = CcipContracts
    DELIVERY_GAS = 300_000

    def _watch(self, source: ChainDeployment) -> Watch:
        on_ramps = CcipContracts.of(source).on_ramps
        return Watch(on_ramps, (MESSAGE_SENT, MESSAGE_SENT_V2)) if on_ramps else Watch((), ())

    def _read_dispatch(self, source: ChainDeployment, log: Log) -> Dispatch | None:
        if log.topics[:1] == (MESSAGE_SENT_V2,):
            return self._read_v2(source, log)
        on_ramp = CcipContracts.of(source).on_ramp
        message = CcipMessage.of_log(log, on_ramp) if on_ramp else None
        if message is None or message.tokens or to_bytes32(message.sender) not in source.senders(self.gmp):
            return None
        identity, number = f"0x{message.id.hex()}", message.destination_selector
        return self._dispatch(source, log, message.data, identity, number, **message.evidence)

    def _read_v2(self, source: ChainDeployment, log: Log) -> Dispatch | None:
        # Other senders' messages may have unknown encodings, so the sender is checked by its topic before decoding.
        if len(log.topics) != 4 or log.topics[2] not in source.senders(self.gmp):
            return None
        decoded = (CcipMessageV2.of_log(log, on_ramp) for on_ramp in CcipContracts.of(source).on_ramps)
        message = next((candidate for candidate in decoded if candidate is not None), None)
        if message is None or to_bytes32(message.sender) != log.topics[2]:
            return None
        header = f"0x{message.header.hex()}"
        return self._dispatch(
            source, log, message.data, f"0x{message.id.hex()}", message.destination_selector, header=header
        )

    @staticmethod
    def addressee(dispatch: Dispatch) -> str:
        """See `BaseAdapter.addressee`."""
        return (CcipMessageV2 if is_v2(dispatch) else CcipMessage).of_dispatch(dispatch).receiver

    async def _next_transaction(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        if is_v2(dispatch):
            return await self._next_execution_v2(dispatch, attestation)
        destination = self._deployment.chain(dispatch.destination_chain)
        off_ramp = CcipContracts.of(destination).off_ramp_v1
        message = CcipMessage.of_dispatch(dispatch)
        identity = (message.source_selector, message.sequence)
        state = await self._read(destination, off_ramp, OFF_RAMP, "getExecutionState", *identity)
        if state == SUCCESS:
            return None
        path, manually = decode(_PROOF, attestation)
        report: tuple[Any, ...] = (message.source_selector, [message.to_tuple()], [[]], path, _ONE_LEAF)
        if state == FAILURE or manually:
            gas_limit = _raised_gas_limit(message.gas_limit) if state == FAILURE else message.gas_limit
            data = OFF_RAMP.encode("manuallyExecute", [report], [[(gas_limit, [])]])
        else:
            gas_limit = message.gas_limit
            digest, _ = await self._execution_config(destination)
            context = (digest, message.sequence.to_bytes(32, "big"))
            data = OFF_RAMP.encode("execute", context, _encode_reports([report]))
        return Call(to=off_ramp, data=data, gas=self._gas(gas_limit, dispatch.envelope))

    async def _next_execution_v2(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        """Returns the next execution of a 2.0 message.

        The off-ramp records a failure of verifiers or receiver instead of reverting, so its inner call is simulated
        first.
        """
        destination, message = self._deployment.chain(dispatch.destination_chain), CcipMessageV2.of_dispatch(dispatch)
        state = await self._read(destination, message.off_ramp, OFF_RAMP_V2, "getExecutionState", message.id)
        if state == SUCCESS:
            return None
        resolvers, results = decode_results(attestation)
        gas_limit = _raised_gas_limit(message.gas_limit) if state == FAILURE else message.gas_limit
        override = gas_limit if state == FAILURE else 0
        gas = self._gas(gas_limit + _RESULT_GAS * len(results), dispatch.envelope)
        inner = ("executeSingleMessage", message.to_tuple(), message.id, resolvers, results, override)
        await self._chains[destination.chain_id].call(
            Call(to=message.off_ramp, data=OFF_RAMP_V2.encode(*inner), gas=gas), sender=message.off_ramp
        )
        data = OFF_RAMP_V2.encode("execute", message.packed, resolvers, results, override)
        return Call(to=message.off_ramp, data=data, gas=gas)

    async def _simulate(self, destination: ChainDeployment, call: Call) -> None:
        sender = None
        if call.data.startswith(OFF_RAMP.selector("execute")):
            _, transmitters = await self._execution_config(destination)
            sender = transmitters[0] if transmitters else None
        await self._chains[destination.chain_id].call(call, sender=sender)

    async def _execution_config(self, destination: ChainDeployment) -> tuple[bytes, Sequence[str]]:
        """Returns the digest of the execution configuration and the accounts that may make the first execution."""
        off_ramp = CcipContracts.of(destination).off_ramp_v1
        (info, _, transmitters) = await self._read(
            destination, off_ramp, OFF_RAMP, "latestConfigDetails", EXECUTION_PLUGIN
        )
        return info[0], transmitters

    def _gas(self, gas_limit: int, envelope: bytes) -> int:
        """Returns the gas with which the receiver gets `gas_limit`: up to three nested calls retain a 64th each."""
        needed = self.DELIVERY_GAS + self.DELIVERY_GAS_PER_BYTE * len(envelope) + gas_limit * 105 // 100
        return min(needed, _MAX_GAS)


def _raised_gas_limit(gas_limit: int) -> int:
    return max(gas_limit, min(gas_limit * _GAS_FACTOR, _MAX_GAS // 2))


def encode_proof(path: Sequence[bytes], *, manually: bool) -> bytes:
    """Encodes a 1.6 attestation: a Merkle path, and whether to execute manually instead of as an oracle."""
    return encode(_PROOF, (path, manually))


def _token(pool: str, token: bytes, data: bytes, amount: int, execution: bytes) -> tuple[bytes, str, int, bytes, int]:
    """Converts a token of the source's event to the destination's struct."""
    (gas,) = decode(("uint32",), execution)
    return to_bytes32(pool), from_bytes32(token), gas, data, amount


def _encode_reports(reports: Sequence[Any]) -> bytes:
    return encode((_REPORTS,), (reports,))


def _gas_limit(arguments: bytes) -> int | None:
    """Returns the gas limit in a message's extra arguments, or None if their version is unknown."""
    if not arguments.startswith(_EXTRA_ARGS_TAG):
        return None
    try:
        gas_limit: int = decode(("uint256", "bool"), arguments[len(_EXTRA_ARGS_TAG) :])[0]
    except UNDECODABLE:
        return None
    return gas_limit


ADAPTER: Final = CcipAdapter
