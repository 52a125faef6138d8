"""What every adapter does alike: recognise Waybill's own messages, and look at the destination before delivering."""

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
from bridge.protocol.contracts import ROUTER, Contract
from bridge.protocol.deployment import ChainDeployment, Deployment, DeploymentError, FileSection, GmpSection
from bridge.protocol.events import UNDECODABLE
from bridge.protocol.gmps import Gmp
from bridge.protocol.message import MOST_GAS, EnvelopeError, decode_envelope
from bridge.protocol.ports import Attester, Call, Chain, Dispatch, Log, TransportUsedError, Watch, read_view

_log = structlog.get_logger(__name__)


class GmpContracts(FileSection, ABC):
    """A GMP's own contracts on one chain, and what `waybill deploy` needs for Waybill's adapter there."""

    GMP: ClassVar[Gmp]

    ADAPTER: ClassVar[str]
    """The contract in `contracts/adapters`."""

    NUMBER_OF: ClassVar[tuple[str, str]]
    """Its function that gives the GMP's own number or name of a chain, and that number's ABI type."""

    ASKED_FOR_NUMBER: ClassVar[tuple[str, str] | None] = None
    """Which contract of the section knows the chain's number, by the section's key, and its function; None: none does."""

    VERIFICATION: ClassVar[type[Verification] | None] = None
    """What an application may choose of the GMP's verification; None: nothing."""

    VERIFIED_BY: ClassVar[str]
    """Who verifies by default."""

    ONE_MAY_VERIFY: ClassVar[bool] = False
    """Whether the default may believe a single verifier."""

    adapter_number: int = Field(default=1, ge=1, le=ADAPTER_NUMBERS[-1])
    """Under which number the router creates Waybill's adapter; another one puts a second adapter beside the first."""

    @classmethod
    def of(cls, chain: ChainDeployment) -> Self:
        """The GMP on a chain that has it."""
        return cls.read(chain.gmps[cls.GMP.label])

    @classmethod
    def read(cls, section: GmpSection) -> Self:
        """What a file says of the GMP.

        Raises:
            pydantic.ValidationError: values are missing, unknown or wrong.
        """
        contracts: Self = _read(cls, tuple(section.items()))
        return contracts

    @property
    @abstractmethod
    def number(self) -> int | str:
        """What the GMP calls the chain; the adapter's `connect` takes it last."""

    @property
    @abstractmethod
    def arguments(self) -> tuple[tuple[str, Any], ...]:
        """What the adapter's constructor takes after the router: ABI types of fixed size, and values."""

    async def look_up(
        self,
        chain: Chain,  # noqa: ARG002  # most have nothing to ask
        others: Mapping[str, Any],  # noqa: ARG002  # as above
    ) -> tuple[dict[str, str], list[str]]:
        """What the GMP's own contracts say of this section.

        Args:
            chain: whose section it is.
            others: the other chains' `number` by their names.

        Returns:
            Values for keys of the file, those that it leaves out among them; and what is wrong with it, one line each.

        Raises:
            UnansweredError: no endpoint answers.
        """
        return {}, []


@cache
def _read(kind: type[GmpContracts], section: tuple[tuple[str, int | str], ...]) -> Any:
    return kind.model_validate(dict(section))


class NotOursError(Exception):
    """What a GMP's event tells of can't be a message of this deployment."""


class DeploymentReader:
    """The deployments file, and a connection to each of its chains."""

    def __init__(self, deployment: Deployment, chains: Mapping[int, Chain]) -> None:
        """Reads `chains`, by id."""
        self._deployment = deployment
        self._chains = chains

    async def _read(
        self, chain: ChainDeployment, address: str, contract: Contract, function: str, *arguments: Any
    ) -> Any:
        """What a view function returns at the newest block.

        Raises:
            UnansweredError: the chain does not answer, or no contract with that function is there.
        """
        return await read_view(self._chains[chain.chain_id], contract, address, function, *arguments)


