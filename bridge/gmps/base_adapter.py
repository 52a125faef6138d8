"""Base class of adapters. Recognises the deployment's own messages, and checks the destination before delivery."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, Self

import structlog
from eth_abi.abi import decode
from pydantic import Field

from bridge.gmps.verification import Verification
from bridge.protocol.addresses import ADAPTER_NUMBERS, AddressError, to_bytes32
from bridge.protocol.contracts import ROUTER, Contract, contract
from bridge.protocol.deployment import ChainDeployment, Deployment, DeploymentError, FileSection, GmpSection
from bridge.protocol.events import UNDECODABLE
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import MOST_GAS, EnvelopeError, decode_envelope
from bridge.protocol.ports import (
    Attester,
    Call,
    CallRevertedError,
    Chain,
    Dispatch,
    Log,
    TransportUsedError,
    Watch,
    read_view,
)

_log = structlog.get_logger(__name__)


class GmpContracts(FileSection):
    """A GMP's own contracts on one chain, with the parameters for deploying Waybill's adapter there."""

    GMP: ClassVar[Gmp]

    ADAPTER: ClassVar[str]
    """Name of Waybill's adapter contract in `contracts/adapters`."""

    NUMBER: ClassVar[str]
    """Field with the GMP's identifier of the chain, which is the last argument of the adapter's `connect`."""

    NUMBER_OF: ClassVar[tuple[str, str]]
    """The adapter's getter for the GMP's identifier of a chain, and the identifier's ABI type."""

    ARGUMENTS: ClassVar[tuple[tuple[str, str], ...]]
    """The adapter's constructor arguments after the router, as pairs of a fixed-size ABI type and a field."""

    ASKED_FOR_NUMBER: ClassVar[tuple[str, str] | None] = None
    """Field with the GMP contract that knows its own chain's identifier, and the getter to call; None if there is none."""

    VERIFICATION: ClassVar[type[Verification] | None] = None
    """Verification options that the GMP offers to an application; None if it offers none."""

    VERIFIED_BY: ClassVar[str]
    """Description of the GMP's default verifiers, for plans and reports."""

    ONE_MAY_VERIFY: ClassVar[bool] = False
    """Whether the GMP's default may rely on a single verifier."""

    adapter_number: int = Field(default=1, ge=1, le=ADAPTER_NUMBERS[-1])
    """Number under which the router creates Waybill's adapter; a different number creates a second adapter."""

    @classmethod
    def of(cls, chain: ChainDeployment) -> Self:
        """Returns the GMP's contracts on a chain that supports the GMP."""
        return cls.read(chain.gmps[cls.GMP.label])

    @classmethod
    def read(cls, section: GmpSection) -> Self:
        """Parses a GMP's section of a network or deployments file.

        Raises:
            pydantic.ValidationError: the section lacks a key, or has an unknown key or an invalid value.
        """
        contracts: Self = _read(cls, tuple(section.items()))
        return contracts

    @property
    def number(self) -> int | str:
        """Returns the GMP's identifier of the chain."""
        number: int | str = getattr(self, self.NUMBER)
        return number

    async def look_up(
        self,
        chain: Chain,
        others: Mapping[str, Any],  # noqa: ARG002  # most GMPs have nothing to complete
    ) -> tuple[dict[str, str], list[str]]:
        """Completes this section from the GMP's contracts on the chain, and checks its values against them.

        A wrong chain identifier would misroute or lose messages.

        Args:
            chain: Chain that the section describes.
            others: The GMP's identifiers of the other chains, by chain name.

        Returns:
            The section's values by key, including those that the file omits, and a list of problems, one line each.

        Raises:
            UnansweredError: no endpoint responded.
        """
        if self.ASKED_FOR_NUMBER is None:
            return {}, []
        field, function = self.ASKED_FOR_NUMBER
        address, label = getattr(self, field), self.GMP.label
        getter = contract(f"{function}() returns ({self.NUMBER_OF[1]})")
        try:
            actual = await read_view(chain, getter, address, function)
        except CallRevertedError:
            return {}, [f"gmps.{label}.{field}: {address} has no {function}(); write the address of the GMP's contract"]
        if actual != self.number:
            return {}, [f"gmps.{label}: {address} identifies the chain as {actual}, the plan as {self.number}"]
        return {}, []


@cache
def _read(kind: type[GmpContracts], section: tuple[tuple[str, int | str], ...]) -> Any:
    return kind.model_validate(dict(section))


