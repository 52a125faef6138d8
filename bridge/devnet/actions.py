"""The example of atomic actions: a coordinator on the first chain, and a participating asset on each other chain."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from bridge.atomic.reader import Coordinator
from bridge.atomic.records import Level, Window
from bridge.atomic.steps import COORDINATOR
from bridge.client.client import transact
from bridge.devnet.accounts import DAPP_KEY, DEPLOYER_KEY, RELAYER_KEY, account
from bridge.devnet.artifacts import Artifact
from bridge.devnet.deployer import Deployer
from bridge.evm.chain import EvmChain
from bridge.protocol.contracts import Contract
from bridge.protocol.deployment import COORDINATOR_EXAMPLE, PARTICIPANT_EXAMPLE, ChainDeployment, Deployment
from bridge.protocol.events import load_abi
from bridge.protocol.gmps import Gmp, bits_from_gmps
from bridge.protocol.ports import Call, Chain

ASSETS: Final = Contract(load_abi("AtomicAssets"))
FREEZE, UNFREEZE = 0, 1
"""`AtomicAssets.Act`."""

ASSET: Final = keccak(text="gold")
"""Example asset, which every participant has."""

UNITS: Final = 1_000

_GMPS: Final = (Gmp.HYPERLANE, Gmp.WORMHOLE)
_QUORUM: Final = 2
_GAS: Final = 400_000  # gas limit of a phase's execution
_WINDOW: Final = Window(prepare_ttl=300, decision_ttl=120, max_retries=5, max_backoff=60, lock_ttl=900)
_LEAST: Final = Window(prepare_ttl=2, decision_ttl=1, max_retries=1, max_backoff=1, lock_ttl=4)
"""Shortest window that the example's participants accept, for a devnet's fast blocks and short demonstrations."""


@dataclass(frozen=True, slots=True)
class Change:
    """The change for one chain's participant."""

    chain: ChainDeployment
    act: int


async def deploy_actions(deployment: Deployment, chains: Mapping[int, Chain]) -> Deployment:
    """Deploys the examples on a devnet's chains, and allows the relayer to retry their messages.

    Raises:
        DevnetError: a transaction failed.
    """
    home, *others = deployment.chains
    if not others:
        return deployment
    deployers = {
        chain.chain_id: await Deployer.on(chains[chain.chain_id], account(DEPLOYER_KEY)) for chain in deployment.chains
    }
    coordinator_code, assets_code = Artifact.compiled("AtomicCoordinator"), Artifact.compiled("AtomicAssets")
    owner, relayer, dapp = (account(key).address for key in (DEPLOYER_KEY, RELAYER_KEY, DAPP_KEY))
    coordinator = deployers[home.chain_id].create(coordinator_code, home.router, owner, _tuple(_WINDOW))
    assets = {
        other.chain_id: deployers[other.chain_id].create(assets_code, other.router, owner, _tuple(_LEAST))
        for other in others
    }
    trusted = bits_from_gmps(home.gmp_numbers)
    here = deployers[home.chain_id]
    here.call(coordinator_code, coordinator, "setInitiator", dapp, True)
    here.call(coordinator_code, coordinator, "setRetrier", relayer, True)
    for other in others:
        there, participant = deployers[other.chain_id], assets[other.chain_id]
        here.call(coordinator_code, coordinator, "setParticipant", _lane(other.chain_id, participant))
        here.call(coordinator_code, coordinator, "allowRoute", other.chain_id, participant, _QUORUM, trusted)
        there.call(assets_code, participant, "setCoordinator", _lane(home.chain_id, coordinator))
        there.call(assets_code, participant, "allowRoute", home.chain_id, coordinator, _QUORUM, trusted)
        there.call(assets_code, participant, "setRetrier", relayer, True)
        there.call(assets_code, participant, "create", ASSET, dapp, UNITS)
    await asyncio.gather(*(deployer.send() for deployer in deployers.values()))
    examples = {home.chain_id: {COORDINATOR_EXAMPLE: coordinator}} | {
        chain_id: {PARTICIPANT_EXAMPLE: address} for chain_id, address in assets.items()
    }
    return deployment.model_copy(
        update={
            "chains": tuple(
                chain.model_copy(update={"examples": {**chain.examples, **examples[chain.chain_id]}})
                for chain in deployment.chains
            )
        }
    )


async def begin(
    deployment: Deployment,
    chains: Mapping[int, EvmChain],
    changes: Sequence[Change],
    *,
    level: Level = Level.ALL_OR_NOTHING,
    window: Window | None = None,
    subject: bytes = ASSET,
    initiator: LocalAccount | None = None,
) -> bytes:
    """Begins an action of the example and returns its id.

    Args:
        deployment: The devnet's deployment.
        chains: The devnet's chains by id.
        changes: Change of each participant.
        level: Guarantee level of the action.
        window: Timeouts and retries; None uses the coordinator's default.
        subject: Asset that the action changes.
        initiator: Account that begins the action; None uses the example dApp.

    Raises:
        RefusedError: the coordinator rejected the action.
    """
    home = deployment.chains[0]
    coordinator = Coordinator(home.chain_id, home.examples[COORDINATOR_EXAMPLE])
    branches = [
        (
            change.chain.chain_id,
            change.chain.examples[PARTICIPANT_EXAMPLE],
            _change(change.act),
        )
        for change in changes
    ]
    times = _tuple(window) if window else (0, 0, 0, 0, 0)
    data = COORDINATOR.encode("begin", (int(level), subject, times, branches))
    call = Call(to=coordinator.address, data=data)
    receipt = await transact(chains[home.chain_id], initiator or account(DAPP_KEY), call)
    return receipt.logs[0].topics[1]


async def is_frozen(chains: Mapping[int, Chain], chain: ChainDeployment, subject: bytes = ASSET) -> bool:
    """Returns whether a chain's participant has frozen the asset."""
    call = Call(to=chain.examples[PARTICIPANT_EXAMPLE], data=ASSETS.encode("isFrozen", subject))
    return bool(ASSETS.decode("isFrozen", await chains[chain.chain_id].call(call)))


def _change(act: int) -> bytes:
    return int(act).to_bytes(32, "big") + bytes(64)  # no account, no units


def _tuple(window: Window) -> tuple[int, ...]:
    return (window.prepare_ttl, window.decision_ttl, window.max_retries, window.max_backoff, window.lock_ttl)


def _lane(chain_id: int, counterpart: str) -> tuple[Any, ...]:
    return (chain_id, counterpart, _GAS, 0, _QUORUM, bits_from_gmps(_GMPS), 0)
