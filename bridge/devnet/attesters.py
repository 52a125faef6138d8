"""The devnet's validators, signers, guardians, verifiers and oracles, all in this process."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.domain.ports import Attester, Chain
from bridge.gmps.axelar.devnet import AxelarSigners
from bridge.gmps.ccip.devnet import CcipOracles
from bridge.gmps.hyperlane.devnet import HyperlaneValidators
from bridge.gmps.layerzero.devnet import LayerZeroVerifiers
from bridge.gmps.wormhole.devnet import WormholeGuardians
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
