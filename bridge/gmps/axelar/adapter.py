"""Axelar's adapter: `ContractCall` on the source; the gateway's approval and `execute` on the destination."""

from __future__ import annotations

from typing import Final

from eth_utils import keccak
from eth_utils.address import is_address, to_checksum_address

from bridge.gmps.base_adapter import BaseAdapter, GmpContracts, NotOursError, read_event
from bridge.protocol.addresses import from_bytes32
from bridge.protocol.contracts import contract, topic
from bridge.protocol.deployment import Address, ChainDeployment, Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Call, Dispatch, Log, Watch

MESSAGE_TYPE: Final = "(string,string,string,address,bytes32)"

GATEWAY: Final = contract(
    f"approveMessages({MESSAGE_TYPE}[],(((address,uint128)[],uint128,bytes32),bytes[]))",
    "isMessageApproved(string,string,string,address,bytes32) returns (bool)",
    "isMessageExecuted(string,string) returns (bool)",
)
_EXECUTABLE: Final = contract("execute(bytes32,string,string,bytes)")

_CONTRACT_CALL: Final = topic("ContractCall(address,string,string,bytes32,bytes)")

AxelarMessage = tuple[str, str, str, str, bytes]
"""Source chain, message id, source address, destination contract and payload hash, which the signers approve."""


class AxelarContracts(GmpContracts):
    """Axelar's contracts on one chain."""

    GMP = Gmp.AXELAR
    ADAPTER = "AxelarAdapter"
    NUMBER = "chain_name"
    NUMBER_OF = ("nameOf", "string")
    ARGUMENTS = (("address", "gateway"), ("address", "gas_service"))
    VERIFIED_BY = "Axelar's own validators, which applications cannot choose"

    chain_name: str
    gateway: Address
    gas_service: Address
    domain_separator: str = ""  # of the gateway, for a devnet's signers


def axelar_message(deployment: Deployment, dispatch: Dispatch) -> AxelarMessage:
    """Returns the message as the destination's gateway identifies it."""
    return (
        AxelarContracts.of(deployment.chain(dispatch.source_chain)).chain_name,
        dispatch.transport_id,
        str(dispatch.evidence["source_address"]),
        str(dispatch.evidence["destination_address"]),
        keccak(dispatch.envelope),
    )


class AxelarAdapter(BaseAdapter):
    """Approves a message at the gateway, then executes it through the adapter.

    The attestation is the complete call that makes the gateway approve the message. If the execution reverts,
    the approval remains valid.
    """

    CONTRACTS = AxelarContracts
    DELIVERY_GAS = 350_000

    def _watch(self, source: ChainDeployment) -> Watch:
        return Watch((AxelarContracts.of(source).gateway,), (_CONTRACT_CALL,))

    def _read_dispatch(self, source: ChainDeployment, log: Log) -> Dispatch | None:
        types = ["string", "string", "bytes"]
        values = read_event(log, AxelarContracts.of(source).gateway, _CONTRACT_CALL, types, indexed=2)
        if values is None or log.topics[1] not in source.senders(self.gmp):
            return None
        chain_name, destination_address, envelope = values
        if not is_address(destination_address):
            raise NotOursError(f"{destination_address!r} is not an EVM address")
        return self._dispatch(
            source,
            log,
            envelope,
            f"0x{log.transaction_hash.hex()}-{log.log_index}",
            chain_name,
            source_address=from_bytes32(log.topics[1]),
            destination_address=to_checksum_address(destination_address),
        )

    async def _next_transaction(self, dispatch: Dispatch, attestation: bytes) -> Call | None:
        destination = self._deployment.chain(dispatch.destination_chain)
        gateway = AxelarContracts.of(destination).gateway
        message = axelar_message(self._deployment, dispatch)
        source_chain, message_id, source_address, adapter, _ = message
        if await self._read(destination, gateway, GATEWAY, "isMessageExecuted", source_chain, message_id):
            return None
        if not await self._read(destination, gateway, GATEWAY, "isMessageApproved", *message):
            return Call(to=gateway, data=attestation, by_anyone=True)
        command_id = keccak(text=f"{source_chain}_{message_id}")
        data = _EXECUTABLE.encode("execute", command_id, source_chain, source_address, dispatch.envelope)
        return self._with_gas(Call(to=adapter, data=data, by_anyone=True), dispatch.envelope)


ADAPTER: Final = AxelarAdapter
