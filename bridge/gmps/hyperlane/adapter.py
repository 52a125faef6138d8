"""Hyperlane's adapter: `Dispatch` and `InsertedIntoTree` on the source, `Mailbox.process` on the destination."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from eth_abi.abi import encode
from eth_utils import keccak

from bridge.gmps.base_adapter import BaseAdapter, GmpContracts, read_event
from bridge.gmps.verification import ADAPTER as ADAPTER_ITSELF
from bridge.gmps.verification import Connection, Step, Verification
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.contracts import contract, topic
from bridge.protocol.deployment import Address, ChainDeployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, CallRevertedError, Dispatch, Log, Watch

_ADAPTER: Final = contract("interchainSecurityModule()", "setInterchainSecurityModule(address)")
MAILBOX: Final = contract("process(bytes,bytes)", "delivered(bytes32) returns (bool)")

_DISPATCH: Final = topic("Dispatch(address,uint32,bytes32,bytes)")
_INSERTED: Final = topic("InsertedIntoTree(bytes32,uint32)")

# A Hyperlane message: version 1 byte, nonce 4, origin 4, sender 32, destination 4, recipient 32, body.
_HEADER_LENGTH: Final = 77
_RECIPIENT: Final = slice(45, 77)


class HyperlaneIsm(Verification):
    """The interchain security module (ISM) that verifies messages for the adapter."""

    ism: Address

    @property
    def verifiers(self) -> None:
        """See `Verification.verifiers`."""

    def __str__(self) -> str:
        """See `Verification.__str__`."""
        return f"ISM {self.ism}"

    def steps(self, connection: Connection) -> Sequence[Step]:  # noqa: ARG002  # one ISM for all chains
        """See `Verification.steps`."""
        value = encode(("address",), (self.ism,))
        question = _ADAPTER.encode("interchainSecurityModule")
        call = _ADAPTER.encode("setInterchainSecurityModule", self.ism)
        return (Step("Hyperlane's ISM", ADAPTER_ITSELF, question, value, ADAPTER_ITSELF, call),)


class HyperlaneContracts(GmpContracts):
    """Hyperlane's contracts on one chain."""

    GMP = Gmp.HYPERLANE
    ADAPTER = "HyperlaneAdapter"
    NUMBER = "domain"
    NUMBER_OF = ("domainOf", "uint32")
    ARGUMENTS = (("address", "mailbox"),)
    ASKED_FOR_NUMBER = ("mailbox", "localDomain")
    VERIFICATION = HyperlaneIsm
    VERIFIED_BY = "the Mailbox's default ISM, which Hyperlane may change"

    domain: int
    mailbox: Address
    merkle_tree_hook: Address
    validator_announce: Address | None = None
    """Registry of the places where validators publish their signatures."""


def hyperlane_message(dispatch: Dispatch) -> bytes:
    """Returns the message as the Mailbox encodes it: a header with the envelope as the body."""
    return bytes.fromhex(str(dispatch.evidence["header"])) + dispatch.envelope


def recipient_of(dispatch: Dispatch) -> str:
    """Returns the address of the adapter to which the Mailbox delivers the message."""
    return from_bytes32(bytes.fromhex(str(dispatch.evidence["header"]))[_RECIPIENT])


class HyperlaneAdapter(BaseAdapter):
    """Delivers messages with `Mailbox.process`.

    A failed delivery reverts completely, so the same call can be repeated.
    """

    CONTRACTS = HyperlaneContracts
    DELIVERY_GAS = 400_000

    def _watch(self, source: ChainDeployment) -> Watch:
        contracts = HyperlaneContracts.of(source)
        return Watch((contracts.mailbox, contracts.merkle_tree_hook), (_DISPATCH, _INSERTED))

    def _dispatches(self, source: ChainDeployment, logs: Sequence[Log]) -> Iterator[Dispatch]:
        leaves = _leaves(HyperlaneContracts.of(source), logs)
        for dispatch in super()._dispatches(source, logs):
            leaf = leaves.get(dispatch.transport_id)
            yield dispatch if leaf is None else replace(dispatch, evidence={**dispatch.evidence, "leaf": leaf})

    def _read_dispatch(self, source: ChainDeployment, log: Log) -> Dispatch | None:
        values = read_event(log, HyperlaneContracts.of(source).mailbox, _DISPATCH, ["bytes"], indexed=3)
        if values is None or log.topics[1] not in source.senders(self.gmp):
            return None
        (message,) = values
        header, envelope = message[:_HEADER_LENGTH], message[_HEADER_LENGTH:]
        domain = int.from_bytes(log.topics[2], "big")
        return self._dispatch(source, log, envelope, f"0x{keccak(message).hex()}", domain, header=header.hex())

    async def _simulated(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        try:
            return await super()._simulated(dispatch, attestation)
        except CallRevertedError:  # the Mailbox reverts on a delivered message, so `delivered` is read only now
            destination = self._deployment.chain(dispatch.destination_chain)
            mailbox, message_id = HyperlaneContracts.of(destination).mailbox, keccak(hyperlane_message(dispatch))
            if await self._read(destination, mailbox, MAILBOX, "delivered", message_id):
                return None
            raise

    async def _next_transaction(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        mailbox = HyperlaneContracts.of(self._deployment.chain(dispatch.destination_chain)).mailbox
        data = MAILBOX.encode("process", attestation, hyperlane_message(dispatch))
        return self._with_gas(Call(to=mailbox, data=data, by_anyone=True), dispatch.envelope)


def _leaves(contracts: HyperlaneContracts, logs: Sequence[Log]) -> dict[str, int]:
    """Returns the messages' leaf indexes in the tree that validators sign, by Hyperlane's message id."""
    hook, types = contracts.merkle_tree_hook, ["bytes32", "uint32"]
    inserted = (read_event(log, hook, _INSERTED, types, indexed=0) for log in logs)
    return {f"0x{values[0].hex()}": values[1] for values in inserted if values is not None}


ADAPTER: Final = HyperlaneAdapter
