"""Wormhole on a devnet: the core contract, and the guardians that sign VAAs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from bridge.devnet.accounts import signer
from bridge.devnet.artifacts import Artifact
from bridge.devnet.attesting import confirm, sign_digest
from bridge.devnet.deployer import Deployer
from bridge.devnet.fork import ForkedNetwork
from bridge.devnet.gmps import DevnetChain, GmpDevnet, NotImitatedError, StandIn
from bridge.domain.ports import Chain, Dispatch, read_view
from bridge.gmps.wormhole.adapter import WormholeContracts
from bridge.protocol.addresses import to_bytes32
from bridge.protocol.contracts import contract
from bridge.protocol.deployment import Deployment

_FIRST_ID: Final = 10_001
GUARDIANS: Final = tuple(signer("wormhole guardian", index) for index in range(4))
QUORUM: Final = 3  # the core asks for more than two thirds

MESSAGE_FEE: Final = 10**12  # wei

_GUARDIAN_SET: Final = 0
_GOVERNANCE_CHAIN: Final = 1
_GOVERNANCE_EMITTER: Final = (4).to_bytes(32, "big")
_SET_MESSAGE_FEE: Final = 3  # governance action of the module "Core"

_CORE: Final = contract(
    "getCurrentGuardianSetIndex() returns (uint32)", "getGuardianSet(uint32) returns ((address[],uint32))"
)
_SETS_SLOT: Final = 2  # of the core's storage: guardian sets by their numbers
_ONLY_GUARDIAN: Final = signer("wormhole guardian of a rehearsal", 0)


async def deploy(deployer: Deployer, here: DevnetChain, _others: Sequence[DevnetChain]) -> WormholeContracts:
    """Puts a core on a chain, and sets its message fee as its governance would.

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


class WormholeGuardians:
    """Sign what the core of a chain published."""

    def __init__(
        self,
        deployment: Deployment,
        chains: Mapping[int, Chain],
        guardians: Sequence[LocalAccount] = GUARDIANS[:QUORUM],
        guardian_set: int = _GUARDIAN_SET,
    ) -> None:
        """Signs for the chains of a deployment, with the guardians given: the first of the set of that number."""
        self._deployment = deployment
        self._chains = chains
        self._guardians = guardians
        self._set = guardian_set

    async def attest(self, dispatch: Dispatch) -> bytes:
        """The VAA."""
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
            self._guardians,
            self._set,
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
    """What guardians sign of a message."""
    return (
        timestamp.to_bytes(4, "big")
        + nonce.to_bytes(4, "big")
        + emitter_chain.to_bytes(2, "big")
        + emitter
        + sequence.to_bytes(8, "big")
        + consistency_level.to_bytes(1, "big")
        + payload
    )


def sign_vaa(
    body: bytes, guardians: Sequence[LocalAccount] = GUARDIANS[:QUORUM], guardian_set: int = _GUARDIAN_SET
) -> bytes:
    """A VAA, signed by the first guardians of the set."""
    digest = keccak(keccak(body))
    signatures = b"".join(
        # The recovery id counts from 0 here.
        bytes([index]) + signature[:64] + bytes([signature[64] - 27])
        for index, signature in enumerate(sign_digest(guardian, digest) for guardian in guardians)
    )
    return b"\x01" + guardian_set.to_bytes(4, "big") + bytes([len(guardians)]) + signatures + body


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


class OnlyGuardian:
    """On a fork: the core's guardian set has one guardian. Nobody may appoint one but the guardians, so its storage is written."""

    def __init__(self, network: ForkedNetwork) -> None:
        self._network = network

    async def attest(self, dispatch: Dispatch) -> bytes:
        """See `Attester.attest`.

        Raises:
            NotImitatedError: the core keeps its guardians elsewhere.
        """
        destination = self._network.deployment.chain(dispatch.destination_chain)
        fork, core = self._network.on(destination), WormholeContracts.of(destination).core
        current = await read_view(fork.chain, _CORE, core, "getCurrentGuardianSetIndex")
        guardians = keccak(current.to_bytes(32, "big") + _SETS_SLOT.to_bytes(32, "big"))
        fork.set_word(core, int.from_bytes(guardians, "big"), (1).to_bytes(32, "big"))  # the array's length
        fork.set_word(core, int.from_bytes(keccak(guardians), "big"), to_bytes32(_ONLY_GUARDIAN.address))
        found, _ = await read_view(fork.chain, _CORE, core, "getGuardianSet", current)
        if [one.lower() for one in found] != [_ONLY_GUARDIAN.address.lower()]:
            raise NotImitatedError(f"the core {core} keeps its guardians elsewhere in its storage than is known")
        chains, deployment = self._network.chains, self._network.deployment
        return await WormholeGuardians(deployment, chains, [_ONLY_GUARDIAN], current).attest(dispatch)


_STAND_IN: Final = StandIn(
    OnlyGuardian, "one guardian of the rehearsal's is in place of Wormhole's, written into the core's storage"
)

DEVNET: Final = GmpDevnet(deploy=deploy, attester=WormholeGuardians, stand_in=_STAND_IN)
