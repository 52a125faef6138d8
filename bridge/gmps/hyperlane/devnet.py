"""Hyperlane on a devnet: its contracts and the validators that sign checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from eth_utils import keccak

from bridge.devnet.accounts import signer
from bridge.devnet.artifacts import Artifact
from bridge.devnet.attesting import SigningAttester, confirm, sign_digest
from bridge.devnet.deployer import Deployer
from bridge.devnet.gmps import DevnetChain, GmpDevnet
from bridge.gmps.hyperlane.adapter import HyperlaneContracts, hyperlane_message
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import contract
from bridge.protocol.ports import Call, Dispatch, TerminalError, read_view

VALIDATORS: Final = tuple(signer("hyperlane validator", index) for index in range(3))
THRESHOLD: Final = 2

# Fee = gas limit × gas price × rate / 10^10; a message with 200,000 gas costs about 0.0005 ether.
_GAS_PRICE: Final = 10**9  # wei per gas on the other chain
_EXCHANGE_RATE: Final = 10**10  # both chains' coins are worth the same
_GAS_OVERHEAD: Final = 50_000  # gas

_HOOK: Final = contract("root() returns (bytes32)")


def _load(name: str) -> Artifact:
    return Artifact.load("hyperlane", name)


async def deploy(deployer: Deployer, here: DevnetChain, others: Sequence[DevnetChain]) -> HyperlaneContracts:
    """Deploys a Mailbox on a chain, with a multisig ISM, a Merkle tree hook and a gas paymaster for fees.

    Raises:
        DevnetError: a transaction failed.
    """
    # Domains are chain ids, as on most networks.
    domain, remote_domains = here.chain_id, [other.chain_id for other in others]
    mailbox_artifact, factory_artifact = _load("Mailbox"), _load("StaticMessageIdMultisigIsmFactory")
    paymaster_artifact, oracle_artifact = _load("InterchainGasPaymaster"), _load("StorageGasOracle")
    mailbox = deployer.create(mailbox_artifact, domain)
    hook = deployer.create(_load("MerkleTreeHook"), mailbox)
    factory = deployer.create(factory_artifact)
    oracle = deployer.create(oracle_artifact)
    paymaster = deployer.create(paymaster_artifact)
    ism_arguments = ([validator.address for validator in VALIDATORS], THRESHOLD)
    deployer.call(factory_artifact, factory, "deploy(address[],uint8)", *ism_arguments)
    gas_data = [(remote, _EXCHANGE_RATE, _GAS_PRICE) for remote in remote_domains]
    deployer.call(oracle_artifact, oracle, "setRemoteGasDataConfigs", gas_data)
    deployer.call(paymaster_artifact, paymaster, "initialize", deployer.address, deployer.address)
    gas_configs = [(remote, (oracle, _GAS_OVERHEAD)) for remote in remote_domains]
    deployer.call(paymaster_artifact, paymaster, "setDestinationGasConfigs", gas_configs)
    await deployer.send()

    get_address = factory_artifact.contract.encode("getAddress(address[],uint8)", *ism_arguments)
    answer = await deployer.chain.call(Call(to=factory, data=get_address))
    ism = factory_artifact.contract.decode("getAddress(address[],uint8)", answer)
    # The required hook is the tree, the default hook the paymaster: each message pays both.
    deployer.call(mailbox_artifact, mailbox, "initialize", deployer.address, ism, paymaster, hook)
    await deployer.send()
    return HyperlaneContracts(domain=domain, mailbox=mailbox, merkle_tree_hook=hook)


class HyperlaneValidators(SigningAttester):
    """Signs checkpoints: the tree's root with a message's leaf index."""

    DEFAULT_SIGNERS = VALIDATORS[:THRESHOLD]

    async def attest(self, dispatch: Dispatch) -> bytes:
        """Returns a multisig ISM's metadata: hook, root, leaf and signatures in the validators' order."""
        source = self._deployment.chain(dispatch.source_chain)
        contracts = HyperlaneContracts.of(source)
        leaf = dispatch.evidence.get("leaf")
        if leaf is None:
            raise TerminalError(
                f"{contracts.merkle_tree_hook} did not insert Hyperlane message {dispatch.transport_id}"
            )
        chain = self._chains[source.chain_id]
        root: bytes
        _, root = await asyncio.gather(
            confirm(chain, dispatch),
            read_view(chain, _HOOK, contracts.merkle_tree_hook, "root", block=dispatch.block_number),
        )
        hook, checkpoint = to_bytes32(contracts.merkle_tree_hook), root + int(leaf).to_bytes(4, "big")
        domain = keccak(contracts.domain.to_bytes(4, "big") + hook + b"HYPERLANE")
        digest = keccak(
            b"\x19Ethereum Signed Message:\n32" + keccak(domain + checkpoint + keccak(hyperlane_message(dispatch)))
        )
        signatures = (sign_digest(validator, digest) for validator in self._signers)
        return hook + checkpoint + b"".join(signatures)


DEVNET: Final = GmpDevnet(deploy=deploy, attester=HyperlaneValidators)
