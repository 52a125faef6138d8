"""Looks up each GMP's modules. Every member of `bridge.protocol.gmps.Gmp` has a package here with three modules.

adapter.py   `ADAPTER`, a `BaseAdapter`, and the section with the GMP's contracts that it reads
attester.py  `create_attester`, the source of attestations on a public network; `SETTING`, if operators can
             configure it; and `ON_TESTNETS`, if testnets have a different default
devnet.py    `DEVNET`, the GMP on a local network; see `bridge.devnet.gmps`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from bridge.gmps.attestation import AttestationSources, JsonDocuments
from bridge.gmps.base_adapter import BaseAdapter
from bridge.gmps.verification import DEFAULT, VerificationSection
from bridge.protocol.deployment import Deployment, DeploymentError, GmpSection
from bridge.protocol.file_problems import file_problems
from bridge.protocol.gmps import Gmp
from bridge.protocol.ports import Adapter, Attester, Chain


def adapter_class(gmp: Gmp) -> type[BaseAdapter]:
    """Returns a GMP's adapter class."""
    adapter: type[BaseAdapter] = import_module(f"bridge.gmps.{gmp.label}.adapter").ADAPTER
    return adapter


def create_adapters(
    deployment: Deployment, chains: Mapping[int, Chain], attesters: Mapping[Gmp, Attester]
) -> dict[Gmp, Adapter]:
    """Creates an adapter for every GMP that has an attester.

    Args:
        deployment: The network's deployment.
        chains: Connections to the network's chains, by chain id.
        attesters: Sources of attestations by GMP.
    """
    return {gmp: adapter_class(gmp)(deployment, chains, attester) for gmp, attester in attesters.items()}


def create_attesters(
    deployment: Deployment,
    chains: Mapping[int, Chain],
    settings: Mapping[Gmp, Any],
    gmps: AbstractSet[Gmp],
    web: JsonDocuments,
) -> dict[Gmp, Attester]:
    """Creates the attesters for the given GMPs on a public network. Skips GMPs that are not deployed.

    Args:
        deployment: The network's deployment.
        chains: Connections to the network's chains, by chain id.
        settings: The GMPs' values in ``[attestations]``, for GMPs that have a setting.
        gmps: GMPs that the relayer delivers over.
        web: HTTP client, which its owner closes.

    Raises:
        AttestationError: a GMP lacks a source of attestations.
    """
    deployed = frozenset[Gmp]().union(*(chain.gmp_numbers for chain in deployment.chains))
    attesters: dict[Gmp, Attester] = {}
    for gmp in sorted(deployed & gmps):
        sources = AttestationSources(deployment=deployment, chains=chains, setting=settings.get(gmp), web=web)
        attesters[gmp] = _attester_module(gmp).create_attester(sources)
    return attesters


def attestation_setting(gmp: Gmp) -> tuple[Any, Any] | None:
    """Returns the type and the pydantic field of a GMP's value in ``[attestations]``, or None if it has no setting."""
    setting: tuple[Any, Any] | None = getattr(_attester_module(gmp), "SETTING", None)
    return setting


def default_on_testnets(gmp: Gmp) -> Any:
    """Returns the default of a GMP's value in ``[attestations]`` on public testnets, or None if it has none of its own."""
    return getattr(_attester_module(gmp), "ON_TESTNETS", None)


def _attester_module(gmp: Gmp) -> Any:
    return import_module(f"bridge.gmps.{gmp.label}.attester")


def section_problems(sections: Mapping[str, GmpSection]) -> Iterator[str]:
    """Yields the problems in one chain's GMP sections, one line each."""
    for name, section in sections.items():
        try:
            adapter_class(Gmp.parse(name)).CONTRACTS.read(section)
        except ValidationError as error:
            yield from file_problems(error, f"gmps.{name}.")


def verification_problems(chosen: Mapping[str, VerificationSection], gmps: Mapping[str, GmpSection]) -> Iterator[str]:
    """Yields the problems in one chain's verification settings, one line each.

    Args:
        chosen: Verification settings by GMP.
        gmps: The chain's GMP sections by GMP.
    """
    for name, section in chosen.items():
        kind = adapter_class(Gmp.parse(name)).CONTRACTS.VERIFICATION
        if name not in gmps:
            yield f"verification.{name}: the chain has no gmps.{name}"
        elif section != DEFAULT and kind is None:
            yield f'verification.{name}: this GMP has no verification options; write "{DEFAULT}"'
        elif section != DEFAULT and kind is not None:
            try:
                kind.read(section)
            except ValidationError as error:
                yield from file_problems(error, f"verification.{name}.")


def check_sections(deployment: Deployment, source: str) -> None:
    """Checks the GMP sections of a deployments file. `source` is the file as shown in the error.

    Raises:
        DeploymentError: a section is invalid; the message lists every problem.
    """
    problems = [f"  {chain.name}: {problem}" for chain in deployment.chains for problem in section_problems(chain.gmps)]
    if problems:
        raise DeploymentError(
            "\n".join([f"{source} is not a deployments file that this version can read:", *problems])
            + "\nwrite it again with `waybill deploy`"
        )
