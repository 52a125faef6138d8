"""The interface of each GMP's `devnet` module, which deploys the GMP's contracts and signs as its verifiers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bridge.devnet.deployer import Deployer
from bridge.gmps.base_adapter import GmpContracts
from bridge.protocol.deployment import Deployment
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Attester, Chain


@dataclass(frozen=True, slots=True, kw_only=True)
class DevnetChain:
    """A chain of a devnet before any deployment."""

    position: int  # from 0; the base of GMPs' own chain identifiers
    chain_id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpDevnet:
    """A GMP on a devnet. The GMP's `devnet` module defines it as `DEVNET`."""

    deploy: Callable[[Deployer, DevnetChain, Sequence[DevnetChain]], Awaitable[GmpContracts]]
    """Deploys the GMP on a chain, able to send to the others. Raises `DevnetError` if a transaction failed."""

    attester: Callable[[Deployment, Mapping[int, Chain]], Attester]
    """Creates an attester that signs in this process."""

    connect: Callable[[Deployer, Any, Sequence[Any]], Awaitable[None]] | None = None
    """Enables receiving from the other chains, whose contracts must exist."""


def gmp_devnet(gmp: Gmp) -> GmpDevnet:
    """Returns the devnet part of a GMP."""
    devnet: GmpDevnet = import_module(f"bridge.gmps.{gmp.label}.devnet").DEVNET
    return devnet


def devnet_attesters(deployment: Deployment, chains: Mapping[int, Chain]) -> dict[Gmp, Attester]:
    """Returns an attester for each GMP on a devnet.

    Args:
        deployment: The devnet's deployment.
        chains: Connections to the devnet's chains, by chain id.
    """
    return {gmp: gmp_devnet(gmp).attester(deployment, chains) for gmp in Gmp}
