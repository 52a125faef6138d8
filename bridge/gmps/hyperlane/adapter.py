"""Hyperlane: `Dispatch` and `InsertedIntoTree` on the source, `Mailbox.process` on the destination."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from eth_utils import keccak

from bridge.domain.ports import Call, CallRevertedError, Dispatch, Log, Watch
from bridge.gmps.base_adapter import BaseAdapter, GmpContracts, event_data, is_event
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import contract, topic
from bridge.protocol.deployment import Address, ChainDeployment
from bridge.protocol.gmps import Gmp

MAILBOX: Final = contract("process(bytes,bytes)", "delivered(bytes32) returns (bool)")

_DISPATCH: Final = topic("Dispatch(address,uint32,bytes32,bytes)")
_INSERTED: Final = topic("InsertedIntoTree(bytes32,uint32)")

# A Hyperlane message: version 1 byte, nonce 4, origin 4, sender 32, destination 4, recipient 32, body.
_HEADER_LENGTH: Final = 77


class HyperlaneContracts(GmpContracts):
    """Hyperlane on one chain."""

    GMP = Gmp.HYPERLANE
    ADAPTER = "HyperlaneAdapter"
    NUMBER_OF = ("domainOf", "uint32")

    domain: int
    mailbox: Address
    merkle_tree_hook: Address

    @property
    def number(self) -> int:
        """See `GmpContracts.number`."""
        return self.domain

    @property
    def arguments(self) -> tuple[tuple[str, Any], ...]:
        """See `GmpContracts.arguments`."""
        return (("address", self.mailbox),)


def hyperlane_message(dispatch: Dispatch) -> bytes:
    """The message as the Mailbox has it: its header, and the envelope as its body."""
    return bytes.fromhex(str(dispatch.evidence["header"])) + dispatch.envelope


class HyperlaneAdapter(BaseAdapter):
    """A refused delivery reverts as a whole; the same call may be made again."""

    CONTRACTS = HyperlaneContracts
    DELIVERY_GAS = 400_000

    def _watch(self, source: ChainDeployment) -> Watch:
        contracts = HyperlaneContracts.of(source)
        return Watch((contracts.mailbox, contracts.merkle_tree_hook), (_DISPATCH, _INSERTED))

    def _dispatches(self, source: ChainDeployment, logs: Sequence[Log]) -> Iterable[Dispatch | None]:
        leaves = _leaves(HyperlaneContracts.of(source), logs)
        return (self._read_dispatch(source, log, leaves) for log in logs)

    def _read_dispatch(self, source: ChainDeployment, log: Log, leaves: dict[bytes, int]) -> Dispatch | None:
        contracts = HyperlaneContracts.of(source)
        if not is_event(log, contracts.mailbox, _DISPATCH, indexed=3):
            return None
        if log.topics[1] != to_bytes32(source.adapter(self.gmp)):
            return None
        values = event_data(["bytes"], log)
        if values is None:
            return None
        (message,) = values
        header, envelope = message[:_HEADER_LENGTH], message[_HEADER_LENGTH:]
        lane = self._lane(source, envelope)
        if lane is None:
            return None
        domain = int.from_bytes(log.topics[2], "big")
        if domain != HyperlaneContracts.of(lane.destination).domain:
            self._leave_out(source, f"{domain} is not Hyperlane's domain of chain {lane.destination.name!r}")
            return None
        message_id = keccak(message)
        evidence: dict[str, str | int] = {"header": header.hex()}
        if message_id in leaves:
            evidence["leaf"] = leaves[message_id]
        return self._dispatch(lane, log, envelope, f"0x{message_id.hex()}", **evidence)

    async def _simulated(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        try:
            return await super()._simulated(dispatch, attestation)
        except CallRevertedError:  # the Mailbox refuses what it has delivered: only then is it worth asking for
            destination = self._deployment.chain(dispatch.destination_chain)
            mailbox, message_id = HyperlaneContracts.of(destination).mailbox, keccak(hyperlane_message(dispatch))
            if await self._read(destination, mailbox, MAILBOX, "delivered", message_id):
                return None
            raise

    async def _next_transaction(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        mailbox = HyperlaneContracts.of(self._deployment.chain(dispatch.destination_chain)).mailbox
        data = MAILBOX.encode("process", attestation, hyperlane_message(dispatch))
        return self._with_gas(Call(to=mailbox, data=data, by_anyone=True), dispatch.envelope)


def _leaves(contracts: HyperlaneContracts, logs: Sequence[Log]) -> dict[bytes, int]:
    """Hyperlane's message ids and their places in the tree that validators sign."""
    leaves = {}
    for log in logs:
        if is_event(log, contracts.merkle_tree_hook, _INSERTED, indexed=0):
            values = event_data(["bytes32", "uint32"], log)
            if values is not None:
                leaves[values[0]] = values[1]
    return leaves


ADAPTER: Final = HyperlaneAdapter