class BaseAdapter(DeploymentReader, ABC):
    """One GMP on all chains of a network; see `bridge.protocol.ports.Adapter`."""

    CONTRACTS: ClassVar[type[GmpContracts]]

    # Gas that a delivery needs beyond the recipient's limit: the GMP's verification, the adapter, the router's
    # bookkeeping; and per byte of the envelope: calldata, copies between the contracts, hashes.
    DELIVERY_GAS: ClassVar[int]
    DELIVERY_GAS_PER_BYTE: ClassVar[int] = 45

    def __init__(self, deployment: Deployment, chains: Mapping[int, Chain], attester: Attester) -> None:
        """Serves the chains of a deployment that have this GMP.

        Args:
            deployment: where the GMP's contracts and Waybill's are.
            chains: the deployment's chains by id.
            attester: where attestations come from.
        """
        super().__init__(deployment, chains)
        self._attester = attester

    @property
    def gmp(self) -> Gmp:
        """See `Adapter.gmp`."""
        return self.CONTRACTS.GMP

    def watch(self, chain_id: int) -> Watch:
        """See `Adapter.watch`. A chain without this GMP has nothing to watch."""
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
        # A delivery that needs more records its receipt, the router defers the execution, and anyone may execute with more.
        return min(needed + limit * 109 // 100, MOST_GAS)

    @staticmethod
    def addressee(dispatch: Dispatch) -> str | None:  # noqa: ARG004  # Wormhole's messages name none
        """The adapter that a dispatch is for; None: the GMP's message names none."""
        return None

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Adapter.attest`."""
        return await self._attester.attest(dispatch)

    async def next_call(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        """See `Adapter.next_call`.

        The call is tried on the newest block before it is given out, so that one that would be refused costs no gas. That
        goes on while the router is asked; whatever comes of it, what the router has already received is not sent.

        Raises:
            CallRevertedError: the destination would refuse the call now.
            TransportUsedError: the GMP has nothing left to do, and the router has no receipt.
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
        if await self._is_received(dispatch):  # delivered since the router was asked
            return None
        raise TransportUsedError(
            f"{self.gmp.label} counts {dispatch.transport_id} as delivered, and the router has no receipt of it: a reorg gave"
            " its place to another message, or the receipt was revoked; retry the message over another GMP"
        )

    async def _is_received(self, dispatch: Dispatch) -> bool:
        """Whether the router has the receipt: nothing else makes a delivery done."""
        destination = self._deployment.chain(dispatch.destination_chain)
        arguments = (dispatch.message_id, int(self.gmp))
        return bool(await self._read(destination, destination.router, ROUTER, "hasReceived", *arguments))

    async def _simulated(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        """The next transaction after a trial of it, or None if the GMP has nothing left to do."""
        call = await self._next_transaction(dispatch, attestation)
        if call is not None:
            await self._simulate(self._deployment.chain(dispatch.destination_chain), call)
        return call

    @abstractmethod
    def _watch(self, source: ChainDeployment) -> Watch: ...

    def _dispatches(self, source: ChainDeployment, logs: Sequence[Log]) -> Iterator[Dispatch]:
        for log in logs:
            try:
                dispatch = self._read_dispatch(source, log)
            except (NotOursError, EnvelopeError, DeploymentError, AddressError) as error:
                # Waybill's own adapter takes envelopes from its router only: what does not fit should not exist.
                _log.error(
                    "dispatch left out",
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
        """The dispatch that a log tells of, or None if it tells of something else.

        Raises:
            NotOursError, EnvelopeError, DeploymentError, AddressError: of one that does not fit the deployment.
        """

    @abstractmethod
    async def _next_transaction(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        """The next transaction for a message whose receipt is missing, or None if the GMP has nothing left to do."""

    async def _simulate(self, destination: ChainDeployment, call: Call) -> None:
        """Makes the call without a transaction, as anybody; a GMP that admits certain accounts only does it as one of them."""
        await self._chains[destination.chain_id].call(call)

    def _dispatch(
        self,
        source: ChainDeployment,
        log: Log,
        envelope: bytes,
        transport_id: str,
        number: int | str | None = None,
        **evidence: str | int,
    ) -> Dispatch:
        """The dispatch of a message that this deployment's router on that chain created.

        Args:
            source: the chain.
            log: the GMP's event.
            envelope: what the GMP carries.
            transport_id: the GMP's own name for it.
            number: what the GMP calls the chain that it carries it to; None if it does not say.
            evidence: what attesting needs beyond the envelope.

        Raises:
            NotOursError, EnvelopeError, DeploymentError: that router did not create it, or it leads nowhere.
        """
        stated = decode_envelope(envelope)
        message = stated.message
        destination = self._deployment.chain(message.destination_chain)
        if not stated.is_genuine:
            raise NotOursError(f"the content does not hash to the id stated, 0x{stated.stated_id.hex()}")
        if (message.source_chain, message.source_router) != (source.chain_id, to_bytes32(source.router)):
            raise NotOursError(f"it names chain {message.source_chain}, router 0x{message.source_router.hex()}")
        if self.gmp not in destination.gmp_numbers:
            raise NotOursError(f"chain {destination.name!r} has no adapter for {self.gmp.label}")
        if number not in (None, self.CONTRACTS.of(destination).number):
            raise NotOursError(f"{number!r} is not what {self.gmp.label} calls chain {destination.name!r}")
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
        """The call with enough gas for the recipient's limit, said explicitly.

        An estimate would be too low: the router takes a delivery with little gas too, and defers the execution.
        """
        return replace(call, gas=self.delivery_gas(envelope))


def read_event(log: Log, emitter: str, topic: bytes, types: Sequence[str], *, indexed: int) -> tuple[Any, ...] | None:
    """The unindexed values of a log; None if it is not that contract's event, or does not hold such values.

    Args:
        log: to read.
        emitter: the contract's address.
        topic: the event's topic 0.
        types: ABI types of the unindexed values.
        indexed: how many values are indexed.
    """
    if log.address.lower() != emitter.lower() or len(log.topics) != indexed + 1 or log.topics[0] != topic:
        return None
    try:
        return decode(types, log.data)
    except UNDECODABLE:
        return None
