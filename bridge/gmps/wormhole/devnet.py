"""Wormhole on a devnet: the core contract and the guardians that sign VAAs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from bridge.devnet.accounts import signer
from bridge.devnet.artifacts import Artifact
from bridge.devnet.attesting import SigningAttester, confirm, sign_digest
from bridge.devnet.deployer import Deployer
from bridge.devnet.gmps import DevnetChain, GmpDevnet
from bridge.gmps.wormhole.adapter import WormholeContracts
from bridge.protocol.ports import Dispatch

_FIRST_ID: Final = 10_001
GUARDIANS: Final = tuple(signer("wormhole guardian", index) for index in range(4))
QUORUM: Final = 3  # the core requires more than two thirds

MESSAGE_FEE: Final = 10**12  # wei

_GUARDIAN_SET: Final = 0
_GOVERNANCE_CHAIN: Final = 1
_GOVERNANCE_EMITTER: Final = (4).to_bytes(32, "big")
_SET_MESSAGE_FEE: Final = 3  # governance action of the module "Core"


async def deploy(deployer: Deployer, here: DevnetChain, _others: Sequence[DevnetChain]) -> WormholeContracts:
    """Deploys a core on a chain and sets its message fee through a governance VAA.

    Raises:
        DevnetError: a transaction failed.
    """
    wormhole_id = _FIRST_ID + here.position
    setup_artifact, core_artifact = Artifact.load("wormhole", "Setup"), Artifact.load("wormhole", "Implementation")
    setup, implementation = deployer.create(setup_artifact), deployer.create(core_artifact)
    initialisation = setup_artifact.contract.encode(
        "setup",
        implementation,
        [guardian.address for guardian in GUARDIANS],
        wormhole_id,
        _GOVERNANCE_CHAIN,
        _GOVERNANCE_EMITTER,
        deployer.chain.chain_id,
    )
    core = deployer.create(Artifact.load("wormhole", "Wormhole"), setup, initialisation)
    deployer.call(core_artifact, core, "submitSetMessageFee", sign_vaa(_fee_decision(wormhole_id)))
    await deployer.send()
    return WormholeContracts(chain_id=wormhole_id, core=core)


class WormholeGuardians(SigningAttester):
    """Signs VAAs of the messages that a chain's core published."""

    DEFAULT_SIGNERS = GUARDIANS[:QUORUM]

    async def attest(self, dispatch: Dispatch) -> bytes:
        """Returns the signed VAA of a dispatch."""
        source = self._deployment.chain(dispatch.source_chain)
        block = await confirm(self._chains[source.chain_id], dispatch)
        return sign_vaa(
            vaa_body(
                timestamp=block.timestamp,
                nonce=int(dispatch.evidence["nonce"]),
                emitter_chain=WormholeContracts.of(source).chain_id,
                emitter=bytes.fromhex(str(dispatch.evidence["emitter"])),
                sequence=int(dispatch.evidence["sequence"]),
                consistency_level=int(dispatch.evidence["consistency_level"]),
                payload=dispatch.envelope,
            ),
            self._signers,
        )


def vaa_body(
    *,
    timestamp: int,
    nonce: int,
    emitter_chain: int,
    emitter: bytes,
    sequence: int,
    consistency_level: int,
    payload: bytes,
) -> bytes:
    """Returns the VAA body that guardians sign."""
    return (
        timestamp.to_bytes(4, "big")
        + nonce.to_bytes(4, "big")
        + emitter_chain.to_bytes(2, "big")
        + emitter
        + sequence.to_bytes(8, "big")
        + consistency_level.to_bytes(1, "big")
        + payload
    )


def sign_vaa(body: bytes, guardians: Sequence[LocalAccount] = GUARDIANS[:QUORUM]) -> bytes:
    """Returns a VAA signed by the first guardians of the set."""
    digest = keccak(keccak(body))
    signatures = b"".join(
        # The recovery id counts from 0 here.
        bytes([index]) + signature[:64] + bytes([signature[64] - 27])
        for index, signature in enumerate(sign_digest(guardian, digest) for guardian in guardians)
    )
    return b"\x01" + _GUARDIAN_SET.to_bytes(4, "big") + bytes([len(guardians)]) + signatures + body


def _fee_decision(wormhole_id: int) -> bytes:
    decision = (
        b"Core".rjust(32, b"\0")
        + bytes([_SET_MESSAGE_FEE])
        + wormhole_id.to_bytes(2, "big")
        + MESSAGE_FEE.to_bytes(32, "big")
    )
    return vaa_body(
        timestamp=1,
        nonce=1,
        emitter_chain=_GOVERNANCE_CHAIN,
        emitter=_GOVERNANCE_EMITTER,
        sequence=1,
        consistency_level=0,
        payload=decision,
    )


DEVNET: Final = GmpDevnet(deploy=deploy, attester=WormholeGuardians)
