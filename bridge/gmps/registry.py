"""The GMPs that Waybill speaks, one class each. A new one adds its module and one line below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bridge.domain.ports import Adapter, Attester, Chain
from bridge.gmps.axelar.adapter import AxelarAdapter
from bridge.gmps.base_adapter import BaseAdapter
from bridge.gmps.ccip.adapter import CcipAdapter
from bridge.gmps.hyperlane.adapter import HyperlaneAdapter
from bridge.gmps.layerzero.adapter import LayerZeroAdapter
from bridge.gmps.wormhole.adapter import WormholeAdapter
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp

ADAPTERS: Final[Mapping[Gmp, type[BaseAdapter]]] = {
    Gmp.HYPERLANE: HyperlaneAdapter,
    Gmp.AXELAR: AxelarAdapter,
    Gmp.WORMHOLE: WormholeAdapter,
    Gmp.LAYERZERO: LayerZeroAdapter,
    Gmp.CCIP: CcipAdapter,
}


def create_adapters(
    deployment: Deployment, chains: Mapping[int, Chain], attesters: Mapping[Gmp, Attester]
) -> dict[Gmp, Adapter]:
    """An adapter for every GMP that has an attester.

    Args:
        deployment: the network.
        chains: the network's chains by id, connected.
        attesters: where each GMP's proofs come from.
    """
    return {gmp: ADAPTERS[gmp](deployment, chains, attester) for gmp, attester in attesters.items()}


__all__ = ["ADAPTERS", "BaseAdapter", "create_adapters"]
