"""What each GMP's folder brings to a devnet: its contracts, and the validators, guardians or oracles that vouch for messages."""

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
    """A chain of a devnet, before anything is on it."""

    position: int  # from 0; GMPs that number chains themselves count from here
    chain_id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GmpDevnet:
    """A GMP on a devnet; `DEVNET` in the `devnet` module of its folder."""

    deploy: Callable[[Deployer, DevnetChain, Sequence[DevnetChain]], Awaitable[GmpContracts]]
    """Puts it on a chain, able to send to the others. Raises `DevnetError` if a transaction failed."""

    attester: Callable[[Deployment, Mapping[int, Chain]], Attester]
    """Signs for the chains of a deployment, in this process."""

    connect: Callable[[Deployer, Any, Sequence[Any]], Awaitable[None]] | None = None
    """Lets a chain receive from the others, whose contracts must be known for that."""


def gmp_devnet(gmp: Gmp) -> GmpDevnet:
    """What a GMP's folder brings."""
    found: GmpDevnet = import_module(f"bridge.gmps.{gmp.label}.devnet").DEVNET
    return found


def devnet_attesters(deployment: Deployment, chains: Mapping[int, Chain]) -> dict[Gmp, Attester]:
    """The attester of each GMP's messages on a devnet.

    Args:
        deployment: the devnet's.
        chains: its chains by id, connected.
    """
    return {gmp: gmp_devnet(gmp).attester(deployment, chains) for gmp in Gmp}
