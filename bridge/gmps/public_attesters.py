"""Who is asked for each GMP's proofs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from bridge.domain.ports import Attester, Chain
from bridge.gmps.axelar.attester import AxelarApprovals
from bridge.gmps.ccip.attester import CcipExecutions
from bridge.gmps.hyperlane.attester import HyperlaneCheckpoints
from bridge.gmps.json_documents import Web
from bridge.gmps.layerzero.attester import LayerZeroVerifications
from bridge.gmps.wormhole.attester import WormholeVaas
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp

WORMHOLESCAN: Final = "https://api.wormholescan.io"


class AttestationError(Exception):
    """Nobody knows where a GMP's proofs are; the text says what to set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationSettings:
    """Whom to ask."""

    wormhole: tuple[str, ...] = (WORMHOLESCAN,)  # URLs that serve /v1/signed_vaa, as guardians do
    hyperlane: Mapping[str, str] = field(default_factory=dict)  # addresses of ValidatorAnnounce, by name of the chain
    timeout: float = 10.0  # seconds until a service that does not answer is given up


def public_attesters(
    deployment: Deployment, chains: Mapping[int, Chain], settings: AttestationSettings, gmps: AbstractSet[Gmp]
) -> dict[Gmp, Attester]:
    """Where each of those GMPs' proofs come from.

    Args:
        deployment: the network.
        chains: its chains by id, connected.
        settings: whom to ask.
        gmps: those that are delivered over.

    Raises:
        AttestationError: the settings do not say enough.
    """
    web = Web(timeout=settings.timeout)
    made: Mapping[Gmp, Callable[[], Attester]] = {
        Gmp.HYPERLANE: lambda: HyperlaneCheckpoints(deployment, chains, _announcements(deployment, settings), web),
        Gmp.AXELAR: lambda: AxelarApprovals(deployment, chains),
        Gmp.WORMHOLE: lambda: WormholeVaas(deployment, settings.wormhole, web),
        Gmp.LAYERZERO: LayerZeroVerifications,
        Gmp.CCIP: lambda: CcipExecutions(deployment, chains),
    }
    deployed = frozenset().union(*(chain.gmp_numbers for chain in deployment.chains))
    return {gmp: make() for gmp, make in made.items() if gmp in gmps and gmp in deployed}


def _announcements(deployment: Deployment, settings: AttestationSettings) -> dict[int, str]:
    """Where the validators of each chain say where their signatures are, by chain id."""
    with_hyperlane = [chain for chain in deployment.chains if Gmp.HYPERLANE in chain.gmp_numbers]
    missing = [chain.name for chain in with_hyperlane if chain.name not in settings.hyperlane]
    if missing:
        raise AttestationError(
            f"Hyperlane's validators of {', '.join(missing)} can't be found: name the ValidatorAnnounce contracts in"
            " [attestations.hyperlane], or leave hyperlane out of `gmps`"
        )
    return {chain.chain_id: settings.hyperlane[chain.name] for chain in with_hyperlane}