class NotOursError(Exception):
    """A GMP's event cannot belong to a message of this deployment."""


class DeploymentReader:
    """Base class for readers. Holds the deployment and a connection to each of its chains."""

    def __init__(self, deployment: Deployment, chains: Mapping[int, Chain]) -> None:
        """Creates a reader of the contracts of `deployment`; `chains` are connections by chain id."""
        self._deployment = deployment
        self._chains = chains

    async def _read(
        self, chain: ChainDeployment, address: str, contract: Contract, function: str, *arguments: Any
    ) -> Any:
        """Returns the result of a view function at the newest block.

        Raises:
            UnansweredError: the chain did not respond, or the address has no contract with that function.
        """
        return await read_view(self._chains[chain.chain_id], contract, address, function, *arguments)


class BaseAdapter(DeploymentReader, ABC):
    """One GMP on every chain of a network; see `bridge.protocol.ports.Adapter`."""

    CONTRACTS: ClassVar[type[GmpContracts]]

    # Gas that a delivery needs beyond the recipient's limit: the GMP's verification, the adapter, the router's
    # bookkeeping; and per byte of the envelope: calldata, copies between the contracts, hashes.
    DELIVERY_GAS: ClassVar[int]
    DELIVERY_GAS_PER_BYTE: ClassVar[int] = 45

    def __init__(self, deployment: Deployment, chains: Mapping[int, Chain], attester: Attester) -> None:
        """Creates an adapter for the chains of a deployment that have this GMP.

        Args:
            deployment: The deployment.
            chains: Connections to the deployment's chains, by chain id.
            attester: Source of the GMP's attestations.
        """
        super().__init__(deployment, chains)
        self._attester = attester

    @property
    def gmp(self) -> Gmp:
        """See `Adapter.gmp`."""
        return self.CONTRACTS.GMP

    def watch(self, chain_id: int) -> Watch:
        """See `Adapter.watch`. On a chain without this GMP, there is nothing to watch."""
        source = self._deployment.chain(chain_id)
        return self._watch(source) if self.gmp in source.gmp_numbers else Watch((), ())

    def dispatches(self, chain_id: int, logs: Sequence[Log]) -> list[Dispatch]:
        """See `Adapter.dispatches`."""
        source = self._deployment.chain(chain_id)
        return list(self._dispatches(source, logs)) if self.gmp in source.gmp_numbers else []

    def delivery_gas(self, envelope: bytes) -> int:
        """See `Adapter.delivery_gas`."""
        needed = self.DELIVERY_GAS + self.DELIVERY_GAS_PER_BYTE * len(envelope)
        limit = decode_envelope(envelope).message.gas_limit
        # Each of the five calls down to the recipient keeps a 64th of its gas: (64/63)^5 < 1.09.
        # If that is not enough, the receipt still counts and the router defers the execution, which anyone may retry
        # with more gas.
        return min(needed + limit * 109 // 100, MOST_GAS)

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Adapter.attest`."""
        return await self._attester.attest(dispatch)

    async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        """See `Adapter.next_call`.

        Simulates the call on the newest block, so that no gas is spent on a call that would revert. Also reads
        the receipt from the router, since a message that the router has received is never sent again, whatever
        the simulation returned.

        Raises:
            CallRevertedError: the call would revert on the destination.
            TransportUsedError: the GMP reports the message as delivered, but the router has no receipt for it.
        """
        received: bool | BaseException
        call: Call | BaseException | None
        received, call = await asyncio.gather(
            self._is_received(dispatch),
            self._simulated(dispatch, attestation),
            return_exceptions=True,
        )
        if isinstance(received, BaseException):
            raise received
        if received:
            return None
        if isinstance(call, BaseException):
            raise call
        if call is not None:
            return call
        if await self._is_received(dispatch):  # delivered after the first check
            return None
        raise TransportUsedError(
            f"{self.gmp.label} reports {dispatch.transport_id} as delivered, but the router has no receipt for "
            "it: a reorg gave its slot to another message, or the receipt was revoked; retry the message over "
            "another GMP"
        )

    async def _is_received(self, dispatch: Dispatch) -> bool:
        """Returns whether the router has a receipt, which is the only proof of a delivery."""
        destination = self._deployment.chain(dispatch.destination_chain)
        arguments = (dispatch.message_id, int(self.gmp))
        return bool(await self._read(destination, destination.router, ROUTER, "hasReceived", *arguments))

    async def _simulated(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        """Returns the next transaction after simulating it, or None if the GMP has nothing left to do."""
        call = await self._next_transaction(dispatch, attestation)
        if call is not None:
            await self._chains[dispatch.destination_chain].call(call)
        return call

    @abstractmethod
    def _watch(self, source: ChainDeployment) -> Watch: ...

    def _dispatches(self, source: ChainDeployment, logs: Sequence[Log]) -> Iterator[Dispatch]:
        for log in logs:
            try:
                dispatch = self._read_dispatch(source, log)
            except (NotOursError, EnvelopeError, DeploymentError, AddressError) as error:
                # Waybill's adapter accepts envelopes from its router alone, so this indicates a wrong deployments file
                # or a bug.
                _log.error(
                    "dispatch ignored",
                    chain=source.name,
                    gmp=self.gmp.label,
                    transaction=f"0x{log.transaction_hash.hex()}",
                    reason=str(error),
                )
            else:
                if dispatch is not None:
                    yield dispatch

    @abstractmethod
    def _read_dispatch(self, source: ChainDeployment, log: Log) -> Dispatch | None:
        """Decodes a log into a dispatch, or returns None if the log is not a dispatch of this deployment.

        Raises:
            NotOursError, EnvelopeError, DeploymentError, AddressError: the dispatch does not match the deployment.
        """

    @abstractmethod
    async def _next_transaction(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        """Returns the next transaction for a message without a receipt, or None if the GMP has nothing left to do."""

    def _dispatch(
        self,
        source: ChainDeployment,
        log: Log,
        envelope: bytes,
        transport_id: str,
        number: int | str | None = None,
        **evidence: str | int,
    ) -> Dispatch:
        """Builds the dispatch of a message that this deployment's router created on `source`.

        Args:
            source: Source chain.
            log: The GMP's event.
            envelope: Payload that the GMP carries.
            transport_id: Message id that the GMP itself assigned.
            number: The GMP's identifier of the destination chain, or None if the event does not state it.
            evidence: Values other than the envelope that are needed for the attestation.

        Raises:
            NotOursError, EnvelopeError, DeploymentError: a different router created the message, or its
                destination is not deployed.
        """
        stated = decode_envelope(envelope)
        message = stated.message
        destination = self._deployment.chain(message.destination_chain)
        if not stated.is_genuine:
            raise NotOursError(f"the envelope does not hash to its message id 0x{stated.stated_id.hex()}")
        if (message.source_chain, message.source_router) != (source.chain_id, to_bytes32(source.router)):
            raise NotOursError(
                f"the envelope is from chain {message.source_chain}, router 0x{message.source_router.hex()}"
            )
        if self.gmp not in destination.gmp_numbers:
            raise NotOursError(f"chain {destination.name!r} has no adapter for {self.gmp.label}")
        if number not in (None, self.CONTRACTS.of(destination).number):
            raise NotOursError(f"{number!r} is not {self.gmp.label}'s identifier of chain {destination.name!r}")
        return Dispatch(
            gmp=self.gmp,
            message_id=message.id,
            source_chain=source.chain_id,
            destination_chain=destination.chain_id,
            envelope=envelope,
            transport_id=transport_id,
            block_number=log.block_number,
            block_hash=log.block_hash,
            transaction_hash=log.transaction_hash,
            log_index=log.log_index,
            evidence=evidence,
        )

    def _with_gas(self, call: Call, envelope: bytes) -> Call:
        """Returns the call with an explicit gas limit that covers the recipient's limit.

        An estimate would be too low, because with less gas the router still accepts the delivery but defers the
        execution.
        """
        return replace(call, gas=self.delivery_gas(envelope))


def read_event(log: Log, emitter: str, topic: bytes, types: Sequence[str], *, indexed: int) -> tuple[Any, ...] | None:
    """Returns the unindexed values of a log, or None if the log is not this event of this contract or can't be decoded.

    Args:
        log: Log to decode.
        emitter: Address of the contract that emits the event.
        topic: Topic 0 of the event.
        types: ABI types of the unindexed values.
        indexed: Number of indexed values.
    """
    if log.address.lower() != emitter.lower() or len(log.topics) != indexed + 1 or log.topics[0] != topic:
        return None
    try:
        return decode(types, log.data)
    except UNDECODABLE:
        return None
