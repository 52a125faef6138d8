"""The devnet's validators, signers, guardians, verifiers and oracles, all in this process."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.devnet.axelar import AxelarSigners
from bridge.devnet.ccip import CcipOracles
from bridge.devnet.hyperlane import HyperlaneValidators
from bridge.devnet.layerzero import LayerZeroVerifiers
from bridge.devnet.wormhole import WormholeGuardians
from bridge.ports import Attester, Chain
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp


def devnet_attesters(deployment: Deployment, chains: Mapping[int, Chain]) -> dict[Gmp, Attester]:
    """Whoever vouches for each GMP's messages on a devnet.

    Args:
        deployment: the devnet's.
        chains: its chains by id, connected.
    """
    return {
        Gmp.HYPERLANE: HyperlaneValidators(deployment, chains),
        Gmp.AXELAR: AxelarSigners(deployment, chains),
        Gmp.WORMHOLE: WormholeGuardians(deployment, chains),
        Gmp.LAYERZERO: LayerZeroVerifiers(deployment, chains),
        Gmp.CCIP: CcipOracles(deployment, chains),
    }
