"""Axelar on a devnet: gateway, gas service and the weighted signers that approve messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from eth_abi.abi import encode
from eth_utils import decode_hex, keccak

from bridge.devnet.accounts import signer
from bridge.devnet.artifacts import Artifact
from bridge.devnet.attesting import SigningAttester, confirm, sign_digest
from bridge.devnet.deployer import Deployer
from bridge.devnet.gmps import DevnetChain, GmpDevnet
from bridge.gmps.axelar.adapter import GATEWAY, MESSAGE_TYPE, AxelarContracts, axelar_message
from bridge.protocol.ports import Dispatch

# The gateway requires signers and signatures in ascending order of address.
SIGNERS: Final = tuple(
    sorted((signer("axelar signer", index) for index in range(3)), key=lambda account: int(account.address, 16))
)
THRESHOLD: Final = 2

_SIGNERS_TYPE: Final = "((address,uint128)[],uint128,bytes32)"
_SignerSet = tuple[list[tuple[str, int]], int, bytes]
_SIGNER_SET: Final[_SignerSet] = ([(account.address, 1) for account in SIGNERS], THRESHOLD, bytes(32))
_APPROVE_MESSAGES: Final = 0  # command type

# Base fee and price per gas in wei: a message with 200,000 gas costs about 0.0006 ether.
_GAS_INFO: Final = (0, 0, 10**14, 10**9, 0, 0)

_PREVIOUS_SIGNERS_RETENTION: Final = 15  # rotations
_MINIMUM_ROTATION_DELAY: Final = 0  # seconds


def _load(name: str) -> Artifact:
    return Artifact.load("axelar", name)


async def deploy(deployer: Deployer, here: DevnetChain, others: Sequence[DevnetChain]) -> AxelarContracts:
    """Deploys an Amplifier gateway and a gas service on a chain.

    Raises:
        DevnetError: a transaction failed.
    """
    chain_name, remote_names = here.name, [other.name for other in others]
    domain_separator = keccak(text=f"waybill devnet axelar {chain_name}")
    gateway_arguments = (_PREVIOUS_SIGNERS_RETENTION, domain_separator, _MINIMUM_ROTATION_DELAY)
    gateway_code = deployer.create(_load("AxelarAmplifierGateway"), *gateway_arguments)
    setup = encode(["address", f"{_SIGNERS_TYPE}[]"], [deployer.address, [_SIGNER_SET]])
    gateway = deployer.create(_load("AxelarAmplifierGatewayProxy"), gateway_code, deployer.address, setup)
    gas_service_code = deployer.create(_load("AxelarGasService"), deployer.address)
    gas_service = deployer.create(_load("AxelarGasServiceProxy"))
    deployer.call(_load("AxelarGasServiceProxy"), gas_service, "init", gas_service_code, deployer.address, b"")
    deployer.call(
        _load("AxelarGasService"), gas_service, "updateGasInfo", remote_names, [_GAS_INFO] * len(remote_names)
    )
    await deployer.send()
    return AxelarContracts(
        chain_name=chain_name,
        gateway=gateway,
        gas_service=gas_service,
        domain_separator=f"0x{domain_separator.hex()}",
    )


class AxelarSigners(SigningAttester):
    """Signs approvals for the destination's gateway."""

    DEFAULT_SIGNERS = SIGNERS[:THRESHOLD]

    async def attest(self, dispatch: Dispatch) -> bytes:
        """Returns the call to `approveMessages`, with exactly as many signatures as the threshold requires."""
        await confirm(self._chains[dispatch.source_chain], dispatch)
        destination = AxelarContracts.of(self._deployment.chain(dispatch.destination_chain))
        messages = [axelar_message(self._deployment, dispatch)]
        data_hash = keccak(encode(["uint8", f"{MESSAGE_TYPE}[]"], [_APPROVE_MESSAGES, messages]))
        signers_hash = keccak(encode([_SIGNERS_TYPE], [_SIGNER_SET]))
        domain_separator = decode_hex(destination.domain_separator)
        digest = keccak(b"\x19Ethereum Signed Message:\n96" + domain_separator + signers_hash + data_hash)
        proof: tuple[Any, ...] = (_SIGNER_SET, [sign_digest(account, digest) for account in self._signers])
        return GATEWAY.encode("approveMessages", messages, proof)


DEVNET: Final = GmpDevnet(deploy=deploy, attester=AxelarSigners)
